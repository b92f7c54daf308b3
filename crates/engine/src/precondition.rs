//! Preconditions of a write: the live object's uid and resourceVersion.

use crate::Target;
use crate::write::Live;
use pintle_meta::options::DeleteOptions;
use pintle_meta::{Status, rv};
use pintle_value::Value;

pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Checks the uid in the body of a PUT, which is a precondition.
pub(crate) fn check_uid(
    target: &Target,
    object: &Value,
    live: Option<&Live>,
    dry_run: bool,
) -> Result<(), Status> {
    let wanted = object.str_at(&["metadata", "uid"]);
    if wanted.is_empty() || (live.is_none() && !target.kind.rules.create_on_update) {
        return Ok(());
    }
    let actual = live.map(|live| live.tree.str_at(&["metadata", "uid"])).unwrap_or("");
    if wanted == actual {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}",
        target.error_key(dry_run)
    );
    Err(Status::conflict(&target.group_resource(), &target.name, &why))
}

/// Refuses a uid in an apply that creates the object.
pub(crate) fn check_no_uid(target: &Target, object: &Value, live: Option<&Value>) -> Result<(), Status> {
    let uid = object.str_at(&["metadata", "uid"]);
    if live.is_some() || uid.is_empty() {
        return Ok(());
    }
    let why =
        format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    Err(Status::conflict(&target.group_resource(), &target.name, &why))
}

/// Refuses to remove an object together with its last finalizers, if the deletion names a resourceVersion. kube-apiserver
/// compares the version of the object without these finalizers, which it has not stored and which thus has none.
pub(crate) fn check_removal(target: &Target, live: &Live, options: &DeleteOptions) -> Result<(), Status> {
    let names_version = options.preconditions.as_ref().is_some_and(|p| p.resource_version.is_some());
    let has_finalizers = !live.tree.items_at(&["metadata", "finalizers"]).is_empty();
    if !names_version || !has_finalizers || options.dry_run || target.kind.hooks.ends_in_two_phases() {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         ResourceVersion in precondition: , ResourceVersion in object meta: {}",
        target.error_key(false),
        live.object.revision()
    );
    Err(Status::conflict(&target.group_resource(), &target.name, &why))
}

/// Determines the resourceVersion that an update is based on, or refuses the update.
pub(crate) fn check_revision(target: &Target, object: &mut Value, live: &Live) -> Result<(), Status> {
    let resource = target.group_resource();
    let text = object.str_at(&["metadata", "resourceVersion"]);
    let named = rv::parse_of_object(text)?;
    let current = live.object.revision();
    if named == 0 && target.kind.rules.unconditional_update {
        object.set_at(&["metadata", "resourceVersion"], current.to_string().into());
        return Ok(());
    }
    if named == 0 {
        return Err(rv::version_required(&resource, &target.name));
    }
    if named != current {
        return Err(Status::conflict(&resource, &target.name, MODIFIED));
    }
    Ok(())
}
