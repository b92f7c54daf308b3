//! Published schemas: built-in types from a table, custom resources from their definitions.

use super::model::{Dialect, object};
use super::part::{Form, Member};
use pintle_kinds::{PUBLISHED_SCHEMAS, descriptions};
use pintle_value::{Map, Str, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

/// The deepest schema that is processed.
const DEPTH_MAX: usize = 100;

/// The schemas of the built-in types, parsed once.
fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(Table::read)
}

struct Table {
    by_name: BTreeMap<&'static str, Value>,
    /// Names of schemas by group, version and kind.
    by_kind: HashMap<(String, String, String), &'static str>,
}

impl Table {
    fn read() -> Self {
        let mut by_name = BTreeMap::new();
        let mut by_kind = HashMap::new();
        for line in PUBLISHED_SCHEMAS.lines().filter(|l| !l.starts_with('#')) {
            let Some((name, text)) = line.split_once(' ') else { continue };
            let Ok(parsed) = json::parse(text.as_bytes()) else { continue };
            for gvk in parsed.value.items_at(&["x-kubernetes-group-version-kind"]) {
                let part = |key| gvk.str_at(&[key]).to_string();
                by_kind.insert((part("group"), part("version"), part("kind")), name);
            }
            by_name.insert(name, parsed.value);
        }
        Table { by_name, by_kind }
    }
}

/// The name of a kind's schema.
pub(super) fn name_of(group: &str, version: &str, kind: &str) -> String {
    let key = (group.to_string(), version.to_string(), kind.to_string());
    match table().by_kind.get(&key) {
        Some(name) => (*name).to_string(),
        None => custom_name(group, version, kind),
    }
}

/// Renders all schemas of the built-in types.
pub(super) fn all(dialect: Dialect) -> Map {
    table().by_name.iter().map(|(name, s)| (Str::from(*name), described(name, s, dialect))).collect()
}

/// Renders the schemas that `document` refers to, directly or indirectly.
pub(super) fn used_by(document: &Value, dialect: Dialect) -> Map {
    let mut wanted = BTreeSet::new();
    references(document, 0, &mut wanted);
    let mut done: BTreeMap<String, Value> = BTreeMap::new();
    while let Some(name) = wanted.pop_first() {
        let found = table().by_name.get(name.as_str());
        let Some(schema) = found.filter(|_| !done.contains_key(&name)) else { continue };
        let written = described(&name, schema, dialect);
        let mut more = BTreeSet::new();
        references(&written, 0, &mut more);
        done.insert(name, written);
        wanted.extend(more.into_iter().filter(|name| !done.contains_key(name)));
    }
    done.into_iter().map(|(name, schema)| (Str::from(name), schema)).collect()
}

/// The names of the API's types in `wanted`, and of those that they refer to.
pub(super) fn reachable(mut wanted: BTreeSet<String>) -> BTreeSet<String> {
    let mut done = BTreeSet::new();
    while let Some(name) = wanted.pop_first() {
        let found = table().by_name.get(name.as_str());
        let Some(schema) = found.filter(|_| !done.contains(&name)) else { continue };
        references(schema, 0, &mut wanted);
        done.insert(name);
    }
    done
}

/// A schema of a built-in type, rendered for the OpenAPI v3 documents of custom resources.
#[derive(Default)]
struct Shared {
    json: OnceLock<(Member, BTreeSet<String>)>,
    protobuf: OnceLock<(Member, BTreeSet<String>)>,
}

impl Shared {
    fn get(&self, name: &str, form: Form) -> &(Member, BTreeSet<String>) {
        let cell = if form == Form::Json { &self.json } else { &self.protobuf };
        cell.get_or_init(|| {
            let source = table().by_name.get(name).unwrap_or(&Value::Null);
            let mut schema = described(name, source, Dialect::V3);
            let mut more = BTreeSet::new();
            references(&schema, 0, &mut more);
            narrow(&mut schema, "", "", false);
            (Member::schema_member(name, &schema, Dialect::V3, form), more)
        })
    }
}

