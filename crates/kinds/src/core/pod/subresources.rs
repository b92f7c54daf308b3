//! Validates resizing a pod and adding ephemeral containers.

use super::Pod;
use super::create::validate_annotations_and_spec;
use super::update;
use crate::core::podspec::annotations::MIRROR;
use crate::core::podspec::qos;
use crate::error_text::diff_from_stored;
use crate::fields::{entries, list, member, opt_text, text};
use crate::hooks::take;
use crate::metadata::ResourceScope;
use crate::{metadata, workload};
use pintle_meta::FieldErrors;
use pintle_meta::field::{Named, quoted};
use pintle_value::{Path, Value};

const SPEC: Path<'static> = Path::of("spec");
/// How kube-apiserver writes a path with a single empty name.
const NOWHERE: Path<'static> = Path::of("[]");
const ONLY_COMPUTE: &str = "only cpu and memory resources are mutable";

fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", MIRROR]).is_some()
}

/// Validates an update of ephemeral containers: existing ones are immutable.
pub(super) fn validate_ephemeral(pod: &Value, old: &Value, errors: &mut FieldErrors) {
    if is_mirror(old) {
        return errors.forbidden(&NOWHERE, "static pods do not support ephemeral containers");
    }
    let options = update::options(old);
    metadata::validate_core_as_new(&Pod, ResourceScope::Namespaced, pod, errors);
    validate_annotations_and_spec(pod, &options, errors);
    update::validate_annotations_update(pod, old, &options, errors);
    let path = SPEC.field("ephemeralContainers");
    let at = ["spec", "ephemeralContainers"];
    for before in old.items_at(&at) {
        let name = quoted(text(before, "name"));
        match pod.items_at(&at).iter().rfind(|c| text(c, "name") == text(before, "name")) {
            None => {
                errors.forbidden(&path, &format!("existing ephemeral containers {name} may not be removed\n"))
            }
            Some(now) if now != before => {
                let diff = diff_from_stored(before, now, "core/v1.EphemeralContainer");
                let detail = format!("existing ephemeral containers {name} may not be changed\n{diff}");
                errors.forbidden(&path, &detail);
            }
            Some(_) => {}
        }
    }
}

/// Validates a resize: only CPU and memory may change.
pub(super) fn validate_resize(pod: &Value, old: &Value, errors: &mut FieldErrors) {
    if is_mirror(old) {
        return errors.forbidden(&NOWHERE, "static pods cannot be resized");
    }
    if old.str_at(&["spec", "os", "name"]) == "windows" {
        return errors.forbidden(&NOWHERE, "windows pods cannot be resized");
    }
    let before = errors.0.len();
    metadata::validate_core_as_new(&Pod, ResourceScope::Namespaced, pod, errors);
    validate_annotations_and_spec(pod, &update::options(old), errors);
    let (spec, old_spec) = (workload::spec_of(pod), workload::spec_of(old));
    let class = match old.str_at(&["status", "qosClass"]) {
        "" => qos::class(old_spec),
        class => class,
    };
    if class != qos::class(spec) {
        let error_text = Named(pod.str_at(&["status", "qosClass"]));
        errors.invalid(&SPEC, error_text, "Pod QOS Class may not change as a result of resizing");
    }
    if !node_resizes(old) {
        errors.forbidden(&SPEC, "Pod running on node without support for resize");
    }
    let mut rest = spec.clone();
    validate_pod_level(spec, old_spec, &mut rest, errors);
    if !old.items_at(&["status", "nodeAllocatableResourceClaimStatuses"]).is_empty() {
        errors.forbidden(&SPEC, "pods with node allocatable resource claims cannot be resized");
    }
    if !check_same_containers(spec, old_spec, errors) {
        return;
    }
    for name in ["initContainers", "containers"] {
        for (at, (new, old)) in list(spec, name).iter().zip(list(old_spec, name)).enumerate() {
            let item = SPEC.field(name);
            refuse_removals(new, old, &item.index(at).field("resources"), "resource", errors);
        }
    }
    require_only_compute_changes(&mut rest, old_spec, errors);
    if errors.0.len() == before && rest != *old_spec {
        errors.forbidden(&SPEC, ONLY_COMPUTE);
    }
}

