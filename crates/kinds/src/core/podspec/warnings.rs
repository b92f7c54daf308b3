//! Warnings about pods and templates: valid, but probably not as intended.

use super::overlaps;
use crate::core::pod::apparmor;
use crate::fields::{entries, int, list, member, opt_int, quantity, text, texts};
use crate::node::labels::deprecation;
use pintle_meta::field::quoted;
use pintle_meta::{names, net};
use pintle_value::{Path, Value};
use std::collections::{HashMap, HashSet};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const SECCOMP: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
/// Annotations that no longer have an effect.
const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        r#"non-functional in v1.11+; use the "sysctls" field instead"#,
    ),
];
/// Removed volume plugins: field, name in the warning, replacement.
const VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Warnings about a pod.
pub(crate) fn pod(object: &Value) -> Vec<String> {
    of(object, &Path::ROOT)
}

/// Warnings about the template at `path`.
pub(crate) fn template(template: Option<&Value>, path: &Path<'_>) -> Vec<String> {
    template.map_or_else(Vec::new, |t| of(t, path))
}

/// The warnings that were found so far.
#[derive(Default)]
pub(crate) struct Warnings(pub(crate) Vec<String>);

impl Warnings {
    fn add(&mut self, path: &Path<'_>, text: &str) {
        self.0.push(format!("{path}: {text}"));
    }
}

fn of(object: &Value, root: &Path<'_>) -> Vec<String> {
    let mut found = Warnings::default();
    let empty = Value::object();
    let spec = object.get("spec").unwrap_or(&empty);
    let meta = object.get("metadata").unwrap_or(&empty);
    let path = root.field("spec");
    let annotations = root.field("metadata.annotations");
    warn_of_node_labels(spec, &path, &mut found);
    warn_of_spread_constraints(spec, &path.field("topologySpreadConstraints"), &mut found);
    for (key, text) in ANNOTATIONS.iter().filter(|(key, _)| meta.at(&["annotations", key]).is_some()) {
        found.add(&annotations.key(key), text);
    }
    warn_of_volumes(spec, &path.field("volumes"), &mut found);
    found.0.extend(overlaps::warnings(list(spec, "volumes")));
    warn_of_repeated(spec, "hostAliases", "ip", &path, &mut found);
    warn_of_repeated(spec, "imagePullSecrets", "name", &path, &mut found);
    for (at, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            found.add(&path.field("imagePullSecrets").index(at).field("name"), "invalid empty name \"\"");
        }
    }
    for name in ["memory", "ephemeral-storage"] {
        warn_of_fractional_bytes(spec.get("overhead"), name, &path.field("overhead"), &mut found);
    }
    if spec.at(&["securityContext", "seccompProfile"]).is_none() {
        let key = "seccomp.security.alpha.kubernetes.io/pod";
        if meta.at(&["annotations", key]).is_some() {
            found.add(&annotations.key(key), SECCOMP);
        }
    }
    super::visit_containers(spec, &path, |container, path| {
        warn_of_profile_annotations(container, spec, meta, root, &annotations, &mut found);
        for name in ["memory", "ephemeral-storage"] {
            for which in ["limits", "requests"] {
                let resources = path.field("resources");
                warn_of_fractional_bytes(
                    container.at(&["resources", which]),
                    name,
                    &resources.field(which),
                    &mut found,
                );
            }
        }
        warn_of_repeated_variables(container, &path.field("env"), &mut found);
    });
    warn_of_ports(spec, &path, &mut found);
    if opt_int(spec, "terminationGracePeriodSeconds").is_some_and(|s| s < 0) {
        let text = "must be >= 0; negative values are invalid and will be treated as 1";
        found.add(&path.field("terminationGracePeriodSeconds"), text);
    }
    warn_of_affinity(spec, &path.field("affinity"), &mut found);
    warn_of_addresses(spec, &path, &mut found);
    found.0
}

fn warn_of_node_labels(spec: &Value, path: &Path<'_>, found: &mut Warnings) {
    for (key, _) in entries(spec.get("nodeSelector")) {
        if let Some(text) = deprecation(key) {
            found.add(&path.field("nodeSelector").key(key), text);
        }
    }
    let node = path.field("affinity.nodeAffinity");
    let required = node.field(REQUIRED);
    let terms = required.field("nodeSelectorTerms");
    let at = ["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"];
    for (index, term) in spec.items_at(&at).iter().enumerate() {
        warn_of_node_selector_term(term, false, &terms.index(index), found);
    }
    let preferred = node.field(PREFERRED);
    for (index, term) in spec.items_at(&["affinity", "nodeAffinity", PREFERRED]).iter().enumerate() {
        if let Some(preference) = term.get("preference") {
            warn_of_node_selector_term(preference, true, &preferred.index(index).field("preference"), found);
        }
    }
}

