//! Pod: initial status, what each subresource may change, and graceful deletion.

use crate::core::podspec::{self, qos, warnings};
use crate::fill::items;
use crate::hooks::take;
use crate::{Hooks, Scope, workload};
use pintle_meta::FieldErrors;
use pintle_value::{Map, Value};
use std::collections::{HashMap, VecDeque};

pub(crate) mod apparmor;
mod create;
mod status;
mod subresources;
mod update;

pub(crate) struct Pod;

impl Hooks for Pod {
    fn warnings_before_create(&self, object: &Value) -> Vec<String> {
        apparmor::deprecated_annotations(object)
    }

    fn prepare_create(&self, object: &mut Value) {
        let mut status = Value::object();
        status.set_at(&["phase"], "Pending".into());
        // kube-apiserver accepts the QoS class that the client sends.
        let claimed = object.str_at(&["status", "qosClass"]).to_string();
        let class = match claimed.as_str() {
            "" => object.get("spec").map_or(qos::BEST_EFFORT, qos::class),
            claimed => claimed,
        };
        status.set_at(&["qosClass"], class.into());
        object.set_at(&["status"], status);
        podspec::disabled::drop_fields(object.get_mut("spec"), None);
        gated_condition(object);
        merge_label_keys(object);
        apparmor::fields_from_annotations(object);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        match scope {
            Scope::Main => take(object, old, &["status"]),
            Scope::Sub("status") => prepare_status(object, old),
            Scope::Sub("ephemeralcontainers") => prepare_ephemeral(object, old),
            Scope::Sub("resize") => prepare_resize(object, old),
            Scope::Sub(_) => {}
        }
        podspec::disabled::drop_fields(object.get_mut("spec"), old.get("spec"));
        podspec::disabled::drop_status_fields(object.get_mut("status"), old.get("status"));
        if matches!(scope, Scope::Sub("ephemeralcontainers" | "resize")) {
            count_generation(object, old);
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        create::validate(object, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        match scope {
            Scope::Sub("status") => status::validate(object, old, errors),
            Scope::Sub("ephemeralcontainers") => subresources::validate_ephemeral(object, old, errors),
            Scope::Sub("resize") => subresources::validate_resize(object, old, errors),
            Scope::Main | Scope::Sub(_) => update::validate(object, old, errors),
        }
    }

    /// Users rarely update pods, so only new ones get warnings.
    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let mut found: Vec<String> =
            workload::name_warning(object, "the Pod's hostname").into_iter().collect();
        found.extend(warnings::pod(object));
        found
    }

    fn is_graceful(&self) -> bool {
        true
    }

    fn grace_seconds(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        let own = object.at(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_int);
        let wanted = requested.or(own).unwrap_or(0);
        let unscheduled = object.str_at(&["spec", "nodeName"]).is_empty();
        let ended = matches!(object.str_at(&["status", "phase"]), "Failed" | "Succeeded");
        let seconds = if unscheduled || ended { 0 } else { wanted };
        Some(if seconds < 0 { 1 } else { seconds })
    }
}

/// Sets the condition of a new pod with scheduling gates. Its time is the creation time.
fn gated_condition(object: &mut Value) {
    if object.items_at(&["spec", "schedulingGates"]).is_empty() {
        return;
    }
    let mut condition = Value::object();
    let now = object.at(&["metadata", "creationTimestamp"]).cloned().unwrap_or_default();
    condition.set_at(&["type"], "PodScheduled".into());
    condition.set_at(&["status"], "False".into());
    condition.set_at(&["lastProbeTime"], Value::Null);
    condition.set_at(&["lastTransitionTime"], now);
    condition.set_at(&["reason"], "SchedulingGated".into());
    condition.set_at(&["message"], "Scheduling is blocked due to non-empty scheduling gates".into());
    object.set_at(&["status", "conditions"], Value::Array(vec![condition]));
}

/// Resolves `matchLabelKeys` with the pod's own labels.
fn merge_label_keys(object: &mut Value) {
    let labels = object.at(&["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let Some(spec) = object.get_mut("spec") else { return };
    for side in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.at_mut(&["affinity", side]) else { continue };
        for weighted in items(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                merge_into_selector(term, &labels);
            }
        }
        for term in items(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_into_selector(term, &labels);
        }
    }
    for constraint in items(spec, "topologySpreadConstraints") {
        merge_into_selector(constraint, &labels);
    }
}

fn merge_into_selector(term: &mut Value, labels: &Map) {
    if term.get("labelSelector").is_none() {
        return;
    }
    let mut added = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.items_at(&[list]).iter().filter_map(Value::as_str) {
            let Some(value) = labels.get(key) else { continue };
            let mut requirement = Value::object();
            requirement.set_at(&["key"], key.into());
            requirement.set_at(&["operator"], operator.into());
            requirement.set_at(&["values"], Value::Array(vec![value.clone()]));
            added.push(requirement);
        }
    }
    if added.is_empty() {
        return;
    }
    let mut expressions = term.items_at(&["labelSelector", "matchExpressions"]).to_vec();
    expressions.append(&mut added);
    term.set_at(&["labelSelector", "matchExpressions"], Value::Array(expressions));
}

