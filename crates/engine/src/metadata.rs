//! The server-managed part of `metadata`: system fields, fields that updates cannot change, and checks against the
//! request.

use crate::Target;
use pintle_meta::Status;
use pintle_value::{Str, Value, json};
use std::collections::HashSet;

/// Removes the fields that only the server may set from a new object.
pub(crate) fn wipe_system_fields(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}

/// Sets the uid and creationTimestamp of a new object.
pub(crate) fn fill_system_fields(object: &mut Value, uid: Str, now: &str) {
    object.set_at(&["metadata", "uid"], Value::String(uid));
    object.set_at(&["metadata", "creationTimestamp"], now.into());
}

/// Sets the object's namespace from the request, or refuses the object if they differ.
pub(crate) fn default_namespace(object: &mut Value, target: &Target) -> Result<(), Status> {
    let wanted = if target.kind.namespaced { target.namespace.as_str() } else { "" };
    let named = object.str_at(&["metadata", "namespace"]);
    if named == wanted {
        return Ok(());
    }
    if wanted.is_empty() {
        object.remove_at(&["metadata", "namespace"]);
        return Ok(());
    }
    if named.is_empty() {
        object.set_at(&["metadata", "namespace"], wanted.into());
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Refuses an object whose name differs from that of the request.
pub(crate) fn check_name(object: &Value, target: &Target) -> Result<(), Status> {
    let named = object.str_at(&["metadata", "name"]);
    let wanted = &target.name;
    if named.is_empty() {
        let why = format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        );
        return Err(Status::bad_request(why));
    }
    if named != wanted {
        let why = format!("the name of the object ({named}) does not match the name on the URL ({wanted})");
        return Err(Status::bad_request(why));
    }
    Ok(())
}

/// The point in a write at which duplicate owner references are removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dedup {
    /// After decoding the request.
    Request,
    /// After admission.
    Admission,
}

/// Removes duplicate owner references (equal entries). The warning names their uids.
pub(crate) fn dedup_owner_references(object: &mut Value, when: Dedup) -> Option<String> {
    let refs = object.at_mut(&["metadata", "ownerReferences"])?.as_array_mut()?;
    let mut retained: Vec<Value> = Vec::with_capacity(refs.len());
    let mut repeated: Vec<String> = Vec::new();
    // Compares by their JSON text, because comparing thousands of references with each other is quadratic.
    let mut seen = HashSet::with_capacity(refs.len());
    for reference in refs.drain(..) {
        let text = json::bytes(&reference);
        if !seen.insert(text) {
            repeated.push(reference.str_at(&["uid"]).to_string());
        } else {
            retained.push(reference);
        }
    }
    *refs = retained;
    if repeated.is_empty() {
        return None;
    }
    let after = if when == Dedup::Admission { " after mutating admission happens" } else { "" };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{after}; API server dedups owner references in 1.20+, \
         and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        repeated.join(", ")
    ))
}

/// Copies the fields that an update may not change from the stored object.
pub(crate) fn inherit(object: &mut Value, old: &Value) {
    if object.str_at(&["metadata", "uid"]).is_empty() {
        copy(object, old, "uid");
    }
    if old.at(&["metadata", "creationTimestamp"]).is_some() {
        copy(object, old, "creationTimestamp");
    }
    if is_deleting(old) {
        copy(object, old, "deletionTimestamp");
    }
    if object.at(&["metadata", "deletionGracePeriodSeconds"]).is_none() {
        copy(object, old, "deletionGracePeriodSeconds");
    }
}

/// Copies one field of metadata, or removes it if `old` does not have it.
pub(crate) fn copy(object: &mut Value, old: &Value, field: &str) {
    match old.at(&["metadata", field]) {
        Some(value) => object.set_at(&["metadata", field], value.clone()),
        None => _ = object.remove_at(&["metadata", field]),
    }
}

/// Returns whether the object is being deleted.
pub(crate) fn is_deleting(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null())
}

/// The object's generation; 0 if it has none.
pub(crate) fn generation(object: &Value) -> i64 {
    object.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0)
}

/// The generation after the one of `object`. Kinds that do not count generations store whatever a client sends, so it
/// can be the largest integer; it wraps around, as in kube-apiserver.
pub(crate) fn next_generation(object: &Value) -> i64 {
    generation(object).wrapping_add(1)
}

/// Sets the generation; 0 removes it.
pub(crate) fn set_generation(object: &mut Value, generation: i64) {
    if generation == 0 {
        object.remove_at(&["metadata", "generation"]);
    } else {
        object.set_at(&["metadata", "generation"], Value::Int(generation));
    }
}

/// Returns whether changing `old` into `object` completes a deletion, because no finalizer is left.
pub(crate) fn completes_deletion(object: &Value, old: &Value) -> bool {
    let grace = old.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_int).unwrap_or(0);
    is_deleting(old) && grace == 0 && object.items_at(&["metadata", "finalizers"]).is_empty()
}

/// The manager of a write: the given fieldManager, or the first part of the User-Agent.
pub(crate) fn manager(named: &str, user_agent: &str) -> Str {
    if !named.is_empty() {
        return named.into();
    }
    const MANAGER_BYTES_MAX: usize = 128;
    let mut out = Str::default();
    for c in user_agent.split('/').next().unwrap_or("").chars().filter(|c| !c.is_control()) {
        if out.len().saturating_add(c.len_utf8()) > MANAGER_BYTES_MAX {
            break;
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_after_the_largest_wraps_as_in_go() {
        for (before, after) in [(0, 1), (7, 8), (i64::MAX, i64::MIN)] {
            let mut object = Value::object();
            set_generation(&mut object, before);
            assert_eq!(next_generation(&object), after);
        }
    }
}
