//! Server-side apply: merges a configuration into the live object and makes its manager the owner of the fields that it
//! sets.

use super::entries::{self, Managed, ManagerId, Owned};
use super::{ApplyError, Context, Owner, Versioned, described, kind_of, last_applied, owners, prune, update};
use crate::fieldset::{self, Set};
use crate::patch::restore::restore;
use crate::typed::{self, Duplicates, Type};
use pintle_meta::GroupVersionKind;
use pintle_value::{Str, Value};
use std::sync::Arc;

/// The manager of the fields that an object had before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The result of an apply.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The object with its new managed fields, in the version of the request. The caller must still decode it with the
    /// schema and apply defaults.
    pub object: Value,
    /// Whether anything but the managed fields changed.
    pub changed: bool,
}

/// Applies `config` to `live` (`None` for a create). `live` has its stored managed fields.
pub fn apply(
    cx: &Context<'_>,
    live: Option<&Value>,
    config: &Value,
    owner: Owner<'_>,
    force: bool,
) -> Result<Applied, ApplyError> {
    let kind = kind_of(config);
    if kind != *cx.kind {
        return Err(ApplyError::BadRequest(format!("invalid object type: {kind}")));
    }
    let zero;
    let live = match live {
        Some(live) => live,
        None => {
            zero = super::zero_object(&cx.schema()?, cx.kind);
            &zero
        }
    };
    let stored = entries::entries_of(live);
    let managed = Managed::decode(stored)
        .map_err(|error| ApplyError::Failed(format!("failed to decode managed fields: {error}")))?;
    let live = super::without_managed_fields(live);
    let step = Step { cx, live: &live, config, owner };

    let before = step.tracked(managed)?;
    let outcome = match step.run(before.clone(), force) {
        Err(ApplyError::Conflicts(conflicts)) if owner.manager == last_applied::MANAGER => {
            match last_applied::unexpected(cx, &live, &conflicts) {
                Some(unexpected) if unexpected.is_empty() => step.run(before.clone(), true),
                Some(unexpected) => Err(ApplyError::Conflicts(unexpected)),
                None => Err(ApplyError::Conflicts(conflicts)),
            }
        }
        outcome => outcome,
    };
    let (mut object, managed) = outcome?;
    if let (Some(_), Some(why)) = (&object, cx.versions.unappliable()) {
        let config = described(config);
        return Err(ApplyError::Failed(format!(
            "failed to convert new object ({config}) to proper version: {why}"
        )));
    }
    if let Some(object) = &mut object {
        restore(object, &cx.schema()?).map_err(|error| cannot_convert(cx.kind, config, &error))?;
    }
    let changed = object.is_some();
    let mut object = object.unwrap_or(live);
    if owner.manager == last_applied::MANAGER {
        last_applied::refresh(&mut object, config);
    }
    entries::put(&mut object, &managed, Some(&entries::Stored { sets: before.sets(), entries: stored }));
    Ok(Applied { object, changed })
}

/// The error for an applied object that cannot be decoded, here or by the caller.
pub fn cannot_convert(kind: &GroupVersionKind, config: &Value, error: &str) -> ApplyError {
    let config = described(config);
    ApplyError::Failed(format!(
        "failed to convert new object ({config}) to proper version: unable to convert unstructured object to {kind}: {error}"
    ))
}

struct Step<'a> {
    cx: &'a Context<'a>,
    live: &'a Value,
    config: &'a Value,
    owner: Owner<'a>,
}

impl Step<'_> {
    /// On the first apply to an untracked object, everything in it gets an owner.
    fn tracked(&self, managed: Managed) -> Result<Managed, ApplyError> {
        if !managed.owners.is_empty() {
            return Ok(managed);
        }
        let failed =
            |why: &str| ApplyError::Failed(format!("failed to create manager for existing fields: {why}"));
        let zero = super::zero_object(&self.cx.schema()?, self.cx.kind);
        if let Some(why) = self.cx.versions.unappliable() {
            let object = described(&zero);
            return Err(failed(&format!(
                "failed to convert live object ({object}) to proper version: {why}"
            )));
        }
        let owner = Owner { manager: BEFORE_FIRST_APPLY, ..self.owner };
        update::record(self.cx, &zero, self.live, managed, owner).map_err(|error| failed(&error.to_string()))
    }

    /// Returns the new object (`None` if unchanged) and the new managers.
    fn run(&self, managed: Managed, force: bool) -> Result<(Option<Value>, Managed), ApplyError> {
        if has_managed_fields(self.config) {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".into()));
        }
        let (cx, owner) = (self.cx, self.owner);
        let version = cx.api_version();
        self.validate()?;
        let manager = if owner.manager.is_empty() { "unknown" } else { owner.manager };
        let id = ManagerId::new(manager, true, &version, owner.subresource);

        let Managed { owners, mut times } = managed;
        let old = Versioned::borrowed(self.live, &version);
        let mut owners = owners::reconciled(cx, &old, owners)?;
        let (merged, set) = self.merged(&version)?;
        let entry = owners.get(&id).and_then(|owned| owned.entry);
        let owned = Owned { set: set.into(), version: version.clone(), applied: true, entry };
        let last = owners.insert(id.clone(), owned);
        let new = prune::prune(cx, Versioned::owned(merged, &version), &owners, &id, last.as_ref())?;
        owners::take_over(cx, &old, &new, &mut owners, &id, force)?;

        if let Some(owned) = owners.get_mut(&id) {
            let set = Arc::unwrap_or_clone(std::mem::take(&mut owned.set));
            owned.set = set.difference(update::never_owned()).into();
            if owned.set.is_empty() {
                owners.remove(&id);
            }
        }
        let changed = *self.live != *new.value && fieldset::compare(self.live, &new.value).is_ne();
        if changed {
            times.insert(id, owner.now.into());
        }
        Ok((changed.then(|| new.value.into_owned()), Managed { owners, times }))
    }

    fn validate(&self) -> Result<(), ApplyError> {
        let schema = self.cx.schema()?;
        for (object, which, duplicates) in
            [(self.config, "patch", Duplicates::Refused), (self.live, "live", Duplicates::Allowed)]
        {
            typed::validate(object, Type::of(&schema), duplicates).map_err(|errors| {
                let object = described(object);
                ApplyError::Failed(format!("failed to create typed {which} object ({object}): {errors}"))
            })?;
        }
        Ok(())
    }

    /// The configuration merged into the live object, and the fields that the configuration sets.
    fn merged(&self, version: &Str) -> Result<(Value, Set), ApplyError> {
        let (merged, set) = self.cx.typed(version, |ty| {
            (typed::merge(self.live, self.config, ty), typed::field_set(self.config, ty))
        })?;
        let set = match self.cx.versions.filter(version) {
            Some(filter) => filter.apply(set),
            None => set,
        };
        Ok((merged, set))
    }
}

/// Returns whether a configuration has managed fields in the form that Go's accessor of untyped objects accepts: a list
/// of objects.
fn has_managed_fields(config: &Value) -> bool {
    match config.at(&["metadata", "managedFields"]) {
        Some(Value::Array(entries)) => entries.iter().all(|entry| entry.as_object().is_some()),
        _ => false,
    }
}
