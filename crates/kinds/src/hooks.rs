//! `Hooks`: the behaviour of a kind that no schema can express. All methods have a default, which does nothing.
//!
//! Objects are trees in the storage version, in the form in which Go would marshal them. Hooks are pure: the clock,
//! the random source and other objects are arguments, if a hook needs them.

use crate::KindVersion;
use pintle_meta::FieldErrors;
use pintle_value::{Map, Str, Value};
use std::collections::BTreeMap;

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// The object itself.
    Main,
    /// A subresource that writes the object itself: `status`, `resize`, `ephemeralcontainers`, `approval`, `finalize`.
    Sub(&'a str),
}

/// Looks up the namespace of an object; `None` if it does not exist.
pub type Namespace<'a> = dyn Fn() -> Option<Value> + 'a;

/// The behaviour of a kind that its schema cannot express.
pub trait Hooks: Sync + Send {
    /// Returns whether a new object is stored without some of its defaults, which are applied
    /// when it is read. The next write stores them, even one without changes.
    fn is_defaulted_when_read(&self) -> bool {
        false
    }

    /// Returns whether objects of the kind may have fields that are stored but not returned.
    fn hides_from_readers(&self) -> bool {
        false
    }

    /// Removes the fields of a stored object that readers do not see (Go's `Decorator`). Returns whether it had any.
    fn hide_from_readers(&self, _object: &mut Value) -> bool {
        false
    }

    /// Prepares a new object, after [`crate::Strategy`]: sets what only the server decides.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Returns whether a new object, as it was before defaulting, has no labels of its own and gets those of its pod
    /// template. In Go both are then one map, so that the labels which `prepare_create` adds to the template become labels of
    /// the object.
    fn shares_template_labels(&self, _object: &Value) -> bool {
        false
    }

