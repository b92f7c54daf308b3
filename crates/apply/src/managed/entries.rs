//! `metadata.managedFields`: decodes and encodes its entries.

use crate::fieldset::Set;
use pintle_meta::field::quoted;
use pintle_value::{Map, Str, Value, json};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// As long as most identities are, or longer.
const KEY_BYTES: usize = 128;

/// Identifies a manager: its name, operation and subresource. Updaters are also distinguished by version.
#[derive(Clone, Debug)]
pub(super) struct ManagerId {
    /// The identity as JSON, by which kube-apiserver sorts managers.
    key: Arc<[u8]>,
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
        let mut key = Vec::with_capacity(KEY_BYTES);
        key.push(b'{');
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
            key: key.into(),
            manager: manager.into(),
            applies,
            api_version: api_version.into(),
            subresource: subresource.into(),
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
    /// The position of the entry from which it was decoded.
    pub(super) entry: Option<usize>,
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

    /// The set of each decoded entry; of entries with the same identity only that of the last.
    pub(super) fn sets(&self) -> Vec<(usize, Arc<Set>)> {
        self.owners.values().filter_map(|owned| Some((owned.entry?, owned.set.clone()))).collect()
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
                written: before.and_then(|before| before.written(owned)),
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
        let text = |key: &'static str, text: &str| {
            (!text.is_empty()).then(|| (Str::const_new(key), Value::from(text)))
        };
        let fields = self.written.cloned().unwrap_or_else(|| self.set.to_value());
        let mut out = Vec::with_capacity(7);
        // In the order of their keys.
        out.extend(text("apiVersion", self.version));
        out.extend(text("fieldsType", "FieldsV1"));
        out.push((Str::const_new("fieldsV1"), fields));
        out.extend(text("manager", self.manager));
        out.extend(text("operation", self.operation));
        out.extend(text("subresource", self.subresource));
        out.extend(text("time", self.time));
        Value::Object(Map::from_entries(out).0)
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
    Ok((id, Owned { set: Arc::new(set), version: version.into(), applied, entry: Some(at) }))
}

/// The entries of an object; empty if they are not a list.
pub(super) fn entries_of(object: &Value) -> &[Value] {
    object.items_at(&["metadata", "managedFields"])
}

/// Managed fields in stored form, as this crate wrote them: large unchanged sets need not be encoded again.
pub(super) struct Stored<'a> {
    /// The sets as they were decoded, each with the position of its entry.
    pub(super) sets: Vec<(usize, Arc<Set>)>,
    pub(super) entries: &'a [Value],
}

impl Stored<'_> {
    /// The fields of the entry from which `owned` was decoded, if its set is unchanged.
    fn written(&self, owned: &Owned) -> Option<&Value> {
        let at = owned.entry?;
        let (_, set) = self.sets.iter().find(|(entry, _)| *entry == at)?;
        let is_same = Arc::ptr_eq(set, &owned.set) || *set == owned.set;
        self.entries.get(at).filter(|_| is_same)?.get("fieldsV1")
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
pub fn resets_managed_fields(object: &Value) -> bool {
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
