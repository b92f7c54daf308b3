//! The spec of a PersistentVolume, also inline in a VolumeAttachment.

use super::sources;
use crate::core::claim;
use crate::core::podspec::{affinity, volume_sources};
use crate::core::resources::amounts;
use crate::facts;
use crate::fields::{member, opt_text, text, texts};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const SPEC: &str = "core/v1.PersistentVolumeSpec";
const INLINE: &str = "may not be specified in the context of inline volumes";

/// Validates the spec of a volume. `lenient` accepts invalid values in node affinity that the old object has.
pub(super) fn validate(object: &Value, lenient: bool, errors: &mut FieldErrors) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::of("spec");
    validate_access_modes(spec, &path, errors);
    validate_capacity(spec, &path.field("capacity"), errors);
    facts::check_fields(spec, SPEC, &["persistentVolumeReclaimPolicy"], &path, errors);
    let placed = member(spec, "nodeAffinity");
    if let Some(placed) = placed {
        validate_node_affinity(placed, lenient, &path.field("nodeAffinity"), errors);
    }
    validate_source(spec, object.str_at(&["metadata", "name"]), placed.is_some(), &path, errors);
    facts::check_fields(spec, SPEC, &["storageClassName", "volumeMode"], &path, errors);
    validate_attributes_class(spec, &path, errors);
}

/// Validates an inline volume spec.
pub(crate) fn validate_inline(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if member(spec, "claimRef").is_some() {
        errors.forbidden(&path.field("claimRef"), INLINE);
    }
    if amounts(spec.get("capacity")).next().is_some() {
        errors.forbidden(&path.field("capacity"), INLINE);
    }
    if member(spec, "csi").is_none() {
        errors.required(&path.field("csi"), "has to be specified in the context of inline volumes");
    }
    validate_access_modes(spec, path, errors);
    if !matches!(text(spec, "persistentVolumeReclaimPolicy"), "" | "Retain") {
        let detail = "may only be Retain in the context of inline volumes";
        errors.forbidden(&path.field("persistentVolumeReclaimPolicy"), detail);
    }
    if member(spec, "nodeAffinity").is_some() {
        errors.forbidden(&path.field("nodeAffinity"), INLINE);
    }
    validate_source(spec, "", false, path, errors);
    if !text(spec, "storageClassName").is_empty() {
        errors.forbidden(&path.field("storageClassName"), INLINE);
    }
    if opt_text(spec, "volumeMode").is_some_and(|mode| mode != "Filesystem") {
        let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.forbidden(&path.field("volumeMode"), detail);
    }
}

/// Returns whether the node affinity has label values that are no longer allowed.
pub(super) fn has_invalid_affinity(object: &Value) -> bool {
    let terms = object.items_at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]);
    let expressions = terms.iter().flat_map(|t| t.items_at(&["matchExpressions"]));
    let mut values = expressions.flat_map(|e| texts(e, "values"));
    values.any(|value| !names::is_label_value(value).is_empty())
}

fn validate_access_modes(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = path.field("accessModes");
    let modes = texts(spec, "accessModes");
    if modes.is_empty() {
        errors.required(&path, "");
    }
    claim::validate_known_modes(&modes, &path, errors);
}

fn validate_capacity(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let list = member(spec, "capacity");
    let count = amounts(list).count();
    if count == 0 {
        errors.required(path, "");
    }
    if count != 1 || list.is_none_or(|l| l.get("storage").is_none()) {
        errors.not_supported(path, list, &["storage"]);
    }
    for (name, amount) in amounts(list) {
        let path = path.key(name);
        if amount.value() < 0 {
            errors.invalid(&path, amount.value(), "must be a valid resource quantity");
        }
        if amount.sign() <= 0 {
            errors.invalid(&path, amount.to_string().as_str(), "must be greater than zero");
        }
    }
}

fn validate_node_affinity(placed: &Value, lenient: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = path.field("required");
    match member(placed, "required") {
        Some(selector) => affinity::validate_node_selector(selector, lenient, &path, errors),
        None => errors.required(&path, "must specify required node constraints"),
    }
}

/// Requires exactly one valid source.
fn validate_source(spec: &Value, name: &str, placed: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check_union(spec, sources::TYPE, path, errors, |source, errors| {
        if source.is_refused {
            return;
        }
        let source_path = path.field(volume_sources::error_name(source.field));
        sources::validate(source.field, source.value, name, &source_path, errors);
        if source.field == "local" && !placed {
            errors.required(&path.field("nodeAffinity"), "Local volume requires node affinity");
        }
    });
    let root = spec.at(&["hostPath", "path"]).and_then(Value::as_str).is_some_and(is_root);
    if root && text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let at = path.field("persistentVolumeReclaimPolicy");
        errors.forbidden(&at, "may not be 'recycle' for a hostPath mount of '/'");
    }
}

/// Returns whether a path is the root directory, however it is written.
fn is_root(path: &str) -> bool {
    let mut depth = 0usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth = depth.saturating_add(1),
        }
    }
    path.starts_with('/') && depth == 0
}

fn validate_attributes_class(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check_fields(spec, SPEC, &["volumeAttributesClassName"], path, errors);
    if member(spec, "volumeAttributesClassName").is_some() && member(spec, "csi").is_none() {
        errors.required(&path.field("csi"), "has to be specified when using volumeAttributesClassName");
    }
}
