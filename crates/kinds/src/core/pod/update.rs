//! Validates updates of a pod: hardly anything of its spec may change.

use super::Pod;
use super::create::validate_annotations_and_spec;
use crate::core::podspec::{
    annotations, internal,
    options::{Options, is_gated},
    scheduling,
};
use crate::error_text::{Internal, InternalList, diff_from_stored};
use crate::fields::{entries, list, opt_int, text};
use crate::hooks::take;
use crate::metadata::ResourceScope;
use crate::{check, metadata, workload};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const SPEC: Path<'static> = Path::of("spec");
const TERMS: [&str; 4] =
    ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";

/// The validation options for an update of `old`.
pub(super) fn options(old: &Value) -> Options {
    Options::new(true, Some((workload::spec_of(old), old.get("metadata"))))
}

/// Checks the update of a pod.
pub(super) fn validate(pod: &Value, old: &Value, errors: &mut FieldErrors) {
    let options = options(old);
    metadata::validate_core_as_new(&Pod, ResourceScope::Namespaced, pod, errors);
    validate_annotations_and_spec(pod, &options, errors);
    validate_annotations_update(pod, old, &options, errors);
    let (spec, old_spec) = (workload::spec_of(pod), workload::spec_of(old));
    for name in ["containers", "initContainers"] {
        if !check_containers(list(spec, name), list(old_spec, name), &SPEC.field(name), errors) {
            return;
        }
    }
    if !check_deadline(spec, old_spec, errors) {
        return;
    }
    let (new, before) = (list(spec, "tolerations"), list(old_spec, "tolerations"));
    scheduling::require_only_additions(new, before, &SPEC.field("tolerations"), &options, errors);
    scheduling::require_only_removed_gates(spec, old_spec, &SPEC.field("schedulingGates"), errors);
    if spec != old_spec {
        validate_unchanged(spec, old_spec, errors);
    }
}

/// Validates the annotations of a pod, and that some of them are unchanged.
pub(super) fn validate_annotations_update(
    pod: &Value,
    old: &Value,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let path = Path::of("metadata.annotations");
    let at = ["metadata", "annotations"];
    annotations::validate_update(pod.at(&at), old.at(&at), &path, errors);
    annotations::validate(pod.at(&at), workload::spec_of(pod), &path, options, errors);
}

fn check_containers(new: &[Value], old: &[Value], path: &Path<'_>, errors: &mut FieldErrors) -> bool {
    if new.len() != old.len() {
        errors.forbidden(path, "pod updates may not add or remove containers");
        return false;
    }
    for (at, container) in new.iter().enumerate() {
        let image = text(container, "image");
        let item = path.index(at);
        if image.is_empty() {
            errors.required(&item.field("image"), "");
        }
        if image.trim() != image {
            errors.invalid(&item.field("image"), image, "must not have leading or trailing whitespace");
        }
    }
    true
}

/// `activeDeadlineSeconds` may be set and shortened.
fn check_deadline(spec: &Value, old: &Value, errors: &mut FieldErrors) -> bool {
    let path = SPEC.field("activeDeadlineSeconds");
    let (new, old) = (opt_int(spec, "activeDeadlineSeconds"), opt_int(old, "activeDeadlineSeconds"));
    match (new, old) {
        (Some(new), _) if !names::is_in_range(new, 0, i64::from(i32::MAX)).is_empty() => {
            check::each(names::is_in_range(new, 0, i64::from(i32::MAX)), &path, new, errors);
            return false;
        }
        (Some(new), Some(old)) if old < new => {
            errors.invalid(&path, new, "must be less than or equal to previous value");
            return false;
        }
        (None, Some(_)) => {
            errors.invalid(&path, None::<&Value>, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    true
}

/// Validates that nothing else has changed.
fn validate_unchanged(spec: &Value, old: &Value, errors: &mut FieldErrors) {
    let mut munged = spec.clone();
    for name in ["containers", "initContainers"] {
        if let Some(Value::Array(containers)) = munged.get_mut(name) {
            for (container, old) in containers.iter_mut().zip(list(old, name)) {
                take(container, old, &["image"]);
            }
            // kube-apiserver copies the containers to a new list, which is null if there are none.
            if containers.is_empty() {
                munged.remove_at(&[name]);
            }
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        take(&mut munged, old, &[key]);
    }
    let grace = |v: &Value| opt_int(v, "terminationGracePeriodSeconds");
    if grace(old).is_some_and(|s| s < 0) && grace(&munged) == Some(1) {
        take(&mut munged, old, &["terminationGracePeriodSeconds"]);
    }
    if is_gated(old) {
        accept_stricter_scheduling(&mut munged, old, errors);
    }
    if munged != *old {
        let (old, new) = (internal::pod_spec(old), internal::pod_spec(&munged));
        let diff = diff_from_stored(&old, &new, "core/v1.PodSpec");
        errors.forbidden(&SPEC, &format!("{UPDATABLE}{diff}"));
    }
}

/// The scheduling constraints of a gated pod may become stricter.
fn accept_stricter_scheduling(munged: &mut Value, old: &Value, errors: &mut FieldErrors) {
    if munged.get("nodeSelector") != old.get("nodeSelector") {
        let unchanged = |(key, value): (&str, &Value)| munged.at(&["nodeSelector", key]) == Some(value);
        if !entries(old.get("nodeSelector")).all(unchanged) {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.invalid(&SPEC.field("nodeSelector"), munged.get("nodeSelector"), detail);
        }
        take(munged, old, &["nodeSelector"]);
    }
    let at = ["affinity", "nodeAffinity"];
    if munged.at(&at) == old.at(&at) {
        return;
    }
    validate_node_affinity(munged.items_at(&TERMS), old.items_at(&TERMS), errors);
    take(munged, old, &at);
    let empty = munged.get("affinity").and_then(Value::as_object).is_some_and(|m| m.is_empty());
    if empty && old.get("affinity").is_none() {
        munged.remove_at(&["affinity"]);
    }
}

fn validate_node_affinity(new: &[Value], old: &[Value], errors: &mut FieldErrors) {
    let path =
        SPEC.field("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    if !old.is_empty() && old.len() != new.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid(&path, InternalList(new, "core/v1.NodeSelectorTerm"), detail);
    }
    for (at, (new, old)) in new.iter().zip(old).enumerate() {
        if !only_adds(new, old) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.invalid(&path.index(at), Internal(Some(new), "core/v1.NodeSelectorTerm"), detail);
        }
    }
}

fn only_adds(new: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"].map(|key| (list(new, key), list(old, key)));
    // A term without requirements matches nothing and must stay so.
    if lists.iter().all(|(_, old)| old.is_empty()) {
        return lists.iter().all(|(new, _)| new.is_empty());
    }
    lists.iter().all(|(new, old)| new.starts_with(old))
}
