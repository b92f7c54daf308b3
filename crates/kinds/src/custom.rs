//! Hooks of custom resources: what their definitions leave to the server.

use crate::{Hooks, Scope, hooks};
use pintle_value::Value;

/// Hooks of custom resources.
pub struct Custom {
    /// Whether the status is a subresource.
    has_status: bool,
}

/// Custom resources whose status is a subresource.
pub static WITH_STATUS: Custom = Custom { has_status: true };
/// Custom resources whose status is a field like any other.
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
        let finalizers = |v: &Value| -> Vec<String> {
            let all = v.items_at(&["metadata", "finalizers"]).iter();
            all.filter_map(Value::as_str).filter(|f| !f.contains('/')).map(str::to_string).collect()
        };
        let known = old.map(finalizers).unwrap_or_default();
        let ours = ["orphan", "foregroundDeletion"];
        let new =
            finalizers(object).into_iter().filter(|f| !known.contains(f) && !ours.contains(&f.as_str()));
        new.map(|f| {
            format!(
                "metadata.finalizers: {}: prefer a domain-qualified finalizer name to avoid accidental conflicts \
                 with other finalizer writers",
                pintle_meta::field::quoted(&f)
            )
        })
        .collect()
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        let rest = |v: &Value| {
            let mut rest = v.clone();
            if let Value::Object(map) = &mut rest {
                map.remove("metadata");
                if self.has_status {
                    map.remove("status");
                }
            }
            rest
        };
        rest(object) != rest(old)
    }

    fn reset_fields(&self, scope: Scope<'_>) -> &'static [&'static [&'static str]] {
        match scope {
            Scope::Sub("status") => &[&["metadata"], &["spec"]],
            _ if self.has_status => &[&["status"]],
            _ => &[],
        }
    }

    fn convert(&self, _object: &mut Value, _from: &crate::KindVersion, _to: &crate::KindVersion) {
        // Conversion None: only the apiVersion differs, and the engine writes that.
    }
}
