//! The core of update and apply: how a change affects the owners of the changed fields.

use super::conflict;
use super::entries::{ManagerId, Owners};
use super::{ApplyError, Context, Versioned};
use crate::fieldset::Set;
use crate::typed::{self, Comparison};
use pintle_value::Str;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Adapts all sets to the current schemas of their versions. Managers of removed versions are dropped; a version to
/// which the live object cannot be converted fails the write.
pub(super) fn reconciled(
    cx: &Context<'_>,
    live: &Versioned<'_>,
    owners: Owners,
) -> Result<Owners, ApplyError> {
    let mut is_served: BTreeMap<Str, bool> = BTreeMap::from([(live.version.clone(), true)]);
    let mut out = Owners::new();
    for (id, mut owned) in owners {
        if !is_served.contains_key(&owned.version) {
            let converted = cx.convert(live, &owned.version).map_err(ApplyError::Failed)?;
            is_served.insert(owned.version.clone(), converted.is_some());
        }
        if is_served.get(&owned.version) == Some(&false) {
            continue;
        }
        let Some(schema) = cx.versions.schema(&owned.version) else { continue };
        if let Some(set) = typed::reconcile(&owned.set, typed::Type::of(&schema)) {
            owned.set = Arc::new(set);
        }
        out.insert(id, owned);
    }
    Ok(out)
}

/// A change as seen in one version: how the objects differ, and which fields have new values.
struct Change {
    comparison: Comparison,
    set: Set,
}

/// Removes changed and removed fields from all managers but `writer`. Without `force`, removing changed ones is a
/// conflict. Returns how the objects differ in the version of the request.
pub(super) fn take_over(
    cx: &Context<'_>,
    old: &Versioned<'_>,
    new: &Versioned<'_>,
    owners: &mut Owners,
    writer: &ManagerId,
    force: bool,
) -> Result<Comparison, ApplyError> {
    let mut changes: BTreeMap<Str, Option<Change>> = BTreeMap::new();
    changes.insert(new.version.clone(), Some(change(cx, old, new)?));
    for owned in owners.values() {
        if !changes.contains_key(&owned.version) {
            changes.insert(owned.version.clone(), change_in(cx, old, new, &owned.version)?);
        }
    }
    let change_of = |version: &str| changes.get(version).and_then(Option::as_ref);
    owners.retain(|id, owned| id == writer || change_of(&owned.version).is_some());

    let mut conflicts = Vec::new();
    for (id, owned) in owners.iter_mut().filter(|(id, _)| *id != writer) {
        let Some(change) = change_of(&owned.version) else { continue };
        if change.comparison.is_same() {
            continue;
        }
        let taken = owned.set.intersection(&change.set);
        if !force {
            conflicts.extend(conflict::with(id, &taken));
        }
        let gone = taken.union(owned.set.intersection(&change.comparison.removed));
        if !gone.is_empty() {
            owned.set = Arc::new(Arc::unwrap_or_clone(std::mem::take(&mut owned.set)).difference(&gone));
        }
    }
    if !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    owners.retain(|_, owned| !owned.set.is_empty());
    Ok(changes.remove(&new.version).flatten().map(|change| change.comparison).unwrap_or_default())
}

fn change(cx: &Context<'_>, old: &Versioned<'_>, new: &Versioned<'_>) -> Result<Change, ApplyError> {
    let comparison = cx.typed(&new.version, |ty| typed::compare(&old.value, &new.value, ty))?;
    let comparison = comparison.filtered(cx.versions.filter(&new.version));
    let set = comparison.modified.clone().union(comparison.added.clone());
    Ok(Change { comparison, set })
}

/// The change in another version; `None` if there is no such version.
fn change_in(
    cx: &Context<'_>,
    old: &Versioned<'_>,
    new: &Versioned<'_>,
    version: &str,
) -> Result<Option<Change>, ApplyError> {
    let convert = |object, which| {
        cx.convert(object, version)
            .map_err(|error| ApplyError::Failed(format!("failed to convert {which} object: {error}")))
    };
    let (Some(old), Some(new)) = (convert(old, "old")?, convert(new, "new")?) else { return Ok(None) };
    change(cx, &old, &new).map(Some)
}
