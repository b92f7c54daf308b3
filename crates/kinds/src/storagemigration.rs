//! Group storagemigration.k8s.io: StorageVersionMigration, which rewrites all objects of a resource.

use crate::error_text::Internal;
use crate::{Hooks, Scope, check, fields};
use pintle_meta::conditions::validate_conditions;
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

pub(crate) struct StorageVersionMigration;

impl Hooks for StorageVersionMigration {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let path = Path::of("spec.resource");
        let reference = object.at(&["spec", "resource"]).unwrap_or(&Value::Null);
        let (resource, group) = (fields::text(reference, "resource"), fields::text(reference, "group"));
        let check = |key: &str, name: &str, complaints: Vec<String>, errors: &mut FieldErrors| {
            if !complaints.is_empty() {
                errors.invalid(&path.field(key), name, &complaints.join(","));
            }
        };
        if resource.is_empty() {
            errors.required(&path.field("resource"), "resource is required to be set")
        } else {
            check("resource", resource, names::is_dns1035_label(resource), errors)
        }
        if !group.is_empty() {
            check("group", group, names::is_dns1123_subdomain(group), errors);
        }
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        match scope {
            Scope::Main => self.validate_create(object, errors),
            Scope::Sub(_) => validate_status(object, old, errors),
        }
    }
}

fn validate_status(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let status = Path::of("status");
    let at_version = status.field("resourceVersion");
    let version = object.str_at(&["status", "resourceVersion"]);
    let is_number = version.bytes().all(|b| b.is_ascii_digit()) && !version.starts_with('0');
    if !version.is_empty() && !is_number {
        let why = format!("resource version is not well formed: {version}");
        errors.invalid(&at_version, version, &why);
    }
    let at_conditions = status.field("conditions");
    let conditions = || Internal(object.at(&["status", "conditions"]), "[]meta/v1.Condition");
    validate_conditions(object.items_at(&["status", "conditions"]), &at_conditions, errors);
    let before = old.str_at(&["status", "resourceVersion"]);
    if !before.is_empty() && before != version {
        errors.invalid(&at_version, version, check::IMMUTABLE);
    }
    let has = |object: &Value, kind: &str| {
        let find = |c: &&Value| c.str_at(&["type"]) == kind;
        let first = object.items_at(&["status", "conditions"]).iter().find(find);
        first.is_some_and(|c| c.str_at(&["status"]) == "True")
    };
    if has(object, "Succeeded") && has(object, "Failed") {
        let why = "Both success and failed conditions cannot be true at the same time";
        errors.invalid(&at_conditions, conditions(), why);
    }
    for (kind, word) in [("Succeeded", "Success"), ("Failed", "Failed")] {
        if has(old, kind) && !has(object, kind) {
            let why = format!("{word} condition cannot be set to false once it is true");
            errors.invalid(&at_conditions, conditions(), &why);
        }
    }
}
