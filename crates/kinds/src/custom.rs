//! Hooks of custom resources.

use crate::{Hooks, Scope, hooks};
use pintle_meta::names;
use pintle_value::Value;
use std::collections::BTreeSet;

/// Hooks of custom resources.
pub struct Custom {
    /// Whether the definition has the status subresource.
    has_status: bool,
}

/// Custom resources with a status subresource.
pub static WITH_STATUS: Custom = Custom { has_status: true };
/// Custom resources without a status subresource.
pub static WITHOUT_STATUS: Custom = Custom { has_status: false };

impl Hooks for Custom {
    fn prepare_create(&self, object: &mut Value) {
        if self.has_status {
            object.remove_at(&["status"]);
        }
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        if self.has_status {
            hooks::keep_other_side(scope, object, old);
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let finalizers = |v: &Value| -> BTreeSet<String> {
            let all = v.items_at(&["metadata", "finalizers"]).iter();
            all.filter_map(Value::as_str).map(str::to_string).collect()
        };
        let known = old.map(finalizers).unwrap_or_default();
        finalizers(object).difference(&known).flat_map(|finalizer| finalizer_warnings(finalizer)).collect()
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        hooks::differs_in(object, old, |key| key != "metadata" && !(self.has_status && key == "status"))
    }

    fn reset_fields(&self, scope: Scope<'_>) -> &'static [&'static [&'static str]] {
        match scope {
            Scope::Sub("status") => &[&["metadata"], &["spec"]],
            _ if self.has_status => &[&["status"]],
            _ => &[],
        }
    }

    fn convert(&self, _object: &mut Value, _from: &crate::KindVersion, _to: &crate::KindVersion) {
        // With the conversion strategy None only the apiVersion differs, which the engine sets.
    }
}

/// The warning about a new finalizer without a domain.
fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let warning =
        |why: &str| format!("metadata.finalizers: {}: {why}", pintle_meta::field::quoted(finalizer));
    let mut out: Vec<String> = names::is_qualified_name(finalizer).iter().map(|why| warning(why)).collect();
    if !finalizer.contains('/') && !matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes") {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        out.push(warning(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    out
}