    /// Warnings about a new object before `prepare_create` changes it, also if it is refused.
    fn warnings_before_create(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Prepares an update, after [`crate::Strategy`]: copies what else this scope may not change from `old`.
    fn prepare_update(&self, _scope: Scope<'_>, _object: &mut Value, _old: &Value) {}

    /// Validates a new object against its namespace, before all other validation.
    fn validate_in_namespace(&self, _object: &Value, _namespace: &Namespace<'_>, _errors: &mut FieldErrors) {}

    /// Validates a changed object against its namespace, before the rules of the kind.
    fn validate_update_in_namespace(
        &self,
        _scope: Scope<'_>,
        _object: &Value,
        _old: &Value,
        _namespace: &Namespace<'_>,
        _errors: &mut FieldErrors,
    ) {
    }

    /// Validates a new object (the engine validates `metadata`).
    fn validate_create(&self, _object: &Value, _errors: &mut FieldErrors) {}

    /// Validates an updated object.
    fn validate_update(&self, _scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        self.validate_create(object, errors);
    }

    /// Compares an updated object with the old one. Called after `validate_update` and after the rules for changes of
    /// metadata.
    fn validate_against_old(
        &self,
        _scope: Scope<'_>,
        _object: &Value,
        _old: &Value,
        _errors: &mut FieldErrors,
    ) {
    }

    /// `validate_create` for kinds whose rules depend on the version of the request (events).
    fn validate_create_in(&self, _version: &KindVersion, object: &Value, errors: &mut FieldErrors) {
        self.validate_create(object, errors);
    }

    /// `validate_update` for kinds whose rules depend on the version of the request (events).
    fn validate_update_in(
        &self,
        _version: &KindVersion,
        scope: Scope<'_>,
        object: &Value,
        old: &Value,
        errors: &mut FieldErrors,
    ) {
        self.validate_update(scope, object, old, errors);
    }

    /// Records the requester in a new object, after `prepare_create`.
    fn set_requester(&self, _object: &mut Value, _requester: &Requester<'_>) {}

    /// Sets server-managed times in the status, after `prepare_*`. `old` is `None` for a new object, and `now` is the
    /// current time.
    fn stamp(&self, _scope: Scope<'_>, _object: &mut Value, _old: Option<&Value>, _now: &str) {}

    /// Sets the fields of an empty object of the kind, beyond those that Go always writes: bookmarks contain such
    /// objects.
    fn complete_empty(&self, _object: &mut Value) {}

    /// Brings equivalent forms into a canonical one, after validation (Go's `Canonicalize`).
    fn canonicalize(&self, _object: &mut Value) {}

    /// Warnings for the client, on create (`old` is `None`) and update.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// The errors of a name (empty if valid). `prefix` is true for a generateName.
    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        pintle_meta::names::dns_subdomain(name, prefix)
    }

    /// Returns whether the kind's validation includes metadata, so that metadata errors appear before and beside the
    /// others. A few kinds leave metadata to the generic validation.
    fn validates_metadata(&self) -> bool {
        true
    }

    /// Returns whether the kind's update validation includes metadata. A few kinds validate an updated object only as a
    /// new one, or not at all.
    fn validates_changed_metadata(&self, _scope: Scope<'_>) -> bool {
        self.validates_metadata()
    }

    /// Returns whether a change from `old` to `object` increments the generation. Only called if `Rules::generation` is
    /// set.
    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        differs_outside_metadata_and_status(object, old)
    }

    /// Returns whether the generation also counts fields that the server then drops.
    fn counts_dropped_fields(&self) -> bool {
        false
    }

    /// Returns whether the kind supports graceful deletion (pods).
    fn is_graceful(&self) -> bool {
        false
    }

    /// The grace period of a deletion. `requested` is the client's value. `None`: the object is removed at once. Only
    /// called if `is_graceful`.
    fn grace_seconds(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// The reason why the object of this name cannot be deleted on its own. kube-apiserver allows it in a
    /// deletecollection.
    fn deletion_refusal(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Starts a deletion that always has two phases (namespaces, definitions): sets the object's terminating state and
    /// returns true; the engine sets the deletionTimestamp.
    fn begin_deletion(&self, _object: &mut Value, _now: &str) -> bool {
        false
    }

    /// The warning for a deletion without a propagation policy.
    fn default_propagation_warning(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether deletions of this kind always have two phases.
    fn ends_in_two_phases(&self) -> bool {
        false
    }

    /// Returns whether nothing specific to the kind (a namespace's `spec.finalizers`) holds a terminating object.
    fn may_remove(&self, _object: &Value) -> bool {
        true
    }

    /// The fields that a write of `scope` cannot change, and therefore never owns (Go's `GetResetFields`).
    fn reset_fields(&self, scope: Scope<'_>) -> &'static [&'static [&'static str]] {
        match scope {
            Scope::Sub("status") => &[&["spec"]],
            _ => &[&["status"]],
        }
    }

    /// Annotations that hold fields of kube-apiserver's internal type. It makes Tables and PartialObjectMetadata from that
    /// type, so they do not have these annotations.
    fn field_annotations(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns why kube-apiserver cannot convert a decoded object into its internal type.
    fn conversion_error(&self, _object: &Value) -> Option<String> {
        None
    }

    /// Converts an object between versions. Only called for kinds with versions that differ.
    fn convert(&self, _object: &mut Value, _from: &KindVersion, _to: &KindVersion) {}

    /// The value of a selectable field that is computed rather than looked up by path.
    fn selectable(&self, _label: &str, _object: &Value) -> Option<Str> {
        None
    }
}

/// The user of a request, as objects record it.
pub struct Requester<'a> {
    /// Name.
    pub name: &'a str,
    /// Unique over time, or "".
    pub uid: &'a str,
    /// Groups.
    pub groups: &'a [String],
    /// Further attributes from authentication.
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// A kind without hooks of its own.
pub struct NoHooks;

impl Hooks for NoHooks {
    /// Among these kinds only unstored ones have a status, and nothing resets it.
    fn reset_fields(&self, _scope: Scope<'_>) -> &'static [&'static [&'static str]] {
        &[]
    }
}

/// Copies from `old` what a write of `scope` may not change: the status for the object itself; everything else (spec,
/// other top-level fields, metadata except managedFields) for its status.
pub fn keep_other_side(scope: Scope<'_>, object: &mut Value, old: &Value) {
    let Value::Object(new) = object else { return };
    match scope {
        Scope::Main => match old.get("status") {
            Some(status) => _ = new.insert("status", status.clone()),
            None => _ = new.remove("status"),
        },
        Scope::Sub("status") => {
            let status = new.remove("status");
            let managed = new.get("metadata").and_then(|m| m.get("managedFields")).cloned();
            let revision = new.get("metadata").and_then(|m| m.get("resourceVersion")).cloned();
            *object = old.clone();
            match status {
                Some(status) => object.set_at(&["status"], status),
                None => _ = object.remove_at(&["status"]),
            }
            for (key, value) in [("managedFields", managed), ("resourceVersion", revision)] {
                match value {
                    Some(value) => object.set_at(&["metadata", key], value),
                    None => _ = object.remove_at(&["metadata", key]),
                }
            }
        }
        Scope::Sub(_) => {}
    }
}

/// `keep_other_side` for kinds whose status endpoint only restores certain metadata. Other changes of metadata are left
/// to validation.
pub(crate) fn keep_named_metadata(scope: Scope<'_>, object: &mut Value, old: &Value) {
    const RESTORED: [&str; 7] = [
        "annotations",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "labels",
        "ownerReferences",
        "selfLink",
    ];
    let metadata = object.get("metadata").cloned();
    keep_other_side(scope, object, old);
    if let (Scope::Sub("status"), Some(metadata)) = (scope, metadata) {
        object.set_at(&["metadata"], metadata);
        RESTORED.iter().for_each(|key| take(object, old, &["metadata", key]));
    }
}

/// The labels of the pod template of a workload.
pub const TEMPLATE_LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];

/// Copies the value at `keys` from `old`, or removes it if absent.
pub fn take(object: &mut Value, old: &Value, keys: &[&str]) {
    match old.at(keys) {
        Some(value) => object.set_at(keys, value.clone()),
        None => _ = object.remove_at(keys),
    }
}

fn differs_outside_metadata_and_status(object: &Value, old: &Value) -> bool {
    differs_in(object, old, |key| !matches!(key, "metadata" | "status" | "kind" | "apiVersion"))
}

/// Returns whether two objects differ in the members for which `counts` holds.
pub(crate) fn differs_in(object: &Value, old: &Value, counts: impl Fn(&str) -> bool) -> bool {
    fn members(value: &Value) -> &[(Str, Value)] {
        value.as_object().map_or(&[], Map::as_slice)
    }
    let counted = |(key, _): &&(Str, Value)| counts(key);
    !members(object).iter().filter(counted).eq(members(old).iter().filter(counted))
}
