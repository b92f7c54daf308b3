//! Validates init, regular and ephemeral containers.

use super::options::Options;
use super::resources::{self, Claims, ResourcesOwner};
use super::volumes::Volumes;
use super::{env, handlers, mounts, security};
use crate::fields::{int, list, member, opt_text, text};
use crate::{check, facts};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::HashSet;

/// The limit of restart rules of a container.
const RESTART_RULES_MAX: usize = 20;
const NOT_FOR_INIT: &str = "may not be set for init containers without restartPolicy=Always";
const RULES_NEED_POLICY: &str = "must specify restartPolicy when restart rules are used";
const NOT_FOR_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// The pod's properties that containers are validated against.
pub(crate) struct Pod<'a> {
    pub(crate) spec: &'a Value,
    pub(crate) volumes: Volumes<'a>,
    pub(crate) claims: Claims<'a>,
    pub(crate) grace: Option<i64>,
    pub(crate) os: Option<&'a str>,
    pub(crate) host_users: bool,
    pub(crate) options: Options,
}

/// Validates the regular containers.
pub(crate) fn validate(pod: &Pod<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let containers = list(pod.spec, "containers");
    if containers.is_empty() {
        return errors.required(path, "");
    }
    let mut seen = check::Unique::default();
    for (at, container) in containers.iter().enumerate() {
        let path = path.index(at);
        validate_common(container, pod, &path, errors);
        let name = text(container, "name");
        seen.check(name, &path.field("name"), name, errors);
        handlers::validate(container, pod.grace, pod.os, &path, errors);
        validate_restart_policy(container, &path, errors);
    }
    refuse_host_port_conflicts(containers, path, errors);
}

/// Checks the init containers.
pub(crate) fn validate_init(pod: &Pod<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen: HashSet<&str> = list(pod.spec, "containers").iter().map(|c| text(c, "name")).collect();
    for (at, container) in list(pod.spec, "initContainers").iter().enumerate() {
        let item = path.index(at);
        validate_common(container, pod, &item, errors);
        validate_init_restart_policy(container, &item, errors);
        let name = text(container, "name");
        if seen.contains(name) {
            errors.duplicate(&item.field("name"), name);
        } else if !name.is_empty() {
            seen.insert(name);
        }
        // Init containers run one by one, so their ports can only conflict within one container.
        refuse_host_port_conflicts(std::slice::from_ref(container), path, errors);
        let sidecar = opt_text(container, "restartPolicy") == Some("Always");
        if sidecar {
            handlers::validate(container, pod.grace, pod.os, &item, errors);
        } else {
            for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if member(container, key).is_some() {
                    errors.forbidden(&item.field(key), NOT_FOR_INIT);
                }
            }
        }
        if !sidecar && !pod.options.restart_container_for_init {
            refuse_restart_on_resize(container, &item.field("resizePolicy"), errors);
        }
    }
}

fn refuse_restart_on_resize(container: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    for (at, policy) in list(container, "resizePolicy").iter().enumerate() {
        let restart = text(policy, "restartPolicy");
        if restart == "RestartContainer" {
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(&path.index(at).field("restartPolicy"), Named(restart), detail);
        }
    }
}

/// Checks the ephemeral containers.
pub(crate) fn validate_ephemeral(pod: &Pod<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let others = list(pod.spec, "containers").iter().chain(list(pod.spec, "initContainers"));
    let others: HashSet<&str> = others.map(|c| text(c, "name")).collect();
    let mut seen = others.clone();
    for (at, container) in list(pod.spec, "ephemeralContainers").iter().enumerate() {
        let path = path.index(at);
        validate_common(container, pod, &path, errors);
        require_unpadded_image(container, &path, errors);
        let name = text(container, "name");
        if !seen.insert(name) {
            errors.duplicate(&path.field("name"), name);
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&path.field("targetContainerName"), target);
        }
        validate_ephemeral_fields(container, &path, errors);
    }
}

/// Refuses the fields that ephemeral containers do not support.
fn validate_ephemeral_fields(container: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    /// In the order of Go's struct.
    const FORBIDDEN: [&str; 9] = [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ];
    for key in FORBIDDEN {
        let set = match member(container, key) {
            Some(Value::Object(map)) if key == "resources" => !map.is_empty(),
            Some(_) => true,
            None => false,
        };
        if set {
            errors.forbidden(&path.field(key), NOT_FOR_EPHEMERAL);
        }
    }
    for (at, mount) in list(container, "volumeMounts").iter().enumerate() {
        for key in ["subPath", "subPathExpr"] {
            if !text(mount, key).is_empty() {
                let mounts = path.field("volumeMounts");
                errors.forbidden(&mounts.index(at).field(key), NOT_FOR_EPHEMERAL);
            }
        }
    }
}

