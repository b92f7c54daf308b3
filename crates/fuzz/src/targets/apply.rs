//! Server-side apply: sequences of applies and updates of one object of any kind by several managers.

use super::{Input, same, some_kind};
use crate::fixture::{Fixture, Kind, parsed, text};
use crate::generate;
use crate::random::Random;
use pintle_apply::{ApplyError, Context, Owner, Versions, apply, update};
use pintle_meta::{GroupVersion, GroupVersionKind};
use pintle_schema::{Schema, typed};
use pintle_value::Value;

const MANAGERS: [&str; 3] = ["alpha", "beta", "gamma"];

struct One<'a>(&'a Kind);

impl Versions for One<'_> {
    fn schema(&self, api_version: &str) -> Option<Schema> {
        (api_version == self.0.api_version).then(|| self.0.schema.clone())
    }

    fn convert(&self, object: &Value, _: &str) -> Result<Value, String> {
        Ok(object.clone())
    }
}

/// A kind, and configurations: each is applied, or sent as an update if its index is divisible by four.
pub(super) fn seed(fixture: &Fixture, random: &mut Random) -> Input {
    let Some(kind) = some_kind(fixture, random) else { return Input::new() };
    let first = generate::value(&kind.schema, random);
    let mut input = vec![kind.name.clone().into(), text(&first)];
    let mut last = first;
    for _ in 0..1 + random.below(5) {
        if random.one_in(3) {
            last = generate::value(&kind.schema, random);
        } else {
            crate::mutate::tree(random, &mut last);
        }
        input.push(text(&last));
    }
    input
}

pub(super) fn check(fixture: &Fixture, input: &Input) -> Result<(), String> {
    let Some((name, steps)) = input.split_first() else { return Ok(()) };
    let Some(kind) = fixture.kind(name) else { return Ok(()) };
    let Ok(version) = GroupVersion::parse(&kind.api_version) else { return Ok(()) };
    let gvk =
        GroupVersionKind { group: version.group, version: version.version, kind: kind.kind.as_str().into() };
    let versions = One(kind);
    let history = History { cx: Context { kind: &gvk, versions: &versions }, kind };
    let mut live: Option<Value> = None;
    for (at, step) in steps.iter().enumerate() {
        let Some(config) = parsed(step).and_then(|config| history.object(config)) else { continue };
        if has_nulls(&config) {
            // A null is a field of the configuration but removed from the object, so each apply sets it again.
            continue;
        }
        let next = match &live {
            Some(live) if at % 4 == 3 => Some(history.update(live, config, at)?),
            live => history.apply(live.as_ref(), &config, at)?,
        };
        live = next.or(live);
    }
    Ok(())
}

pub(super) fn has_nulls(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_nulls),
        Value::Object(map) => map.values().any(has_nulls),
        _ => false,
    }
}

struct History<'a> {
    cx: Context<'a>,
    kind: &'a Kind,
}

impl History<'_> {
    /// A configuration as an object of the kind.
    fn object(&self, mut config: Value) -> Option<Value> {
        config.as_object()?;
        if !matches!(config.get("metadata"), Some(Value::Object(_))) {
            config.set_at(&["metadata"], Value::object());
        }
        config.set_at(&["apiVersion"], self.kind.api_version.as_str().into());
        config.set_at(&["kind"], self.kind.kind.as_str().into());
        config.set_at(&["metadata", "name"], "x".into());
        config.remove_at(&["metadata", "managedFields"]);
        Some(config)
    }

    fn owner_at(&self, at: usize) -> Owner<'static> {
        let manager = MANAGERS.get(at % MANAGERS.len()).copied().unwrap_or_default();
        Owner { manager, subresource: "", now: "2024-01-02T03:04:05Z" }
    }

    fn decode_object(&self, object: Value) -> Option<Value> {
        let mut object =
            pintle_schema::decode(&self.kind.schema, object, &mut typed::Strict::default()).ok()?;
        typed::normalize(&self.kind.schema, &mut object);
        Some(object)
    }

    /// The result of an apply on the live object; `None` if it is rejected as invalid.
    fn apply(&self, live: Option<&Value>, config: &Value, at: usize) -> Result<Option<Value>, String> {
        let owner = self.owner_at(at);
        let gentle = apply(&self.cx, live, config, owner, false);
        let forced = match apply(&self.cx, live, config, owner, true) {
            Ok(applied) => applied,
            Err(ApplyError::Conflicts(_)) => return Err("force conflicts".into()),
            Err(error) => {
                return match gentle {
                    Ok(_) => Err(format!("force fails where nothing conflicts: {error}")),
                    Err(_) => Ok(None),
                };
            }
        };
        if let Ok(gentle) = gentle {
            same("force changes nothing where nothing conflicts", &gentle.object, &forced.object)?;
        }
        let Some(object) = self.decode_object(forced.object) else { return Ok(None) };
        if object.at(&["metadata", "managedFields"]).is_none() {
            // No field has an owner: for the next apply the object is untracked.
            return Ok(Some(object));
        }
        let again = apply(&self.cx, Some(&object), config, owner, false);
        let again = match again {
            Ok(again) => again,
            Err(ApplyError::Conflicts(_)) => return Err("what was applied conflicts".into()),
            // The decoder drops empty keys, which a list may need: such objects are invalid.
            Err(_) => return Ok(None),
        };
        let again = self.decode_object(again.object).ok_or("what was applied cannot be decoded again")?;
        same("twice is once", &object, &again)?;
        self.apply_live(&object)?;
        Ok(Some(object))
    }

    /// Applying the live object changes nothing.
    fn apply_live(&self, live: &Value) -> Result<(), String> {
        let Some(config) = self.object(live.clone()) else { return Ok(()) };
        let owner = Owner { manager: "delta", subresource: "", now: "2024-01-02T03:04:06Z" };
        match apply(&self.cx, Some(live), &config, owner, false) {
            // An update may have lists with repeated items, which cannot be applied.
            Err(ApplyError::Failed(_) | ApplyError::BadRequest(_)) => Ok(()),
            Err(error) => Err(format!("applying what is live conflicts: {error}")),
            Ok(applied) => {
                let mut after = self.decode_object(applied.object).ok_or("what is live cannot be decoded")?;
                let mut before = live.clone();
                for object in [&mut after, &mut before] {
                    object.remove_at(&["metadata", "managedFields"]);
                }
                same("applying what is live", &before, &after)
            }
        }
    }

    /// The result of an update of the live object.
    fn update(&self, live: &Value, mut new: Value, at: usize) -> Result<Value, String> {
        if let Some(fields) = live.at(&["metadata", "managedFields"]) {
            new.set_at(&["metadata", "managedFields"], fields.clone());
        }
        let Some(mut new) = self.decode_object(new) else { return Ok(live.clone()) };
        // An update is never rejected because of ownership.
        _ = update(&self.cx, Some(live), &mut new, self.owner_at(at));
        pintle_apply::check_managed_fields(&new)
            .map_err(|error| format!("managed fields cannot be read: {error}"))?;
        Ok(new)
    }
}
