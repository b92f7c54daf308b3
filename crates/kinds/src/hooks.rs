//! `Hooks`: what no schema can say of a kind. All methods have a default: nothing.
//!
//! Objects are trees in the version that is kept in the store, written as Go would marshal them. Hooks are
//! pure: clock, randomness and other objects come to them as arguments or not at all.

use crate::KindVersion;
use pintle_meta::FieldErrors;
use pintle_value::{Map, Str, Value};
use std::collections::BTreeMap;

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// The object itself.
    Main,
    /// A subresource that writes the same kind of object: `status`, `resize`, `ephemeralcontainers`, `approval`, `finalize`.
    Sub(&'a str),
}

/// Finds the namespace of an object; none where it is not there.
pub type Namespace<'a> = dyn Fn() -> Option<Value> + 'a;

/// What no schema can say of a kind.
pub trait Hooks: Sync + Send {
    /// Fills in what is left out (Go's `SetDefaults_*`), on every decode. Takes the version the request is in.
    fn default(&self, _version: &str, _object: &mut Value) {}

    /// Whether a new object lacks what [`Hooks::default`] fills in: it is stored without, and read with it. The next write
    /// stores it, even one that changes nothing.
    fn is_defaulted_when_read(&self) -> bool {
        false
    }

    /// Brings a new object into its first state: status cleared, fields of disabled features dropped,
    /// what the server alone decides set.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Brings a changed object in line with the old one: what this scope may not touch is taken from `old`.
    /// The default is right for most kinds: `Main` keeps the old status, `status` keeps the old everything else.
    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        keep_other_side(scope, object, old);
    }

    /// What a new object asks of its namespace; checked before all else.
    fn validate_in_namespace(&self, _object: &Value, _namespace: &Namespace<'_>, _errors: &mut FieldErrors) {}

    /// All that is wrong with a new object (`metadata` is checked by the engine).
    fn validate_create(&self, _object: &Value, _errors: &mut FieldErrors) {}

    /// All that is wrong with a changed object.
    fn validate_update(&self, _scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        self.validate_create(object, errors);
    }

    /// `validate_create` for kinds whose rules depend on the version that a request speaks (events).
    fn validate_create_in(&self, _version: &KindVersion, object: &Value, errors: &mut FieldErrors) {
        self.validate_create(object, errors);
    }

    /// `validate_update` for kinds whose rules depend on the version that a request speaks (events).
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

    /// Notes on a new object who asked for it, after `prepare_create`.
    fn set_requester(&self, _object: &mut Value, _requester: &Requester<'_>) {}

    /// Sets the times that the server keeps in a status, after `prepare_*`; `old` is none for a new object and
    /// `now` is the time as text.
    fn stamp(&self, _scope: Scope<'_>, _object: &mut Value, _old: Option<&Value>, _now: &str) {}

    /// The last touch after validation: forms that are equal become one (Go's `Canonicalize`).
    fn canonicalize(&self, _object: &mut Value) {}

    /// Warnings for the client, on create (`old` is none) and update.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// What is wrong with a name (empty: nothing). `prefix` is true for a generateName.
    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        pintle_meta::names::dns_subdomain(name, prefix)
    }

    /// Whether finalizers without a domain must be standard ones. Leases and kinds of servers beside the main one go
    /// without this rule.
    fn knows_finalizers(&self) -> bool {
        true
    }

    /// Whether the kind's own checks include those of metadata, so that metadata errors come before and beside
    /// the others. A few kinds leave metadata to the checks that all objects get.
    fn validates_metadata(&self) -> bool {
        true
    }

    /// Whether the kind's own checks of a change include those of changed metadata. A few judge a changed object
    /// only as if it were new, or not at all.
    fn validates_changed_metadata(&self, _scope: Scope<'_>) -> bool {
        self.validates_metadata()
    }

    /// Whether a change from `old` to `object` makes a new generation. Only asked where `Rules::generation` counts.
    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        differs_outside_metadata_and_status(object, old)
    }

    /// Whether deletions of this kind can wait for a grace period at all (pods).
    fn is_graceful(&self) -> bool {
        false
    }

    /// How long a deletion waits before it removes the object. `asked` is the client's wish.
    /// `None`: the object is removed at once. Only asked where `is_graceful`.
    fn grace_seconds(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Why the object of this name cannot be deleted by itself. All objects together can: a quirk of kube-apiserver.
    fn deletion_refusal(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Begins a deletion that always has two phases (namespaces, definitions): brings the object into its
    /// ending state and says so; the engine sets the deletionTimestamp.
    fn begin_deletion(&self, _object: &mut Value, _now: &str) -> bool {
        false
    }

    /// What a client is told who deletes without saying what shall become of dependents.
    fn unsaid_propagation_warning(&self) -> Option<&'static str> {
        None
    }

    /// Whether deletions of this kind always have two phases.
    fn ends_in_two_phases(&self) -> bool {
        false
    }

    /// Whether nothing of the kind's own (a namespace's `spec.finalizers`) keeps an ending object.
    fn may_remove(&self, _object: &Value) -> bool {
        true
    }

    /// Fields that a write of `scope` cannot change, and so never owns (Go's `GetResetFields`).
    fn reset_fields(&self, scope: Scope<'_>) -> &'static [&'static [&'static str]] {
        match scope {
            Scope::Sub("status") => &[&["spec"]],
            _ => &[&["status"]],
        }
    }

    /// Turns an object of one version into another. Only called for kinds with versions that differ.
    fn convert(&self, _object: &mut Value, _from: &KindVersion, _to: &KindVersion) {}

    /// Values of selectable fields that are computed rather than looked up by path.
    fn selectable(&self, _label: &str, _object: &Value) -> Option<Str> {
        None
    }
}

/// Who makes a request, as objects note it.
pub struct Requester<'a> {
    /// Name.
    pub name: &'a str,
    /// Unique over time, or "".
    pub uid: &'a str,
    /// Groups.
    pub groups: &'a [String],
    /// What else is known.
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// A kind without rules of its own.
pub struct NoHooks;

impl Hooks for NoHooks {
    /// Of these kinds only those have a status that are never stored; nothing resets it.
    fn reset_fields(&self, _scope: Scope<'_>) -> &'static [&'static [&'static str]] {
        &[]
    }
}

/// Takes from `old` what a write of `scope` may not touch: the status for the object itself, everything else
/// (spec, other top-level fields, metadata but for managedFields) for its status.
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

/// `keep_other_side` of kinds whose status endpoint names what of the metadata it leaves alone. What it does not name
/// is left to the checks of changed metadata.
pub(crate) fn keep_named_metadata(scope: Scope<'_>, object: &mut Value, old: &Value) {
    const KEPT: [&str; 6] =
        ["annotations", "deletionTimestamp", "finalizers", "generation", "labels", "ownerReferences"];
    let metadata = object.get("metadata").cloned();
    keep_other_side(scope, object, old);
    if let (Scope::Sub("status"), Some(metadata)) = (scope, metadata) {
        object.set_at(&["metadata"], metadata);
        KEPT.iter().for_each(|key| take(object, old, &["metadata", key]));
    }
}

/// Sets what is at `keys` to what `old` has there, absence included.
pub fn take(object: &mut Value, old: &Value, keys: &[&str]) {
    match old.at(keys) {
        Some(value) => object.set_at(keys, value.clone()),
        None => _ = object.remove_at(keys),
    }
}

fn differs_outside_metadata_and_status(object: &Value, old: &Value) -> bool {
    differs_in(object, old, |key| !matches!(key, "metadata" | "status" | "kind" | "apiVersion"))
}

/// Whether two objects differ in the members that count.
pub(crate) fn differs_in(object: &Value, old: &Value, counts: impl Fn(&str) -> bool) -> bool {
    fn members(value: &Value) -> &[(Str, Value)] {
        value.as_object().map_or(&[], Map::as_slice)
    }
    let counted = |(key, _): &&(Str, Value)| counts(key);
    !members(object).iter().filter(counted).eq(members(old).iter().filter(counted))
}
