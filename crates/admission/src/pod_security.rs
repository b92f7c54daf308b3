//! PodSecurity: enforces, audits and warns according to the pod security labels of a namespace.

mod checks;
mod counts;
mod policy;
mod settings;

use crate::config::PluginConfig;
use crate::{Attributes, ClusterState, Operation, Plugin, PluginError, Resources, Validation};
use counts::Mode;
use pintle_meta::field::quoted;
use pintle_meta::{FieldErrors, Status};
use pintle_value::Value;
use policy::{Level, LevelVersion, Policy};
use settings::Settings;
use std::collections::{BTreeMap, HashSet};

/// How many pods of a namespace are checked when its policy changes.
const PODS_MAX: usize = 3000;

const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";

#[derive(Default)]
pub(crate) struct PodSecurity(Settings);

impl PodSecurity {
    pub(crate) fn new(config: Option<&PluginConfig>) -> Result<Self, PluginError> {
        counts::prepare();
        config.map_or_else(|| Ok(PodSecurity::default()), |config| Settings::new(config).map(PodSecurity))
    }
}

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn resources(&self) -> Resources {
        &[
            ("", "namespaces"),
            ("", "pods"),
            ("", "replicationcontrollers"),
            ("apps", "replicasets"),
            ("apps", "deployments"),
            ("apps", "statefulsets"),
            ("apps", "daemonsets"),
            ("batch", "jobs"),
            ("", "podtemplates"),
            ("batch", "cronjobs"),
        ]
    }

    fn validate(
        &self,
        Validation { request, object, cluster, warnings }: Validation<'_>,
    ) -> Result<(), Status> {
        let Some(object) = object.filter(|_| request.operation != Operation::Delete) else { return Ok(()) };
        match (request.kind.group.as_str(), request.kind.plural.as_str()) {
            ("", "namespaces") => self.namespace(request, object, cluster, warnings),
            ("", "pods") => self.check_pod(request, object, cluster, warnings),
            ("", "replicationcontrollers")
            | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
            | ("batch", "jobs") => {
                self.controller(request, object, &["spec", "template"], cluster, warnings);
                Ok(())
            }
            ("", "podtemplates") => {
                self.controller(request, object, &["template"], cluster, warnings);
                Ok(())
            }
            ("batch", "cronjobs") => {
                let template = ["spec", "jobTemplate", "spec", "template"];
                self.controller(request, object, &template, cluster, warnings);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl PodSecurity {
    /// Validates a namespace's labels, and warns about existing pods that violate a stricter policy.
    fn namespace(
        &self,
        request: &Attributes<'_>,
        object: &Value,
        cluster: &dyn ClusterState,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        if !request.subresource.is_empty() {
            return Ok(());
        }
        let defaults = self.0.defaults;
        let (new, errors) = Policy::of_namespace(object, defaults);
        let invalid =
            |errors: &FieldErrors| Err(Status::invalid(&request.kind.group_kind(), request.name, errors));
        let is_exempt = self.0.namespaces.iter().any(|name| name == request.namespace);
        let Some(old) = request.old else {
            if !errors.is_empty() {
                return invalid(&errors);
            }
            if is_exempt {
                warnings.extend(self.ignored_policy(object, &new));
            }
            return Ok(());
        };
        let (old, old_errors) = Policy::of_namespace(old, defaults);
        if !errors.is_empty() && errors != old_errors {
            return invalid(&errors);
        }
        let relaxed = new.enforce.version == old.enforce.version && new.enforce.level <= old.enforce.level;
        if new.enforce == old.enforce || new.enforce.level == Level::Privileged || relaxed {
            return Ok(());
        }
        if is_exempt {
            warnings.extend(self.ignored_policy(object, &new))
        } else {
            let name = object.str_at(&["metadata", "name"]);
            self.warn_of_pods(name, new.enforce, cluster, warnings);
        }
        Ok(())
    }

    /// The warning that labels of an exempt namespace have no effect.
    fn ignored_policy(&self, namespace: &Value, policy: &Policy) -> Option<String> {
        if policy.is_privileged() || policy.is_equivalent(&self.0.defaults) {
            return None;
        }
        let is_labelled = |mode: &str| {
            ["", "-version"].iter().any(|suffix| {
                let key = format!("pod-security.kubernetes.io/{mode}{suffix}");
                namespace.at(&["metadata", "labels", &key]).is_some()
            })
        };
        let modes = [("enforce", policy.enforce), ("audit", policy.audit), ("warn", policy.warn)];
        let labelled =
            modes.into_iter().filter(|(mode, lv)| lv.level != Level::Privileged && is_labelled(mode));
        let labelled: Vec<String> = labelled.map(|(mode, lv)| format!("{mode}={lv}")).collect();
        Some(format!(
            "namespace {} is exempt from Pod Security, and the policy ({}) will be ignored",
            quoted(namespace.str_at(&["metadata", "name"])),
            labelled.join(", ")
        ))
    }

    /// Why a request is exempt by its namespace or its user.
    fn exemption(&self, request: &Attributes<'_>) -> Option<&'static str> {
        let is_listed = |list: &[String], name: &str| !name.is_empty() && list.iter().any(|own| own == name);
        if is_listed(&self.0.namespaces, request.namespace) {
            return Some("namespace");
        }
        is_listed(&self.0.users, &request.user.name).then_some("user")
    }

    fn is_exempt_by_class(&self, pod: &Value) -> bool {
        let class = pod.str_at(&["spec", "runtimeClassName"]);
        !class.is_empty() && self.0.runtime_classes.iter().any(|own| own == class)
    }

    fn policy_of(
        &self,
        request: &Attributes<'_>,
        cluster: &dyn ClusterState,
    ) -> Result<(Policy, FieldErrors), Status> {
        let Some(labels) = cluster.namespace_labels(request.namespace) else {
            return Err(Status::internal(&format!(
                "failed to lookup namespace {}",
                quoted(request.namespace)
            )));
        };
        let label = |name: &str| labels.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        Ok(Policy::of_labels(label, self.0.defaults))
    }

    fn check_pod(
        &self,
        request: &Attributes<'_>,
        pod: &Value,
        cluster: &dyn ClusterState,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        const IGNORED: [&str; 8] =
            ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
        if IGNORED.contains(&request.subresource) {
            return Ok(());
        }
        if let Some(reason) = self.exemption(request) {
            counts::count_exemption(request);
            pintle_audit::annotate(EXEMPT, || reason.to_string());
            return Ok(());
        }
        let (policy, errors) =
            self.policy_of(request, cluster).inspect_err(|_| counts::count_error(request, true))?;
        if errors.is_empty() && policy.is_privileged() {
            counts::count_evaluation(request, policy.enforce, Mode::Enforce, true);
            pintle_audit::annotate(ENFORCED, || LevelVersion::PRIVILEGED.to_string());
            return Ok(());
        }
        if request.old.is_some_and(|old| !is_significant(pod, old)) {
            return Ok(());
        }
        if self.is_exempt_by_class(pod) {
            counts::count_exemption(request);
            pintle_audit::annotate(EXEMPT, || "runtimeClass".to_string());
            return Ok(());
        }
        note_errors(request, &errors);
        pintle_audit::annotate(ENFORCED, || policy.enforce.to_string());
        audit(request, policy.audit, pod);
        let violations = checks::evaluate(policy.enforce, pod.get("metadata"), pod.get("spec"));
        counts::count_evaluation(request, policy.enforce, Mode::Enforce, violations.is_empty());
        if !violations.is_empty() {
            let why = format!(
                "violates PodSecurity {}: {}",
                quoted(&policy.enforce.to_string()),
                checks::details(&violations)
            );
            return Err(Status::forbidden(&request.kind.group_resource(), request.name, &why));
        }
        warn_of_violations(request, policy.warn, pod, warnings);
        Ok(())
    }

    /// Warns about the pod template of a controller, which is never refused.
    fn controller(
        &self,
        request: &Attributes<'_>,
        object: &Value,
        template: &[&str],
        cluster: &dyn ClusterState,
        warnings: &mut Vec<String>,
    ) {
        if !request.subresource.is_empty() {
            return;
        }
        if let Some(reason) = self.exemption(request) {
            counts::count_exemption(request);
            return pintle_audit::annotate(EXEMPT, || reason.to_string());
        }
        let Ok((policy, errors)) = self.policy_of(request, cluster) else {
            counts::count_error(request, true);
            let namespace = quoted(request.namespace);
            let why = || format!("failed to lookup namespace {namespace}: namespace {namespace} not found");
            return pintle_audit::annotate("pod-security.kubernetes.io/error", why);
        };
        let is_silent = policy.warn.level == Level::Privileged && policy.audit.level == Level::Privileged;
        let Some(template) = object.at(template).filter(|_| !errors.is_empty() || !is_silent) else { return };
        if self.is_exempt_by_class(template) {
            counts::count_exemption(request);
            return pintle_audit::annotate(EXEMPT, || "runtimeClass".to_string());
        }
        note_errors(request, &errors);
        audit(request, policy.audit, template);
        warn_of_violations(request, policy.warn, template, warnings);
    }

    /// Warns about the pods of a namespace that violate its new policy, grouped by reason.
    fn warn_of_pods(
        &self,
        namespace: &str,
        enforce: LevelVersion,
        cluster: &dyn ClusterState,
        warnings: &mut Vec<String>,
    ) {
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        let mut controllers: HashSet<String> = HashSet::new();
        let pods = cluster.objects("", "pods", namespace).into_iter();
        for pod in pods.filter(|pod| !self.is_exempt_by_class(pod)) {
            let owners = pod.items_at(&["metadata", "ownerReferences"]).iter();
            let controller =
                owners.clone().find(|o| o.get("controller").and_then(Value::as_bool) == Some(true));
            let fresh = controller.is_none_or(|owner| controllers.insert(owner.str_at(&["uid"]).to_string()));
            if fresh { first.push(pod) } else { rest.push(pod) }
        }
        first.append(&mut rest);
        let total = first.len();
        let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
        for pod in first.iter().take(PODS_MAX) {
            let violations = checks::evaluate(enforce, pod.get("metadata"), pod.get("spec"));
            if violations.is_empty() {
                continue;
            }
            let reasons: Vec<&str> = violations.iter().map(|v| v.reason.as_str()).collect();
            let name = pod.str_at(&["metadata", "name"]).to_string();
            let entry = found.entry(reasons.join(", ")).or_insert_with(|| (name.clone(), 0));
            entry.0 = entry.0.clone().min(name);
            entry.1 = entry.1.saturating_add(1);
        }
        if total > PODS_MAX {
            warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_MAX} of {total} existing pods"
        ));
        }
        if !found.is_empty() {
            warnings.push(format!(
                "existing pods in namespace {} violate the new PodSecurity enforce level {}",
                quoted(namespace),
                quoted(&enforce.to_string())
            ));
        }
        let mut lines: Vec<String> = found
            .into_iter()
            .map(|(reasons, (pod, count))| match count {
                1 => format!("{pod}: {reasons}"),
                2 => format!("{pod} (and 1 other pod): {reasons}"),
                _ => format!("{pod} (and {} other pods): {reasons}", count.saturating_sub(1)),
            })
            .collect();
        lines.sort();
        warnings.append(&mut lines);
    }
}

/// If the namespace's labels are invalid, counts the error and annotates the audit event.
fn note_errors(request: &Attributes<'_>, errors: &FieldErrors) {
    if !errors.is_empty() {
        counts::count_error(request, false);
        pintle_audit::annotate("pod-security.kubernetes.io/error", || {
            format!("Failed to parse policy: {}", errors.aggregate_message())
        });
    }
}

/// Annotates the audit event if the pod violates the audited level.
fn audit(request: &Attributes<'_>, level: LevelVersion, pod: &Value) {
    let violations = checks::evaluate(level, pod.get("metadata"), pod.get("spec"));
    if !violations.is_empty() {
        counts::count_evaluation(request, level, Mode::Audit, false);
        pintle_audit::annotate("pod-security.kubernetes.io/audit-violations", || {
            let level = quoted(&level.to_string());
            format!("would violate PodSecurity {level}: {}", checks::details(&violations))
        });
    }
}

fn warn_of_violations(
    request: &Attributes<'_>,
    level: LevelVersion,
    pod: &Value,
    warnings: &mut Vec<String>,
) {
    let violations = checks::evaluate(level, pod.get("metadata"), pod.get("spec"));
    if !violations.is_empty() {
        counts::count_evaluation(request, level, Mode::Warn, false);
        let level_text = quoted(&level.to_string());
        warnings.push(format!("would violate PodSecurity {level_text}: {}", checks::details(&violations)));
    }
}

/// Returns whether an update changes what the policy checks: the set of containers or their images.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let images = |pod: &Value, list: &str| -> Vec<String> {
        pod.items_at(&["spec", list]).iter().map(|c| c.str_at(&["image"]).to_string()).collect()
    };
    if ["containers", "initContainers"].iter().any(|list| images(pod, list) != images(old, list)) {
        return true;
    }
    let before = old.items_at(&["spec", "ephemeralContainers"]);
    pod.items_at(&["spec", "ephemeralContainers"]).iter().any(|container| {
        let same = before.iter().find(|c| c.str_at(&["name"]) == container.str_at(&["name"]));
        same.is_none_or(|c| c.str_at(&["image"]) != container.str_at(&["image"]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind};

    fn cluster(labels: &str) -> Objects {
        let namespace = format!(r#"{{"metadata":{{"name":"n","labels":{labels}}}}}"#);
        Objects::of(&[("", "namespaces", &namespace)])
    }

    #[test]
    fn decisions_are_counted() {
        let labels = r#"{"pod-security.kubernetes.io/enforce":"baseline","pod-security.kubernetes.io/enforce-version":"v1.30",
            "pod-security.kubernetes.io/warn":"restricted","pod-security.kubernetes.io/warn-version":"v1.99"}"#;
        for pod in [r#"{"spec":{"hostNetwork":true}}"#, r#"{"spec":{"containers":[{"name":"c"}]}}"#] {
            _ = admitted(&PodSecurity::default(), &kind("", "pods"), pod, &cluster(labels));
        }
        let text: String = pintle_metrics::Text::default().collect();
        for series in [
            r#"decision="deny",mode="enforce",policy_level="baseline",policy_version="v1.30""#,
            r#"decision="allow",mode="enforce",policy_level="baseline",policy_version="v1.30""#,
            r#"decision="deny",mode="warn",policy_level="restricted",policy_version="future""#,
        ] {
            let labels = format!(r#"{series},request_operation="create",resource="pod",subresource="""#);
            assert!(text.contains(&format!("\npod_security_evaluations_total{{{labels}}} 1\n")), "{labels}");
        }
    }

    #[test]
    fn pods_are_measured_by_the_labels_of_their_namespace() {
        let pods = kind("", "pods");
        let baseline = r#"{"pod-security.kubernetes.io/enforce":"baseline"}"#;
        let restricted = r#"{"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/enforce-version":"v1.30"}"#;
        let good = r#"{"spec":{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[
            {"name":"c","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}"#;
        for (labels, pod, why) in [
            ("{}", r#"{"spec":{"hostNetwork":true}}"#, ""),
            (baseline, r#"{"spec":{"containers":[{"name":"c"}]}}"#, ""),
            (restricted, good, ""),
            (
                baseline,
                r#"{"spec":{"hostNetwork":true,"hostPID":true,"containers":[{"name":"a","securityContext":{"privileged":true}},{"name":"b","ports":[{"hostPort":80}]}]}}"#,
                r#"violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true, hostPID=true), hostPort (container "b" uses hostPort 80), privileged (container "a" must not set securityContext.privileged=true)"#,
            ),
            (
                restricted,
                r#"{"spec":{"volumes":[{"name":"v","hostPath":{}}],"containers":[{"name":"c"}]}}"#,
                r#"violates PodSecurity "restricted:v1.30": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), restricted volume types (volume "v" uses restricted volume type "hostPath"), runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
            ),
        ] {
            let refusal =
                admitted(&PodSecurity::default(), &pods, pod, &cluster(labels)).err().unwrap_or_default();
            let expected =
                if why.is_empty() { String::new() } else { format!("pods \"x\" is forbidden: {why}") };
            assert_eq!(refusal, expected);
        }
    }

    #[test]
    fn controllers_are_warned_of() {
        let deployment = r#"{"spec":{"template":{"spec":{"hostIPC":true}}}}"#;
        let labels = r#"{"pod-security.kubernetes.io/warn":"baseline"}"#;
        let (_, warnings) =
            admitted(&PodSecurity::default(), &kind("apps", "deployments"), deployment, &cluster(labels))
                .unwrap();
        assert_eq!(
            warnings,
            [r#"would violate PodSecurity "baseline:latest": host namespaces (hostIPC=true)"#]
        );
    }

    #[test]
    fn versions_are_numbers_as_in_go() {
        for (version, is_taken) in [
            ("v1.99999999999", true),
            ("v1.9223372036854775807", true),
            ("v1.9223372036854775808", false),
            ("v1.00", false),
            ("v1.-1", false),
        ] {
            assert_eq!(policy::Version::parse(version).is_some(), is_taken, "{version}");
        }
    }

    #[test]
    fn labels_must_make_sense() {
        let namespace = r#"{"metadata":{"name":"x","labels":{"pod-security.kubernetes.io/enforce":"loose","pod-security.kubernetes.io/warn-version":"v1.01"}}}"#;
        let refusal = admitted(&PodSecurity::default(), &kind("", "namespaces"), namespace, &cluster("{}"))
            .unwrap_err();
        assert_eq!(
            refusal,
            r#"Namespace "x" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "loose": must be one of privileged, baseline, restricted, metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "v1.01": must be "latest" or "v1.x"]"#
        );
    }
}