/// Validates what holds for all types of containers.
fn validate_common(container: &Value, pod: &Pod<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    const TYPE: &str = "core/v1.Container";
    facts::check_fields(container, TYPE, &["name", "image", "terminationMessagePolicy"], path, errors);
    validate_ports(list(container, "ports"), &path.field("ports"), errors);
    env::validate(list(container, "env"), &path.field("env"), errors);
    env::validate_from(list(container, "envFrom"), &path.field("envFrom"), errors);
    mounts::validate(container, &pod.volumes, &path.field("volumeMounts"), errors);
    mounts::validate_devices(container, &pod.volumes, &path.field("volumeDevices"), errors);
    facts::check_fields(container, TYPE, &["imagePullPolicy"], path, errors);
    let needed = container.get("resources").unwrap_or(&Value::Null);
    resources::validate(
        needed,
        ResourcesOwner::Container,
        &pod.claims,
        &path.field("resources"),
        &pod.options,
        errors,
    );
    validate_resize_policies(container, text(pod.spec, "restartPolicy"), &path.field("resizePolicy"), errors);
    if let Some(context) = member(container, "securityContext") {
        security::validate_container(context, pod.host_users, &path.field("securityContext"), errors);
    }
}

/// Refuses white space around the image of pods; templates are not checked.
pub(crate) fn require_unpadded_image(container: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let image = text(container, "image");
    if image.trim() != image {
        errors.invalid(&path.field("image"), image, "must not have leading or trailing whitespace");
    }
}

fn validate_ports(ports: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen = check::Unique::default();
    for (at, port) in ports.iter().enumerate() {
        let path = path.index(at);
        let name = text(port, "name");
        if !name.is_empty() {
            let complaints = names::is_valid_port_name(name);
            if !complaints.is_empty() {
                check::each(complaints, &path.field("name"), name, errors);
            } else if seen.is_repeated(name) {
                errors.duplicate(&path.field("name"), name);
            }
        }
        facts::check(port, "core/v1.ContainerPort", &path, errors);
    }
}

fn refuse_host_port_conflicts(containers: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    let mut taken = HashSet::new();
    for (at, container) in containers.iter().enumerate() {
        for (index, port) in list(container, "ports").iter().enumerate() {
            let number = int(port, "hostPort");
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if taken.contains(&key) {
                let item = path.index(at);
                let ports = item.field("ports");
                errors.duplicate(&ports.index(index).field("hostPort"), key.as_str());
            }
            taken.insert(key);
        }
    }
}

fn validate_resize_policies(container: &Value, pod_restart: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen = check::Unique::default();
    for (at, policy) in list(container, "resizePolicy").iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        seen.check(resource, &path.index(at), Named(resource), errors);
        check::required_supported(path, resource, &["cpu", "memory"], errors);
        check::required_supported(path, restart, &["NotRequired", "RestartContainer"], errors);
        if pod_restart == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(path, Named(restart), detail);
        }
    }
}

/// Validates the restart policy of an init container, whose restart rules are only validated with a policy.
fn validate_init_restart_policy(container: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if opt_text(container, "restartPolicy").is_some() {
        validate_restart_policy(container, path, errors);
    } else if !list(container, "restartPolicyRules").is_empty() {
        errors.required(&path.field("restartPolicy"), RULES_NEED_POLICY);
    }
}

fn validate_restart_policy(container: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let rules = list(container, "restartPolicyRules");
    let field = path.field("restartPolicy");
    match opt_text(container, "restartPolicy") {
        None if rules.is_empty() => return,
        None => errors.required(&field, RULES_NEED_POLICY),
        policy => check::supported(&field, policy, &["Always", "Never", "OnFailure"], errors),
    }
    let path = path.field("restartPolicyRules");
    if rules.len() > RESTART_RULES_MAX {
        errors.too_many(&path, rules.len(), RESTART_RULES_MAX);
    }
    for (at, rule) in rules.iter().enumerate() {
        facts::check(rule, "core/v1.ContainerRestartRule", &path.index(at), errors);
    }
}
