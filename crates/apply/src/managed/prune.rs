//! What an apply leaves out that it had before: such fields are removed, unless someone else owns them.

use super::entries::{ManagerId, Owned, Owners};
use super::{ApplyError, Context, Versioned};
use crate::fieldset::Set;
use crate::typed::{field_set, remove, with_named_fields};
use pintle_value::{Str, Value};
use std::collections::BTreeMap;

fn failed(what: &str, error: impl std::fmt::Display) -> ApplyError {
    ApplyError::Failed(format!("failed to prune fields: {what}: {error}"))
}

/// Removes from `merged` what `applier` applied last time (`last`), does not apply now, and nobody else owns.
/// `owners` already has what it applies now.
pub(super) fn prune<'v>(
    cx: &Context<'_>,
    merged: Versioned<'v>,
    owners: &Owners,
    applier: &ManagerId,
    last: Option<&Owned>,
) -> Result<Versioned<'v>, ApplyError> {
    let Some(last) = last.filter(|last| !last.set.is_empty()) else { return Ok(merged) };
    let Some(now) = owners.get(applier) else { return Ok(merged) };
    // The common case: nothing was left out, so whatever is taken out comes back.
    if last.version == now.version && last.set.clone().difference(&now.set).is_empty() {
        return Ok(merged);
    }
    let as_last = cx
        .convert(&merged, &last.version)
        .map_err(|e| failed("failed to convert merged object to last applied version", e))?;
    let Some(as_last) = as_last else { return Ok(merged) };

    let pruned =
        cx.typed(&last.version, |ty| remove(&as_last.value, &with_named_fields(&last.set, ty), ty))?;
    let pruned = Versioned::owned(pruned, &last.version);
    let pruned = add_back_owned(cx, &as_last, pruned, owners)?;
    let pruned = add_back_dangling(cx, &as_last, pruned, last)?;
    let converted = cx
        .convert(&pruned, &now.version)
        .map_err(|e| failed("failed to convert pruned object to version of the request", e))?;
    Ok(converted.unwrap_or(pruned))
}

/// Puts back what anyone owns, in each version in which someone owns something.
fn add_back_owned<'v>(
    cx: &Context<'_>,
    merged: &Versioned<'v>,
    pruned: Versioned<'v>,
    owners: &Owners,
) -> Result<Versioned<'v>, ApplyError> {
    let mut by_version: BTreeMap<&Str, Set> = BTreeMap::new();
    for owned in owners.values() {
        let all = by_version.entry(&owned.version).or_default();
        *all = std::mem::take(all).union(owned.set.clone());
    }
    // The version that was pruned comes first: other versions may need what was pruned to be converted at all.
    let first = by_version.remove(&pruned.version).map(|set| (pruned.version.clone(), set));
    let others = by_version.into_iter().map(|(version, set)| (version.clone(), set));
    let (mut merged, mut pruned) = (merged.clone(), pruned);
    for (version, owned) in first.into_iter().chain(others) {
        let convert = |object: &Versioned<'v>, which: &str| {
            cx.convert(object, &version).map_err(|e| {
                failed(
                    &format!(
                        "failed add back owned items: failed to convert {which} object at version {version}"
                    ),
                    e,
                )
            })
        };
        let (Some(merged_now), Some(pruned_now)) = (convert(&merged, "merged")?, convert(&pruned, "pruned")?)
        else {
            continue;
        };
        let value = cx.typed(&version, |ty| {
            let kept = with_named_fields(&field_set(&pruned_now.value, ty), ty);
            let kept = kept.union(with_named_fields(&owned, ty));
            let all = with_named_fields(&field_set(&merged_now.value, ty), ty);
            remove(&merged_now.value, &all.difference(&kept), ty)
        })?;
        merged = merged_now;
        pruned = Versioned::owned(value, &version);
    }
    Ok(pruned)
}

/// Puts back what the applier never owned: fields that only went with a list item or map they were in.
fn add_back_dangling<'v>(
    cx: &Context<'_>,
    merged: &Versioned<'v>,
    pruned: Versioned<'v>,
    last: &Owned,
) -> Result<Versioned<'v>, ApplyError> {
    let as_last = cx
        .convert(&pruned, &last.version)
        .map_err(|e| failed("failed add back dangling items: failed to convert pruned object", e))?;
    let Some(pruned) = as_last else { return Ok(merged.clone()) };
    let value: Value = cx.typed(&last.version, |ty| {
        let kept = with_named_fields(&field_set(&pruned.value, ty), ty);
        let all = with_named_fields(&field_set(&merged.value, ty), ty);
        let gone = all.difference(&kept).intersection(&with_named_fields(&last.set, ty));
        remove(&merged.value, &gone, ty)
    })?;
    Ok(Versioned::owned(value, &last.version))
}