/// Warnings about deprecated labels in a term of a node selector, and about its values.
pub(crate) fn warn_of_node_selector_term(
    term: &Value,
    check_values: bool,
    path: &Path<'_>,
    found: &mut Warnings,
) {
    for (at, expression) in list(term, "matchExpressions").iter().enumerate() {
        let expressions = path.field("matchExpressions");
        let item = expressions.index(at);
        let key = text(expression, "key");
        if let Some(text) = deprecation(key) {
            found.add(&item.field("key"), &format!("{key} is {text}"));
        }
        for (index, value) in texts(expression, "values").into_iter().enumerate().filter(|_| check_values) {
            for complaint in names::is_label_value(value) {
                found.add(&item.field("values").index(index), &format!("{value} is invalid, {complaint}"));
            }
        }
    }
}

fn warn_of_spread_constraints(spec: &Value, path: &Path<'_>, found: &mut Warnings) {
    for (at, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let item = path.index(at);
        let key = text(constraint, "topologyKey");
        if let Some(text) = deprecation(key) {
            found.add(&item.field("topologyKey"), &format!("{key} is {text}"));
        }
        if member(constraint, "labelSelector").is_none() {
            found.add(&item.field("labelSelector"), NO_SELECTOR);
        }
    }
}

fn warn_of_volumes(spec: &Value, path: &Path<'_>, found: &mut Warnings) {
    for (at, volume) in list(spec, "volumes").iter().enumerate() {
        let item = path.index(at);
        let (before, after) = VOLUMES.split_at(7);
        let gone = |list: &[(&str, &str, &str)], found: &mut Warnings| {
            for (key, error_name, text) in list {
                if member(volume, key).is_some() {
                    found.add(&item.field(error_name), text);
                }
            }
        };
        gone(before, found);
        if let Some(claim) = volume.at(&["ephemeral", "volumeClaimTemplate", "spec"]) {
            found.0.extend(warnings_of_claim_spec(claim, &item.field("ephemeral.volumeClaimTemplate.spec")));
        }
        gone(after, found);
    }
}

/// Warnings about the spec of a claim.
pub(crate) fn warnings_of_claim_spec(spec: &Value, path: &Path<'_>) -> Vec<String> {
    let mut found = Warnings::default();
    let resources = path.field("resources");
    for which in ["requests", "limits"] {
        warn_of_fractional_bytes(
            spec.at(&["resources", which]),
            "storage",
            &resources.field(which),
            &mut found,
        );
    }
    found.0
}

fn warn_of_fractional_bytes(list: Option<&Value>, name: &str, path: &Path<'_>, found: &mut Warnings) {
    let Some(value) = list.and_then(|l| l.get(name)) else { return };
    let amount = quantity(Some(value));
    if amount.milli_value() % 1000 != 0 {
        let amount_text = quoted(&amount.to_string());
        found.add(
            &path.key(name),
            &format!("fractional byte value {amount_text} is invalid, must be an integer"),
        );
    }
}

fn warn_of_repeated(spec: &Value, key: &str, field: &str, path: &Path<'_>, found: &mut Warnings) {
    let mut seen = HashSet::new();
    for (at, item) in list(spec, key).iter().enumerate() {
        let value = text(item, field);
        if !seen.insert(value) {
            found.add(
                &path.field(key).index(at).field(field),
                &format!("duplicate {field} {}", quoted(value)),
            );
        }
    }
}

fn warn_of_profile_annotations(
    container: &Value,
    spec: &Value,
    meta: &Value,
    root: &Path<'_>,
    annotations: &Path<'_>,
    found: &mut Warnings,
) {
    let name = text(container, "name");
    let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
    let has = |field: &str| container.at(&["securityContext", field]).is_some();
    if !has("seccompProfile") && meta.at(&["annotations", &key]).is_some() {
        found.add(&annotations.key(&key), SECCOMP);
    }
    // Annotations of a pod were warned of before they became fields.
    if root.is_root() {
        return;
    }
    let key = format!("{}{name}", apparmor::ANNOTATION_PREFIX);
    let Some(annotation) = meta.at(&["annotations", &key]).and_then(Value::as_str) else { return };
    let own = apparmor::profile(annotation);
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]);
    if !has("appArmorProfile") && (of_pod.is_none() || of_pod != own.as_ref()) {
        found.add(&annotations.key(&key), apparmor::DEPRECATED);
    }
}

