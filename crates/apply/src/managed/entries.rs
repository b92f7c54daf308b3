//! `metadata.managedFields`: decodes and encodes its entries.

use crate::fieldset::Set;
use pintle_meta::field::quoted;
use pintle_value::{Map, Str, Value, json};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Identifies a manager: its name, operation and subresource. Updaters are also distinguished by version.
#[derive(Clone, Debug)]
pub(super) struct ManagerId {
    /// The identity as JSON, by which kube-apiserver sorts managers.
    key: Vec<u8>,
    pub(super) manager: Str,
    pub(super) applies: bool,
    /// Version of an updater; "" for appliers.
    pub(super) api_version: Str,
    pub(super) subresource: Str,
}

impl ManagerId {
    pub(super) fn new(manager: &str, applies: bool, api_version: &str, subresource: &str) -> Self {
        let api_version = if applies { "" } else { api_version };
        let operation = if applies { "Apply" } else { "Update" };
        let mut key = Vec::from(*b"{");
        for (name, value) in [
            ("\"manager\":", manager),
            ("\"operation\":", operation),
            ("\"apiVersion\":", api_version),
            ("\"subresource\":", subresource),
        ] {
            if !value.is_empty() {
                if key.len() > 1 {
                    key.push(b',');
                }
                key.extend_from_slice(name.as_bytes());
                json::write_string(value, &mut key);
            }
        }
        key.push(b'}');
        ManagerId {
            key,
            manager: manager.into(),
            applies,
            api_version: api_version.into(),
            subresource: subresource.into(),
        }
    }

    /// The id of the write that is being recorded, before it is merged with the manager's earlier entry.
    pub(super) fn current() -> Self {
        ManagerId {
            key: b"current-operation".to_vec(),
            manager: Str::default(),
            applies: false,
            api_version: Str::default(),
            subresource: Str::default(),
        }
    }
}

impl Ord for ManagerId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for ManagerId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ManagerId {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for ManagerId {}

/// The fields that one manager owns, in the version in which it wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    /// Shared, so that unchanged sets are not copied.
    pub(super) set: Arc<Set>,
    pub(super) version: Str,
    pub(super) applied: bool,
}

/// All managers.
pub(super) type Owners = BTreeMap<ManagerId, Owned>;

/// All managers, and when each last changed something.
#[derive(Clone, Debug, Default)]
pub(super) struct Managed {
    pub(super) owners: Owners,
    pub(super) times: BTreeMap<ManagerId, Str>,
}

impl Managed {
    /// Decodes the entries. One invalid entry makes all invalid.
    pub(super) fn decode(entries: &[Value]) -> Result<Self, String> {
        let mut managed = Managed::default();
        for (at, entry) in entries.iter().enumerate() {
            let (id, owned) = decode_entry(entry, at)?;
            // Of entries with the same identity the last one wins, even if it has no time.
            match entry.str_at(&["time"]) {
                "" => managed.times.remove(&id),
                time => managed.times.insert(id.clone(), time.into()),
            };
            managed.owners.insert(id, owned);
        }
        Ok(managed)
    }

    /// The entries in kube-apiserver's order: appliers before updaters, then by time, name, version, subresource.
    pub(super) fn encode(&self) -> Vec<Value> {
        self.encode_after(None)
    }

    /// Like `encode`, but fields that are unchanged from `before` are not encoded again.
    fn encode_after(&self, before: Option<&Stored>) -> Vec<Value> {
        let mut entries: Vec<Entry<'_>> = self
            .owners
            .iter()
            .map(|(id, owned)| Entry {
                operation: if owned.applied || id.applies { "Apply" } else { "Update" },
                time: self.times.get(id).map_or("", Str::as_str),
                manager: &id.manager,
                version: &owned.version,
                subresource: &id.subresource,
                set: &owned.set,
                written: before.and_then(|before| before.written(id, &owned.set)),
            })
            .collect();
        entries.sort_by(|a, b| a.order().cmp(&b.order()));
        entries.iter().map(Entry::to_value).collect()
    }
}

