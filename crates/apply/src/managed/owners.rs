//! The core of update and apply: how a change affects the owners of the changed fields.

use super::conflict;
use super::entries::{ManagerId, Owned, Owners};
use super::{ApplyError, Context, Versioned};
use crate::fieldset::Set;
use crate::typed::{self, Comparison};
use pintle_schema::Schema;
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
    // Nearly always all managers wrote in the version of the request.
    if owners.values().all(|owned| owned.version == live.version) {
        return Ok(match cx.versions.schema(&live.version) {
            Some(schema) => adapted(owners, &schema),
            None => Owners::new(),
        });
    }
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
        adapt(&mut owned, &schema);
        out.insert(id, owned);
    }
    Ok(out)
}

fn adapted(mut owners: Owners, schema: &Schema) -> Owners {
    owners.values_mut().for_each(|owned| adapt(owned, schema));
    owners
}

fn adapt(owned: &mut Owned, schema: &Schema) {
    if let Some(set) = typed::reconcile(&owned.set, typed::Type::of(schema)) {
        owned.set = Arc::new(set);
    }
}

/// A change as seen in one version.
pub(super) struct Change {
    /// The fields that are gone.
    pub(super) removed: Set,
    /// The fields that are new or have new values.
    pub(super) set: Set,
}

/// Removes changed and removed fields from all managers but `writer`. Without `force`, removing changed ones is a
/// conflict. Returns the change in the version of the request.
pub(super) fn take_over(
    cx: &Context<'_>,
    old: &Versioned<'_>,
    new: &Versioned<'_>,
    owners: &mut Owners,
    writer: &ManagerId,
    force: bool,
) -> Result<Change, ApplyError> {
    let change = change(cx, old, new)?;
    let mut others: BTreeMap<Str, Option<Change>> = BTreeMap::new();
    for owned in owners.values() {
        if owned.version != new.version && !others.contains_key(&owned.version) {
            others.insert(owned.version.clone(), change_in(cx, old, new, &owned.version)?);
        }
    }
    let change_of = |version: &Str| {
        if *version == new.version { Some(&change) } else { others.get(version).and_then(Option::as_ref) }
    };
    owners.retain(|id, owned| id == writer || change_of(&owned.version).is_some());

    let mut conflicts = Vec::new();
    for (id, owned) in owners.iter_mut().filter(|(id, _)| *id != writer) {
        let Some(change) = change_of(&owned.version) else { continue };
        if change.removed.is_empty() && change.set.is_empty() {
            continue;
        }
        let taken = owned.set.intersection(&change.set);
        if !force {
            conflicts.extend(conflict::with(id, &taken));
        }
        let gone = taken.union(owned.set.intersection(&change.removed));
        if !gone.is_empty() {
            owned.set = Arc::new(Arc::unwrap_or_clone(std::mem::take(&mut owned.set)).difference(&gone));
        }
    }
    if !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    owners.retain(|_, owned| !owned.set.is_empty());
    Ok(change)
}

fn change(cx: &Context<'_>, old: &Versioned<'_>, new: &Versioned<'_>) -> Result<Change, ApplyError> {
    let comparison = cx.typed(&new.version, |ty| typed::compare_unmanaged(&old.value, &new.value, ty))?;
    let comparison = comparison.filtered(cx.versions.filter(&new.version));
    let Comparison { removed, modified, added } = comparison;
    Ok(Change { removed, set: modified.union(added) })
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
