//! PersistentVolumeClaim: data sources, what may change once it is bound, and its status.

use super::claim;
use super::podspec::aggregate::is_native;
use super::podspec::resources::validate_quantity_value;
use super::podspec::warnings;
use super::resources::amounts;
use crate::error_text::diff_from_stored;
use crate::fields::{entries, member, quantity, text};
use crate::hooks::take;
use crate::{Hooks, Scope, check, features, metadata};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, Quantity, names, objectmeta};
use pintle_value::{Path, Value};

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const IMMUTABLE: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
const SNAPSHOTS: &str = "snapshot.storage.k8s.io";
const RESIZES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];
pub(crate) struct PersistentVolumeClaim;

impl Hooks for PersistentVolumeClaim {
    /// Defaulting turns an empty status into the first phase.
    fn is_defaulted_when_read(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        default_data_sources(object, None);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        if scope == Scope::Main {
            default_data_sources(object, Some(old));
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(object, None, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            return validate_status(object, errors);
        }
        validate_spec(object, Some(old), errors);
        validate_change(object, old, errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut out = Vec::new();
        if metadata::annotation(object, CLASS).is_some() {
            out.push(format!(
                "metadata.annotations[{CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        out.extend(warnings::warnings_of_claim_spec(spec, &Path::of("spec")));
        out
    }
}

fn source<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("spec").and_then(|s| member(s, field))
}

/// Drops disallowed data sources, and keeps `dataSource` and `dataSourceRef` consistent.
fn default_data_sources(object: &mut Value, old: Option<&Value>) {
    let used = |field: &str| old.is_some_and(|old| source(old, field).is_some());
    let foreign = source(object, "dataSourceRef").is_some_and(|r| !text(r, "namespace").is_empty());
    if foreign && !features::is_enabled("CrossNamespaceVolumeDataSource") && !used("dataSourceRef") {
        object.remove_at(&["spec", "dataSourceRef"]);
    }
    let known = source(object, "dataSource").is_some_and(is_claim_or_snapshot);
    let in_use = used("dataSource") || used("dataSourceRef");
    if !in_use && source(object, "dataSourceRef").is_none() && !known {
        object.remove_at(&["spec", "dataSource"]);
    }
    match (source(object, "dataSource"), source(object, "dataSourceRef")) {
        (Some(local), None) => {
            let copy = data_source_of(local);
            object.set_at(&["spec", "dataSourceRef"], copy);
        }
        (None, Some(any)) if text(any, "namespace").is_empty() => {
            let copy = data_source_of(any);
            object.set_at(&["spec", "dataSource"], copy);
        }
        _ => {}
    }
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    match text(source, "kind") {
        "PersistentVolumeClaim" => text(source, "apiGroup").is_empty(),
        "VolumeSnapshot" => text(source, "apiGroup") == SNAPSHOTS,
        _ => false,
    }
}

fn data_source_of(source: &Value) -> Value {
    let mut out = Value::object();
    out.set_at(&["apiGroup"], source.get("apiGroup").cloned().unwrap_or(Value::Null));
    for field in ["kind", "name"] {
        out.set_at(&[field], text(source, field).into());
    }
    out
}

fn validate_spec(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let old = old.and_then(|old| old.get("spec")).unwrap_or(&Value::Null);
    claim::validate_changed_spec(object.get("spec").unwrap_or(&Value::Null), old, &Path::of("spec"), errors);
}

fn storage(object: &Value, keys: &[&str]) -> Quantity {
    quantity(object.at(keys))
}

fn validate_change(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let class = ["spec", "storageClassName"];
    let (mut new_spec, mut old_spec) = (object.clone(), old.clone());
    if text(old.get("spec").unwrap_or(&Value::Null), "volumeName").is_empty() {
        take(&mut old_spec, object, &["spec", "volumeName"]);
    }
    let (old_class, new_class) =
        (old.at(&class).and_then(Value::as_str), object.at(&class).and_then(Value::as_str));
    let (old_mark, new_mark) = (metadata::annotation(old, CLASS), metadata::annotation(object, CLASS));
    let from_annotation = old_mark.is_some()
        && old_class.is_none()
        && new_class == old_mark
        && (new_mark.is_none() || new_mark == old_mark);
    if from_annotation {
        new_spec.remove_at(&class);
    } else {
        if old_mark.unwrap_or("") != new_mark.unwrap_or("") {
            let annotations = Path::of("metadata.annotations");
            errors.invalid(&annotations.field(CLASS), new_mark.unwrap_or(""), objectmeta::IMMUTABLE);
        }
        let from_nothing =
            new_class.is_some() && old_class.is_none() && (old_mark.is_none() || new_class == old_mark);
        if from_nothing {
            take(&mut new_spec, old, &class);
        }
    }
    if object.str_at(&["status", "phase"]) == "Bound" {
        if object.at(&["spec", "resources", "requests"]).is_some() {
            take(&mut new_spec, old, &["spec", "resources", "requests", "storage"]);
        }
        take(&mut new_spec, old, &["spec", "volumeAttributesClassName"]);
    }
    validate_same(&new_spec, &old_spec, errors);
    validate_sizes(object, old, errors);
    let mode = ["spec", "volumeMode"];
    check::immutable(object.at(&mode), old.at(&mode), &Path::of("volumeMode"), errors);
    validate_attributes_class(object, old, errors);
}

fn validate_same(new: &Value, old: &Value, errors: &mut FieldErrors) {
    const TYPE: &str = "core/v1.PersistentVolumeClaimSpec";
    let (Some(before), Some(after)) = (old.get("spec"), new.get("spec")) else { return };
    if before != after {
        let changes = diff_from_stored(before, after, TYPE);
        errors.forbidden(&Path::of("spec"), &format!("{IMMUTABLE}\n{changes}"));
    }
}

fn validate_sizes(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let requested = ["spec", "resources", "requests", "storage"];
    let size = storage(object, &requested);
    if size < storage(old, &requested) && size <= storage(old, &["status", "capacity", "storage"]) {
        errors.forbidden(
            &Path::of("spec.resources.requests.storage"),
            "field can not be less than status.capacity",
        );
    }
}

/// A class that is in effect may be replaced but not removed.
fn validate_attributes_class(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let keys = ["spec", "volumeAttributesClassName"];
    let class = object.at(&keys).and_then(Value::as_str);
    let in_effect = old.at(&["status", "currentVolumeAttributesClassName"]).is_some();
    if object.at(&keys) == old.at(&keys) || !in_effect {
        return;
    }
    let path = Path::of("spec.volumeAttributesClassName");
    let what = match class {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail =
        format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.forbidden(&path, &detail);
}

fn validate_status(object: &Value, errors: &mut FieldErrors) {
    if object.items_at(&["spec", "accessModes"]).is_empty() {
        errors.required(&Path::of("Spec.accessModes"), "");
    }
    let status = Path::of("status");
    let path = status.field("capacity");
    for (name, amount) in amounts(object.at(&["status", "capacity"])) {
        validate_basic(&amount, &path.key(name), errors);
    }
    let path = status.field("allocatedResourceStatuses");
    for (name, state) in entries(object.at(&["status", "allocatedResourceStatuses"])) {
        validate_resource_key(name, &path, errors);
        if !RESIZES.contains(&state.as_str().unwrap_or("")) {
            errors.not_supported(&path, Named(name), &RESIZES);
        }
    }
    let path = status.field("allocatedResources");
    for (name, amount) in amounts(object.at(&["status", "allocatedResources"])) {
        let before = errors.0.len();
        validate_resource_key(name, &path, errors);
        if errors.0.len() > before {
            continue;
        }
        validate_basic(&amount, &path.key(name), errors);
        if errors.0.len() == before {
            validate_quantity_value("storage", &amount, &path.key(name), errors);
        }
    }
}

fn validate_basic(amount: &Quantity, path: &Path<'_>, errors: &mut FieldErrors) {
    if amount.value() < 0 {
        errors.invalid(path, amount.value(), "must be a valid resource quantity");
    }
}

fn validate_resource_key(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let complaints = names::is_qualified_name(name);
    if complaints.is_empty() && is_native(name) && name != "storage" {
        errors.not_supported(path, name, &["storage"]);
    }
    check::each(complaints, path, name, errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, updated};

    #[test]
    fn each_source_field_is_filled_from_the_other() {
        let defaulted = |spec: &str| {
            let mut object = tree(&format!(r#"{{"spec":{spec}}}"#));
            default_data_sources(&mut object, None);
            Value::from(object.remove_at(&["spec"]).unwrap().as_object().unwrap().clone())
        };
        assert_eq!(
            defaulted(r#"{"dataSource":{"kind":"PersistentVolumeClaim","name":"a"}}"#),
            tree(
                r#"{"dataSource":{"kind":"PersistentVolumeClaim","name":"a"},"dataSourceRef":{"apiGroup":null,"kind":"PersistentVolumeClaim","name":"a"}}"#
            )
        );
        assert_eq!(defaulted(r#"{"dataSource":{"kind":"Odd","name":"a"}}"#), tree("{}"));
        assert_eq!(defaulted(r#"{"dataSourceRef":{"kind":"K","name":"a","namespace":"n"}}"#), tree("{}"));
    }

    #[test]
    fn a_claim_stays_but_for_the_size_once_it_is_bound() {
        let with = |size: &str, phase: &str| {
            format!(
                r#"{{"metadata":{{"name":"a","namespace":"n"}},"spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"{size}"}}}}}},"status":{{"phase":"{phase}"}}}}"#
            )
        };
        assert_eq!(
            updated(&PersistentVolumeClaim, Scope::Main, &with("2Gi", "Bound"), &with("1Gi", "Bound")),
            Vec::<String>::new()
        );
        assert_eq!(
            updated(&PersistentVolumeClaim, Scope::Main, &with("2Gi", "Pending"), &with("1Gi", "Pending")),
            [format!(
                "spec: Forbidden: {IMMUTABLE}\n@@ -6,7 +6,7 @@\n  \"Resources\": {{\n   \"Limits\": null,\n   \"Requests\": {{\n-   \"storage\": \"1Gi\"\n+   \"storage\": \"2Gi\"\n   }}\n  }},\n  \"VolumeName\": \"\",\n"
            )]
        );
    }
}