/// The built-in schemas for documents of custom resources that refer to `wanted`. All such documents share them.
pub(super) fn shared(mut wanted: BTreeSet<String>, form: Form) -> Vec<Member> {
    static SHARED: OnceLock<BTreeMap<&'static str, Shared>> = OnceLock::new();
    let all = SHARED.get_or_init(|| table().by_name.keys().map(|name| (*name, Shared::default())).collect());
    let mut done: BTreeMap<String, Member> = BTreeMap::new();
    while let Some(name) = wanted.pop_first() {
        let Some(schema) = all.get(name.as_str()).filter(|_| !done.contains_key(&name)) else { continue };
        let (member, more) = schema.get(&name, form);
        done.insert(name, member.clone());
        wanted.extend(more.iter().filter(|name| !done.contains_key(*name)).cloned());
    }
    done.into_values().collect()
}

/// The schema name of a custom resource: its group reversed, version and kind.
pub(super) fn custom_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    format!("{}.{version}.{kind}", parts.join("."))
}

/// Collects the names of all schemas that a part of a document refers to.
pub(super) fn references(part: &Value, depth: usize, names: &mut BTreeSet<String>) {
    if depth > DEPTH_MAX {
        return;
    }
    match part {
        Value::Object(members) => {
            for (key, value) in members.iter() {
                match (key.as_str(), value.as_str()) {
                    ("$ref", Some(target)) => {
                        names.insert(target.rsplit('/').next().unwrap_or(target).to_string());
                    }
                    _ => references(value, depth.saturating_add(1), names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, depth.saturating_add(1), names)),
        _ => {}
    }
}

/// A schema of the API's types in a dialect, with the descriptions of the type and its fields.
fn described(name: &str, schema: &Value, dialect: Dialect) -> Value {
    let mut out = written(schema, dialect, 0);
    if let Some(text) = descriptions::of_type(name, schema) {
        out.set_at(&["description"], text.as_ref().into());
    }
    let fields = out.get_mut("properties").and_then(Value::as_object_mut);
    for (field, field_schema) in fields.into_iter().flat_map(|fields| fields.iter_mut()) {
        if let Some(text) = descriptions::of_field(name, schema, field) {
            field_schema.set_at(&["description"], text.as_ref().into());
        }
    }
    out
}

/// Renders a schema in a dialect. OpenAPI v2 has no defaults here, references without `allOf`, and a single type per
/// value.
pub(super) fn written(schema: &Value, dialect: Dialect, depth: usize) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    if depth > DEPTH_MAX {
        return Value::object();
    }
    let v2 = dialect == Dialect::V2;
    let mut out = Map::with_capacity(members.len());
    for (key, value) in members.iter() {
        match (key.as_str(), value) {
            ("$ref", Value::String(name)) => {
                out.insert("$ref", dialect.reference(name));
            }
            ("default", _) if v2 => {}
            ("oneOf", _) if v2 => {
                out.insert("type", "string".into());
            }
            ("allOf", Value::Array(parts)) if v2 => {
                if let Some(name) = parts.first().and_then(|p| p.get("$ref")).and_then(Value::as_str) {
                    out.insert("$ref", dialect.reference(name));
                }
            }
            ("properties", Value::Object(fields)) => {
                let fields = fields
                    .iter()
                    .map(|(name, field)| (name.clone(), written(field, dialect, depth.saturating_add(1))));
                out.insert("properties", fields.collect::<Map>().into());
            }
            ("items" | "additionalProperties" | "not", Value::Object(_)) => {
                out.insert(key.clone(), written(value, dialect, depth.saturating_add(1)));
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                let parts =
                    parts.iter().map(|part| written(part, dialect, depth.saturating_add(1))).collect();
                out.insert(key.clone(), Value::Array(parts));
            }
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    out.into()
}

/// Restricts the group-version-kinds of types that all group-versions have: to the core one and the document's own, or
/// in documents of custom resources to all known ones.
pub(super) fn narrow(schema: &mut Value, group: &str, version: &str, installed: bool) {
    const LIST: &str = "x-kubernetes-group-version-kind";
    const UNKNOWN: [&str; 4] =
        ["admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"];
    let list = schema.get_mut(LIST).and_then(Value::as_array_mut).filter(|list| list.len() > 2);
    let Some(list) = list else { return };
    list.retain(|gvk| match gvk.str_at(&["group"]) {
        "" => true,
        own_group if installed => own_group == group && gvk.str_at(&["version"]) == version,
        own_group => !UNKNOWN.contains(&own_group),
    });
}

/// A reference that may have sibling members.
pub(super) fn reference_with(name: &str, description: &str) -> Value {
    let target = object([("$ref", Value::String(Str::from(name)))]);
    object([("allOf", Value::Array(vec![target])), ("description", description.into())])
}
