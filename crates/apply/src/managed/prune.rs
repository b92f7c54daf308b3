//! Removes the fields that an apply no longer sets, unless another manager owns them.

use super::entries::{ManagerId, Owned, Owners};
use super::{ApplyError, Context, Versioned};
use crate::fieldset::Set;
use crate::typed::{Type, field_set, narrow, remove, with_named_fields};
use pintle_value::{Str, Value};
use std::collections::BTreeMap;

fn failed(what: &str, error: impl std::fmt::Display) -> ApplyError {
    ApplyError::Failed(format!("failed to prune fields: {what}: {error}"))
}

/// All fields of a value, including the struct fields above them.
fn all_fields(value: &Value, ty: Type<'_>) -> Set {
    with_named_fields(field_set(value, ty), ty)
}

/// Removes from `merged` the fields that `applier` applied last time (`last`), does not apply now, and no other manager
/// owns. `owners` already contains the fields that it applies now.
pub(super) fn prune<'v>(
    cx: &Context<'_>,
    merged: Versioned<'v>,
    owners: &Owners,
    applier: &ManagerId,
    last: Option<&Owned>,
) -> Result<Versioned<'v>, ApplyError> {
    let Some(last) = last.filter(|last| !last.set.is_empty()) else { return Ok(merged) };
    let Some(now) = owners.get(applier) else { return Ok(merged) };
    // The common case: nothing was dropped from the configuration, so pruning would change nothing. With several
    // versions, conversion may still reject the object.
    let one_version = owners.values().all(|owner| owner.version == last.version);
    if one_version && last.set.is_within(&now.set) {
        return Ok(merged);
    }
    let merged = if merged.version == last.version {
        merged
    } else {
        let as_last = cx
            .convert(&merged, &last.version)
            .map_err(|e| failed("failed to convert merged object to last applied version", e))?;
        match as_last {
            Some(as_last) => as_last,
            None => return Ok(merged),
        }
    };
    let Some(gone) = fields_to_remove(cx, &merged, owners, last)? else { return Ok(merged) };
    let pruned = cx.typed(&last.version, |ty| remove(&merged.value, &gone, ty))?;
    let pruned = Versioned::owned(pruned, &last.version);
    if last.version == now.version {
        return Ok(pruned);
    }
    let why = |error| ApplyError::Failed(format!("failed to prune fields: {error}"));
    let converted = cx.convert(&pruned, &now.version).map_err(why)?;
    Ok(converted.unwrap_or(pruned))
}

/// The fields to remove from the merged object, in the version that was applied last; `None` if they cannot be
/// determined.
fn fields_to_remove(
    cx: &Context<'_>,
    merged: &Versioned<'_>,
    owners: &Owners,
    last: &Owned,
) -> Result<Option<Set>, ApplyError> {
    let owned = by_version(owners);
    let (narrowed, pruned, all, applied) = cx.typed(&last.version, |ty| {
        let applied = with_named_fields(last.set.as_ref().clone(), ty);
        let narrowed = match owned.get(&last.version) {
            // Of a long list, only the affected items are compared. This needs all owners to be in one version.
            Some(owned) if owners.values().all(|owner| owner.version == last.version) => {
                narrow(&merged.value, &applied, &with_named_fields(owned.clone(), ty), ty)
            }
            _ => merged.value.as_ref().clone(),
        };
        let pruned = remove(&narrowed, &applied, ty);
        let all = all_fields(&narrowed, ty);
        (narrowed, pruned, all, applied)
    })?;
    let narrowed = Versioned::owned(narrowed, &last.version);
    let step = Step { cx, version: &last.version, merged: &narrowed, all, applied };
    let pruned = step.restore_owned(Versioned::owned(pruned, &last.version), owned)?;
    step.restore_unowned(pruned)
}

/// The fields that any manager owns, by version.
fn by_version(owners: &Owners) -> BTreeMap<Str, Set> {
    let mut out: BTreeMap<Str, Set> = BTreeMap::new();
    for owned in owners.values() {
        let all = out.entry(owned.version.clone()).or_default();
        *all = std::mem::take(all).union(owned.set.as_ref().clone());
    }
    out
}

/// The object before pruning, in the version that was applied last.
struct Step<'a, 'v> {
    cx: &'a Context<'a>,
    version: &'a Str,
    merged: &'a Versioned<'v>,
    /// All fields that the object has.
    all: Set,
    /// The fields that were applied last.
    applied: Set,
}

impl<'v> Step<'_, 'v> {
    /// Restores what any manager owns, in each version in which a manager owns something.
    fn restore_owned(
        &self,
        pruned: Versioned<'v>,
        mut by_version: BTreeMap<Str, Set>,
    ) -> Result<Versioned<'v>, ApplyError> {
        // The pruned version comes first: other versions may need the pruned fields for conversion.
        let first = by_version.remove_entry(self.version);
        let mut merged = self.merged.clone();
        let mut pruned = pruned;
        for (version, owned) in first.into_iter().chain(by_version) {
            let convert = |object, which: &str| {
                let why = format!(
                    "failed add back owned items: failed to convert {which} object at version {version}"
                );
                self.cx.convert(object, &version).map_err(|error| failed(&why, error))
            };
            let Some(merged_now) = convert(&merged, "merged")? else { continue };
            let Some(pruned_now) = convert(&pruned, "pruned")? else { continue };
            let value = self.cx.typed(&version, |ty| {
                let kept = all_fields(&pruned_now.value, ty).union(with_named_fields(owned, ty));
                let all = if version == *self.version {
                    self.all.clone()
                } else {
                    all_fields(&merged_now.value, ty)
                };
                remove(&merged_now.value, &all.difference(&kept), ty)
            })?;
            merged = merged_now;
            pruned = Versioned::owned(value, &version);
        }
        Ok(pruned)
    }

    /// Restores what the applier never owned and only disappeared together with a list item or map.
    fn restore_unowned(self, pruned: Versioned<'v>) -> Result<Option<Set>, ApplyError> {
        let why = "failed add back dangling items: failed to convert pruned object to last applied version";
        let pruned = self.cx.convert(&pruned, self.version).map_err(|error| failed(why, error))?;
        let Some(pruned) = pruned else { return Ok(None) };
        let kept = self.cx.typed(self.version, |ty| all_fields(&pruned.value, ty))?;
        Ok(Some(self.all.difference(&kept).intersection(&self.applied)))
    }
}
