//! Every write other than apply: the writer owns the fields that it changes.

use super::entries::{self, Managed, ManagerId, Owned};
use super::{ApplyError, Context, Owner, Versioned, described, owners, zero_object};
use crate::fieldset::Set;
use crate::typed::{self, Duplicates, Type};
use pintle_value::{Str, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// How many updaters are distinguished; the oldest beyond that are merged.
const UPDATERS_MAX: usize = 10;

/// Writes `new.metadata.managedFields` for a create (`live` is none) or an update. If this fails, `new` has no managed
/// fields and the write continues: kube-apiserver fails no update for them.
///
/// `new` must still have the managed fields of the request: `[]` and `[{}]` reset them.
pub fn update(
    cx: &Context<'_>,
    live: Option<&Value>,
    new: &mut Value,
    owner: Owner<'_>,
) -> Result<(), ApplyError> {
    let stored = live.map(entries::entries_of).unwrap_or_default();
    let (managed, is_of_live) = live_or_new(live, new, !owner.subresource.is_empty());
    // Only entries that come from the store are certain to have our encoding.
    let is_stored = is_of_live || stored == entries::entries_of(new);
    new.remove_at(&["metadata", "managedFields"]);
    // An untracked object stays untracked until it is applied; a new object is tracked from the start.
    let exists = live.is_some_and(|live| !live.str_at(&["metadata", "uid"]).is_empty());
    if managed.owners.is_empty() && exists {
        return Ok(());
    }
    let before = match live {
        Some(live) => Cow::Borrowed(live),
        None => Cow::Owned(zero_object(&cx.schema()?, cx.kind)),
    };
    let sets = managed.sets();
    let after = record(cx, &before, new, managed, owner)?;
    let stored = entries::Stored { sets, entries: stored };
    entries::put(new, &after, is_stored.then_some(&stored));
    Ok(())
}

/// The initial managers: those of the request if they can be decoded, else those of the live object, so that clients
/// without knowledge of managed fields do not delete them. Subresources cannot set them. Also returns whether they are
/// those of the live object.
fn live_or_new(live: Option<&Value>, new: &Value, is_subresource: bool) -> (Managed, bool) {
    let of_live = || {
        let entries = live.map(entries::entries_of).unwrap_or_default();
        (Managed::decode(entries).unwrap_or_default(), true)
    };
    if is_subresource {
        return of_live();
    }
    if entries::resets_managed_fields(new) {
        return (Managed::default(), false);
    }
    match Managed::decode(entries::entries_of(new)) {
        Ok(managed) if !managed.owners.is_empty() => (managed, false),
        _ => of_live(),
    }
}

/// Records a change from `live` to `new`. Managed fields in them are ignored.
pub(super) fn record(
    cx: &Context<'_>,
    live: &Value,
    new: &Value,
    managed: Managed,
    owner: Owner<'_>,
) -> Result<Managed, ApplyError> {
    let version = cx.api_version();
    let schema = cx.schema()?;
    for (object, which) in [(new, "new"), (live, "live")] {
        typed::validate_unmanaged(object, Type::of(&schema), Duplicates::Allowed).map_err(|errors| {
            let object = described(object);
            ApplyError::Failed(format!("failed to convert {which} object ({object}) to smd typed: {errors}"))
        })?;
    }
    let manager = if owner.manager.is_empty() { "unknown" } else { owner.manager };
    let id = ManagerId::new(manager, false, &version, owner.subresource);
    let Managed { owners, mut times } = managed;
    let [old, new] = [live, new].map(|value| Versioned::borrowed(value, &version));
    let mut owners = owners::reconciled(cx, &old, owners)?;
    let before = owners.remove(&id);
    let change = owners::take_over(cx, &old, &new, &mut owners, &id, true)?;
    let owned = own_fields(before, change, &version);
    if let Some((owned, is_new)) = owned {
        if is_new {
            times.insert(id.clone(), owner.now.into());
        }
        owners.insert(id, owned);
    }
    Ok(cap_updaters(Managed { owners, times }))
}

/// The fields that the writer owns after a change: those that it owned and that did not change, and those that it
/// changed. Also returns whether it changed some; `None` if it owns nothing.
fn own_fields(before: Option<Owned>, change: owners::Change, version: &Str) -> Option<(Owned, bool)> {
    let owners::Change { removed, set } = change;
    let taken = match &before {
        Some(before) => before.set.intersection(&set),
        None => Set::new(),
    };
    let set = set.difference(never_owned());
    let is_new = !set.is_empty();
    let Some(mut before) = before else {
        let owned = Owned { set: set.into(), version: version.clone(), applied: false, entry: None };
        return is_new.then_some((owned, is_new));
    };
    let removed = before.set.intersection(&removed);
    // The common case: the writer changes fields that it owns already.
    if !removed.is_empty() || !taken.is_within(&set) || !set.is_within(&before.set) {
        let rest = Arc::unwrap_or_clone(before.set).difference(&taken).difference(&removed);
        before.set = set.union(rest).into();
    }
    (!before.set.is_empty()).then_some((before, is_new))
}

/// Fields that identify the object or that only the server writes.
pub(super) fn never_owned() -> &'static Set {
    static SET: OnceLock<Set> = OnceLock::new();
    SET.get_or_init(|| {
        Set::of(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    })
}

/// Merges the oldest updaters of each version into one `ancient-changes` until few enough are left.
fn cap_updaters(mut managed: Managed) -> Managed {
    let mut updaters: Vec<ManagerId> =
        managed.owners.iter().filter(|(_, owned)| !owned.applied).map(|(id, _)| id.clone()).collect();
    let mut count = updaters.len();
    if count <= UPDATERS_MAX {
        return managed;
    }
    let time = |id: &ManagerId| managed.times.get(id).cloned().unwrap_or_default();
    updaters.sort_by(|a, b| time(a).cmp(&time(b)).then_with(|| a.cmp(b)));
    let mut first_of_version: BTreeMap<Str, ManagerId> = BTreeMap::new();
    let mut merged_sets: BTreeMap<ManagerId, Vec<Arc<Set>>> = BTreeMap::new();
    for id in updaters {
        if count <= UPDATERS_MAX {
            break;
        }
        let Some(owned) = managed.owners.get(&id).cloned() else { continue };
        let Some(first) = first_of_version.get(&owned.version) else {
            first_of_version.insert(owned.version, id);
            continue;
        };
        let bucket = ManagerId::new("ancient-changes", false, &owned.version, "");
        if !managed.owners.contains_key(&bucket)
            && let Some(merged) = managed.owners.remove(first)
        {
            managed.owners.insert(bucket.clone(), merged);
        }
        managed.owners.remove(&id);
        if let Some(merged) = managed.owners.get_mut(&bucket) {
            merged.applied = owned.applied;
        }
        merged_sets.entry(bucket.clone()).or_default().push(owned.set);
        // The entry that is merged last is the newest.
        match managed.times.get(&id).cloned() {
            Some(time) => _ = managed.times.insert(bucket, time),
            None => _ = managed.times.remove(&bucket),
        }
        count = count.saturating_sub(1);
    }
    for (bucket, sets) in merged_sets {
        if let Some(merged) = managed.owners.get_mut(&bucket) {
            let first = std::mem::take(&mut merged.set);
            merged.set = union_of(std::iter::once(first).chain(sets).collect());
        }
    }
    managed
}

/// The union of all sets. Neighbours are united in rounds, because adding thousands of sets to a growing one takes
/// quadratic time.
fn union_of(mut sets: Vec<Arc<Set>>) -> Arc<Set> {
    while sets.len() > 1 {
        let mut round = sets.into_iter().map(Arc::unwrap_or_clone);
        let mut united = Vec::new();
        while let Some(left) = round.next() {
            united.push(match round.next() {
                Some(right) => left.union(right).into(),
                None => left.into(),
            });
        }
        sets = united;
    }
    sets.pop().unwrap_or_default()
}