fn prepare_status(object: &mut Value, old: &Value) {
    take(object, old, &["spec"]);
    object.remove_at(&["metadata", "deletionTimestamp"]);
    take(object, old, &["metadata", "ownerReferences"]);
    if object.str_at(&["status", "qosClass"]).is_empty() {
        take(object, old, &["status", "qosClass"]);
    }
    keep_observed_generations(object, old);
}

/// Restores `observedGeneration` in the status and in each condition: a client that does not know the field must not
/// clear it.
fn keep_observed_generations(object: &mut Value, old: &Value) {
    let number = |v: &Value| v.get("observedGeneration").and_then(Value::as_int).unwrap_or(0);
    if object.get("status").map_or(0, number) == 0 && old.get("status").map_or(0, number) != 0 {
        take(object, old, &["status", "observedGeneration"]);
    }
    let mut before: HashMap<&str, VecDeque<i64>> = HashMap::new();
    for condition in old.items_at(&["status", "conditions"]) {
        before.entry(condition.str_at(&["type"])).or_default().push_back(number(condition));
    }
    let Some(status) = object.get_mut("status") else { return };
    for condition in items(status, "conditions") {
        // The second condition of a type corresponds to the second old one.
        let of_type = before.get_mut(condition.str_at(&["type"]));
        let Some(generation) = of_type.and_then(VecDeque::pop_front) else { continue };
        if number(condition) == 0 && generation != 0 {
            condition.set_at(&["observedGeneration"], generation.into());
        }
    }
}

/// Increments the generation: these subresources change the spec.
fn count_generation(object: &mut Value, old: &Value) {
    let generation = podspec::options::generation(old);
    let changed = object.get("spec") != old.get("spec");
    object.set_at(&["metadata", "generation"], generation.wrapping_add(i64::from(changed)).into());
}

/// Restores metadata that a subresource may not change.
fn reset_metadata(object: &mut Value, old: &Value) {
    for key in [
        "deletionTimestamp",
        "generation",
        "selfLink",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        take(object, old, &["metadata", key]);
    }
}

fn prepare_ephemeral(object: &mut Value, old: &Value) {
    let containers = object.at(&["spec", "ephemeralContainers"]).cloned();
    take(object, old, &["spec"]);
    take(object, old, &["status"]);
    reset_metadata(object, old);
    match containers {
        Some(containers) => object.set_at(&["spec", "ephemeralContainers"], containers),
        None => _ = object.remove_at(&["spec", "ephemeralContainers"]),
    }
}

/// Only accepts changes of resources and resize policies. If containers were added, removed or renamed, the object
/// stays as it is and validation refuses it.
fn prepare_resize(object: &mut Value, old: &Value) {
    let count = |v: &Value, list: &str| v.items_at(&["spec", list]).len();
    if ["containers", "initContainers"].iter().any(|list| count(object, list) != count(old, list)) {
        return;
    }
    let resources = object.at(&["spec", "resources"]).cloned();
    let lists = ["containers", "initContainers"].map(|list| (list, merge_resized(object, old, list)));
    take(object, old, &["spec"]);
    match resources {
        Some(resources) => object.set_at(&["spec", "resources"], resources),
        None => _ = object.remove_at(&["spec", "resources"]),
    }
    take(object, old, &["status"]);
    reset_metadata(object, old);
    for (list, containers) in lists {
        if !containers.is_empty() {
            object.set_at(&["spec", list], Value::Array(containers));
        }
    }
}