fn warn_of_repeated_variables(container: &Value, path: &Path<'_>, found: &mut Warnings) {
    let mut seen = HashSet::new();
    for (at, var) in list(container, "env").iter().enumerate() {
        let (name, value) = (text(var, "name"), text(var, "value"));
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        if member(var, "valueFrom").is_some() || value == reference || !value.contains(&reference) {
            let quoted_name = quoted(name);
            let text =
                format!("hides previous definition of {quoted_name}, which may be dropped when using apply");
            found.add(&path.index(at), &text);
        }
    }
}

fn warn_of_ports(spec: &Value, path: &Path<'_>, found: &mut Warnings) {
    let mut all: HashMap<(i64, &str), Vec<(String, &Value)>> = HashMap::new();
    super::visit_containers(spec, path, |container, path| {
        for (at, port) in list(container, "ports").iter().enumerate() {
            let ports = path.field("ports");
            let item = ports.index(at);
            if !text(port, "hostIP").is_empty() && int(port, "hostPort") == 0 {
                found.add(&item, &format!("hostIP set without hostPort: {}", go_text_of_port(port)));
            }
            let others = all.entry((int(port, "containerPort"), text(port, "protocol"))).or_default();
            for (other_path, other) in others.iter() {
                if let Some(what) = port_conflict(port, other) {
                    found.add(&item, &format!("{what} port definition with {other_path}"));
                }
            }
            others.push((item.to_string(), port));
        }
    });
    let mut names: HashMap<&str, String> = HashMap::new();
    super::visit_containers(spec, path, |container, path| {
        for (at, port) in list(container, "ports").iter().enumerate() {
            let name = text(port, "name");
            let ports = path.field("ports");
            let item = ports.index(at);
            match names.get(name) {
                _ if name.is_empty() => {}
                None => _ = names.insert(name, item.to_string()),
                Some(other) => {
                    let quoted_name = quoted(name);
                    let text = format!(
                        "duplicate port name {quoted_name} with {other}, services and probes that select ports by name will use {other}"
                    );
                    found.add(&item, &text);
                }
            }
        }
    });
}

fn port_conflict(port: &Value, other: &Value) -> Option<&'static str> {
    let (ip, other_ip) = (text(port, "hostIP"), text(other, "hostIP"));
    let (host, other_host) = (int(port, "hostPort"), int(other, "hostPort"));
    if ip == other_ip && host == other_host {
        Some("duplicate")
    } else if host == 0 || other_host == 0 {
        Some("overlapping")
    } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// A port as Go prints its struct.
fn go_text_of_port(port: &Value) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        text(port, "name"),
        int(port, "hostPort"),
        int(port, "containerPort"),
        text(port, "protocol"),
        text(port, "hostIP")
    )
}

fn warn_of_affinity(spec: &Value, path: &Path<'_>, found: &mut Warnings) {
    for side in ["podAffinity", "podAntiAffinity"] {
        let path = path.field(side);
        for (at, term) in spec.items_at(&["affinity", side, REQUIRED]).iter().enumerate() {
            if member(term, "labelSelector").is_none() {
                found.add(&path.field(REQUIRED).index(at).field("labelSelector"), NO_SELECTOR);
            }
        }
        for (at, weighted) in spec.items_at(&["affinity", side, PREFERRED]).iter().enumerate() {
            if weighted.at(&["podAffinityTerm", "labelSelector"]).is_none() {
                let list = path.field(PREFERRED);
                let item = list.index(at);
                found.add(&item.field("podAffinityTerm.labelSelector"), NO_SELECTOR);
            }
        }
    }
}

fn warn_of_addresses(spec: &Value, path: &Path<'_>, found: &mut Warnings) {
    let servers = path.field("dnsConfig.nameservers");
    for (at, server) in spec.items_at(&["dnsConfig", "nameservers"]).iter().enumerate() {
        found.0.extend(net::ip_warnings(&servers.index(at), server.as_str().unwrap_or("")));
    }
    for (at, alias) in list(spec, "hostAliases").iter().enumerate() {
        let aliases = path.field("hostAliases");
        found.0.extend(net::ip_warnings(&aliases.index(at).field("ip"), text(alias, "ip")));
    }
}