/// Returns whether the kubelet supports resizing: it reports resources of running containers.
fn node_resizes(pod: &Value) -> bool {
    let running = |s: &&Value| s.at(&["state", "running"]).is_some();
    let statuses = pod.items_at(&["status", "containerStatuses"]);
    statuses.iter().find(running).is_none_or(|s| member(s, "resources").is_some())
}

/// Validates the resources of the pod itself, and takes the allowed changes out of `unaccepted`.
fn validate_pod_level(spec: &Value, old: &Value, unaccepted: &mut Value, errors: &mut FieldErrors) {
    let has_resources =
        |v: &Value| ["requests", "limits"].iter().any(|w| entries(v.at(&["resources", w])).next().is_some());
    if !has_resources(spec) && !has_resources(old) {
        return;
    }
    let path = SPEC.field("resources");
    if member(old, "resources").is_some() && member(spec, "resources").is_none() {
        return errors.forbidden(&path, "pod-level resources cannot be removed");
    }
    if member(old, "resources").is_some() {
        refuse_removals(spec, old, &path, "pod-level resource", errors);
    }
    take_compute(unaccepted, old);
    if member(old, "resources").is_none() && unaccepted.get("resources") == Some(&Value::object()) {
        unaccepted.remove_at(&["resources"]);
    }
    if unaccepted.get("resources") != old.get("resources") {
        errors.forbidden(&SPEC, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Requests and limits may change but not be removed.
fn refuse_removals(new: &Value, old: &Value, path: &Path<'_>, what: &str, errors: &mut FieldErrors) {
    for which in ["requests", "limits"] {
        let gone = |name: &str| new.at(&["resources", which, name]).is_none();
        if entries(old.at(&["resources", which])).any(|(name, _)| gone(name)) {
            errors.forbidden(&path.field(which), &format!("{what} {which} cannot be removed"));
        }
    }
}

fn check_same_containers(spec: &Value, old: &Value, errors: &mut FieldErrors) -> bool {
    let before = errors.0.len();
    for name in ["containers", "initContainers"] {
        let path = SPEC.field(name);
        let (new, old) = (list(spec, name), list(old, name));
        if new.len() != old.len() {
            errors.forbidden(&path, &format!("{name} may not be added or removed on resize"));
            continue;
        }
        for (at, (new, old)) in new.iter().zip(old).enumerate() {
            if text(new, "name") != text(old, "name") {
                let detail = format!("{name} may not be renamed or reordered on resize");
                errors.forbidden(&path.index(at).field("name"), &detail);
            }
        }
    }
    errors.0.len() == before
}

/// Resets CPU and memory to the old values; any remaining difference is an error.
fn require_only_compute_changes(rest: &mut Value, old: &Value, errors: &mut FieldErrors) {
    for name in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = rest.get_mut(name) else { continue };
        for (at, (container, old)) in containers.iter_mut().zip(list(old, name)).enumerate() {
            let modified = container != old;
            take_compute(container, old);
            // Claims are only removed from the new side before the comparison, so they can be added but not remain.
            container.remove_at(&["resources", "claims"]);
            let path = SPEC.field(name);
            if container != old && name == "containers" {
                errors.forbidden(&SPEC, ONLY_COMPUTE);
            } else if container != old {
                let detail = "only cpu and memory resources for init or sidecar containers are mutable";
                errors.forbidden(&path.index(at), detail);
            }
            let sidecar = opt_text(container, "restartPolicy") == Some("Always");
            if name == "initContainers" && modified && !sidecar {
                let restarts = |p: &&Value| text(p, "restartPolicy") == "RestartContainer";
                for _ in list(container, "resizePolicy").iter().filter(restarts) {
                    let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    errors.forbidden(&path.index(at), detail);
                }
            }
        }
    }
}

fn take_compute(holder: &mut Value, old: &Value) {
    for which in ["requests", "limits"] {
        for name in ["cpu", "memory"] {
            take(holder, old, &["resources", which, name]);
        }
        let path = ["resources", which];
        if holder.at(&path) == Some(&Value::object()) && old.at(&path).is_none() {
            holder.remove_at(&path);
        }
    }
}
