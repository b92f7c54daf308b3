//! Namespace: its label, its phase and the finalizers of its spec.

use crate::{Hooks, Scope};
use pintle_meta::{FieldErrors, names, objectmeta};
use pintle_value::{Path, Value};

/// The finalizer that the namespace controller removes when the namespace is empty.
const KUBERNETES: &str = "kubernetes";
/// The label that always contains the name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(crate) struct Namespace;

impl Hooks for Namespace {
    fn prepare_create(&self, object: &mut Value) {
        let mut finalizers = object.items_at(&["spec", "finalizers"]).to_vec();
        if !finalizers.iter().any(|f| f.as_str() == Some(KUBERNETES)) {
            finalizers.push(KUBERNETES.into());
        }
        object.set_at(&["spec", "finalizers"], Value::Array(finalizers));
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        match scope {
            Scope::Main => crate::hooks::take(object, old, &["spec", "finalizers"]),
            Scope::Sub("status") => {}
            Scope::Sub(_) => crate::hooks::take(object, old, &["status"]),
        }
    }

    fn canonicalize(&self, object: &mut Value) {
        set_name_label(object);
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::dns_label(name, prefix)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let path = Path::of("spec.finalizers");
        for finalizer in object.items_at(&["spec", "finalizers"]) {
            validate_finalizer(finalizer.as_str().unwrap_or(""), &path, errors);
        }
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        match scope {
            Scope::Main => {
                self.validate_create(object, errors);
            }
            Scope::Sub("status") => validate_status(object, errors),
            Scope::Sub(_) => {
                let path = Path::of("spec.finalizers");
                for (at, finalizer) in object.items_at(&["spec", "finalizers"]).iter().enumerate() {
                    validate_finalizer(finalizer.as_str().unwrap_or(""), &path.index(at), errors);
                }
            }
        }
    }

    fn ends_in_two_phases(&self) -> bool {
        true
    }

    fn begin_deletion(&self, object: &mut Value, _now: &str) -> bool {
        object.set_at(&["status", "phase"], "Terminating".into());
        true
    }

    fn may_remove(&self, object: &Value) -> bool {
        object.items_at(&["spec", "finalizers"]).is_empty()
    }
}

pub(crate) fn set_name_label(object: &mut Value) {
    let name = object.str_at(&["metadata", "name"]);
    if !name.is_empty() {
        let name = Value::from(name);
        object.set_at(&["metadata", "labels", NAME_LABEL], name);
    }
}

/// A finalizer must be a qualified name; one without a domain must be a standard one.
fn validate_finalizer(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    for why in names::is_qualified_name(name) {
        errors.invalid(path, name, &why);
    }
    objectmeta::validate_core_finalizer_name(name, path, errors);
}

/// Phase and deletion must agree.
fn validate_status(object: &Value, errors: &mut FieldErrors) {
    let deleting = object.at(&["metadata", "deletionTimestamp"]).is_some();
    let phase = object.str_at(&["status", "phase"]);
    let path = Path::of("status.Phase");
    if !deleting && phase != "Active" {
        errors.invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty");
    }
    if deleting && phase != "Terminating" {
        errors.invalid(&path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
    }
}