fn merge_resized(object: &Value, old: &Value, list: &str) -> Vec<Value> {
    let (new, old) = (object.items_at(&["spec", list]), old.items_at(&["spec", list]));
    if new.iter().zip(old).any(|(n, o)| n.str_at(&["name"]) != o.str_at(&["name"])) {
        return new.to_vec();
    }
    let merged = |(n, o): (&Value, &Value)| {
        let mut container = o.clone();
        take(&mut container, n, &["resources"]);
        take(&mut container, n, &["resizePolicy"]);
        container
    };
    new.iter().zip(old).map(merged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, tree, updated};
    use pintle_value::json;

    fn pod(spec: &str) -> String {
        let mut pod = tree(&format!(r#"{{"metadata":{{"name":"p","namespace":"n"}},"spec":{spec}}}"#));
        crate::defaults::of_type("core/v1.Pod").unwrap().apply(&mut pod);
        json::text(&pod)
    }

    const MINIMAL: &str = r#"{"containers":[{"name":"c","image":"i"}]}"#;

    #[test]
    fn a_minimal_pod_is_completed() {
        let mut pod = tree(&pod(MINIMAL));
        Pod.prepare_create(&mut pod);
        for (path, expected) in [
            (vec!["spec", "dnsPolicy"], Value::from("ClusterFirst")),
            (vec!["spec", "restartPolicy"], "Always".into()),
            (vec!["spec", "terminationGracePeriodSeconds"], 30.into()),
            (vec!["spec", "enableServiceLinks"], true.into()),
            (vec!["status", "phase"], "Pending".into()),
            (vec!["status", "qosClass"], "BestEffort".into()),
        ] {
            assert_eq!(pod.at(&path), Some(&expected), "{path:?}");
        }
        assert_eq!(created(&Pod, &self::pod(MINIMAL)), [""; 0]);
    }

    #[test]
    fn faults_of_a_new_pod() {
        for (spec, expected) in [
            (r#"{"containers":[]}"#, vec!["spec.containers: Required value"]),
            (
                r#"{"containers":[{"name":"c","image":" i"},{"name":"c","image":"i"}]}"#,
                vec![
                    r#"spec.containers[1].name: Duplicate value: "c""#,
                    r#"spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace"#,
                ],
            ),
            (
                r#"{"containers":[{"name":"c","image":"i","volumeMounts":[{"name":"v","mountPath":"/m"}]}]}"#,
                vec![r#"spec.containers[0].volumeMounts[0].name: Not found: "v""#],
            ),
            (
                r#"{"restartPolicy":"Odd","containers":[{"name":"c","image":"i"}]}"#,
                vec![
                    r#"spec.restartPolicy: Unsupported value: "Odd": supported values: "Always", "OnFailure", "Never""#,
                ],
            ),
            (
                r#"{"volumes":[{"name":"v","emptyDir":{},"hostPath":{"path":"/"}}],"containers":[{"name":"c","image":"i"}]}"#,
                vec!["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
            ),
        ] {
            assert_eq!(created(&Pod, &pod(spec)), expected, "{spec}");
        }
    }

    #[test]
    fn an_update_changes_images_and_little_else() {
        let old = pod(r#"{"containers":[{"name":"c","image":"i"}],"activeDeadlineSeconds":10}"#);
        let new = |spec: &str| updated(&Pod, Scope::Main, &pod(spec), &old);
        assert_eq!(new(r#"{"containers":[{"name":"c","image":"j"}],"activeDeadlineSeconds":5}"#), [""; 0]);
        assert_eq!(
            new(r#"{"containers":[{"name":"c","image":"i"}],"activeDeadlineSeconds":11}"#),
            ["spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value"]
        );
        let renamed = new(r#"{"containers":[{"name":"d","image":"i"}],"activeDeadlineSeconds":10}"#);
        let [error] = renamed.as_slice() else { panic!("one error: {renamed:?}") };
        assert!(
            error.starts_with("spec: Forbidden: pod updates may not change fields other than "),
            "{error}"
        );
        assert!(error.contains("\n-   \"Name\": \"c\",\n+   \"Name\": \"d\",\n"), "{error}");
    }

    #[test]
    fn deletion_waits_only_for_pods_that_run() {
        for (spec, status, requested, expected) in [
            (r#"{"nodeName":"n","terminationGracePeriodSeconds":30}"#, "{}", None, 30),
            (r#"{"nodeName":"n","terminationGracePeriodSeconds":30}"#, "{}", Some(5), 5),
            (r#"{"nodeName":"n"}"#, "{}", Some(-1), 1),
            (r#"{"terminationGracePeriodSeconds":30}"#, "{}", None, 0),
            (r#"{"nodeName":"n","terminationGracePeriodSeconds":30}"#, r#"{"phase":"Failed"}"#, None, 0),
        ] {
            let pod = tree(&format!(r#"{{"spec":{spec},"status":{status}}}"#));
            assert_eq!(Pod.grace_seconds(&pod, requested), Some(expected), "{spec} {status}");
        }
    }

    #[test]
    fn a_resize_brings_resources_and_a_generation() {
        let with = |cpu: &str, image: &str| {
            tree(&format!(
                r#"{{"metadata":{{"generation":1}},"spec":{{"containers":[{{"name":"c","image":"{image}","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#
            ))
        };
        let old = with("1", "i");
        let mut object = with("2", "j");
        Pod.prepare_update(Scope::Sub("resize"), &mut object, &old);
        let mut expected = with("2", "i");
        expected.set_at(&["metadata", "generation"], 2.into());
        assert_eq!(object, expected);
    }
}