struct Entry<'a> {
    operation: &'static str,
    time: &'a str,
    manager: &'a str,
    version: &'a str,
    subresource: &'a str,
    set: &'a Set,
    /// The set as FieldsV1, if it is already encoded.
    written: Option<&'a Value>,
}

impl Entry<'_> {
    fn order(&self) -> [&str; 5] {
        [self.operation, self.time, self.manager, self.version, self.subresource]
    }

    fn to_value(&self) -> Value {
        let mut out = Map::with_capacity(7);
        for (key, text) in [
            ("manager", self.manager),
            ("operation", self.operation),
            ("apiVersion", self.version),
            ("time", self.time),
            ("fieldsType", "FieldsV1"),
            ("subresource", self.subresource),
        ] {
            if !text.is_empty() {
                out.insert(key, text.into());
            }
        }
        out.insert("fieldsV1", self.written.cloned().unwrap_or_else(|| self.set.to_value()));
        Value::Object(out)
    }
}

fn decode_entry(entry: &Value, at: usize) -> Result<(ManagerId, Owned), String> {
    let applied = match entry.str_at(&["operation"]) {
        "Apply" => true,
        "Update" => false,
        _ => return Err("operation must be `Apply` or `Update`".into()),
    };
    let version = entry.str_at(&["apiVersion"]);
    if version.is_empty() {
        return Err("apiVersion must not be empty".into());
    }
    match entry.str_at(&["fieldsType"]) {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
        other => return Err(format!("invalid fieldsType {} in managed fields entry {at}", quoted(other))),
    }
    let set = Set::from_value(entry.get("fieldsV1").unwrap_or(&Value::Null)).map_err(|error| {
        format!("error decoding versioned set from managed fields entry {at}: error decoding set: {error}")
    })?;
    let id = ManagerId::new(entry.str_at(&["manager"]), applied, version, entry.str_at(&["subresource"]));
    Ok((id, Owned { set: Arc::new(set), version: version.into(), applied }))
}

/// The entries of an object; empty if they are not a list.
pub(super) fn entries_of(object: &Value) -> &[Value] {
    object.items_at(&["metadata", "managedFields"])
}

/// Managed fields in stored form, as this crate wrote them: large unchanged sets need not be encoded again.
pub(super) struct Stored<'a> {
    pub(super) managed: &'a Managed,
    pub(super) entries: &'a [Value],
}

impl Stored<'_> {
    fn written(&self, id: &ManagerId, set: &Arc<Set>) -> Option<&Value> {
        let same = |owned: &&Owned| Arc::ptr_eq(&owned.set, set) || owned.set == *set;
        let owned = self.managed.owners.get(id).filter(same)?;
        let is_it = |entry: &&Value| {
            entry.str_at(&["manager"]) == id.manager
                && entry.str_at(&["subresource"]) == id.subresource
                && entry.str_at(&["apiVersion"]) == owned.version
                && (entry.str_at(&["operation"]) == "Apply") == owned.applied
        };
        self.entries.iter().rev().find(is_it)?.get("fieldsV1")
    }
}

/// Writes the entries into an object that has none.
pub(super) fn put(object: &mut Value, managed: &Managed, before: Option<&Stored<'_>>) {
    let entries = managed.encode_after(before);
    if entries.is_empty() {
        object.remove_at(&["metadata", "managedFields"]);
    } else {
        object.set_at(&["metadata", "managedFields"], Value::Array(entries));
    }
}

/// Returns whether an object resets all managers: with an empty list, or with one empty entry.
pub fn asks_for_reset(object: &Value) -> bool {
    let says_nothing = |entry: &Value| match entry {
        Value::Object(map) => map.values().all(|v| v.is_null() || v.as_str() == Some("")),
        other => other.is_null(),
    };
    match object.at(&["metadata", "managedFields"]) {
        Some(Value::Array(entries)) => match entries.as_slice() {
            [] => true,
            [only] => says_nothing(only),
            _ => false,
        },
        _ => false,
    }
}
