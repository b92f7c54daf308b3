//! The reference data as trees: Go types, discovery documents, OpenAPI components, protobuf messages. The repository has
//! only the facts, without the prose of the documents they are imported from.

use crate::{Error, schemas, write};
use pintle_value::{Map, Str, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

/// All reference data from which the tables are generated.
pub(crate) struct Reference {
    /// Go types by full name.
    pub(crate) types: Map,
    /// The groups of the two aggregated discovery documents of a server that serves all versions, core first.
    pub(crate) groups: Vec<Value>,
    /// The group-versions that a server serves by default, as `group/version`.
    pub(crate) defaults: BTreeSet<String>,
    /// OpenAPI components by name, from all group-versions.
    pub(crate) components: Map,
    /// Protobuf messages by full name.
    pub(crate) messages: Map,
}

/// The files of the facts in the repository, each a JSON object with one member per line.
const TYPES: &str = "types.json";
const MESSAGES: &str = "protobuf.json";
const COMPONENTS: &str = "schemas.json";
const GROUPS: &str = "discovery.json";

impl Reference {
    /// Reads the facts in the repository.
    pub(crate) fn read(dir: &Path) -> Result<Self, Error> {
        let groups = parse(&dir.join(GROUPS))?;
        let defaults = groups.items_at(&["defaults"]).iter().filter_map(Value::as_str);
        Ok(Reference {
            defaults: defaults.map(str::to_string).collect(),
            groups: groups.items_at(&["groups"]).to_vec(),
            types: into_object(parse(&dir.join(TYPES))?),
            components: into_object(parse(&dir.join(COMPONENTS))?),
            messages: into_object(parse(&dir.join(MESSAGES))?),
        })
    }

    /// Writes the facts to the repository.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), Error> {
        let components = self.components.iter().map(|(name, schema)| (name.clone(), schemas::facts(schema)));
        let defaults = self.defaults.iter().map(|name| Value::from(name.as_str())).collect();
        let mut groups = Map::new();
        groups.insert(Str::from("defaults"), Value::Array(defaults));
        groups.insert(Str::from("groups"), Value::Array(self.groups.clone()));
        write(&dir.join(TYPES), &lines(&self.types))?;
        write(&dir.join(MESSAGES), &lines(&self.messages))?;
        write(&dir.join(COMPONENTS), &lines(&components.collect()))?;
        write(&dir.join(GROUPS), &lines(&groups))
    }

    /// Reads the documents that kube-apiserver publishes and the facts of its Go types, below `dir`.
    pub(crate) fn import(dir: &Path) -> Result<Self, Error> {
        let mut groups = Vec::new();
        let mut defaults = BTreeSet::new();
        for name in ["aggregated-api.json", "aggregated-apis.json"] {
            groups.extend_from_slice(parse(&dir.join("all-apis").join(name))?.items_at(&["items"]));
            for group in parse(&dir.join("discovery").join(name))?.items_at(&["items"]) {
                let name = group.str_at(&["metadata", "name"]);
                let versions = group.items_at(&["versions"]).iter();
                defaults.extend(versions.map(|version| format!("{name}/{}", version.str_at(&["version"]))));
            }
        }
        let mut components = read_components(&dir.join("all-apis/openapi-v3"))?;
        for (name, schema) in self::read_components(&dir.join("openapi/v3"))? {
            components.insert(name, schema);
        }
        add_group_versions(&mut components, &parse(&dir.join("openapi/v2.json"))?);
        Ok(Reference {
            types: without_aliases(into_object(parse(&dir.join("types.json"))?)),
            groups,
            defaults,
            components,
            messages: into_object(parse(&dir.join("protobuf.json"))?),
        })
    }
}

/// The JSON of an object with one line per member, so that a change of one member is a change of one line.
fn lines(map: &Map) -> String {
    let mut out = b"{".to_vec();
    for (index, (name, value)) in map.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"\n" } else { b",\n" });
        json::print(&Value::from(name.as_str()), &mut out);
        out.push(b':');
        json::print(value, &mut out);
    }
    out.extend_from_slice(b"\n}\n");
    String::from_utf8_lossy(&out).into_owned()
}

/// The types, with aliases replaced by the types they refer to.
fn without_aliases(mut types: Map) -> Map {
    // Types with an underlying type have the kind `alias` too.
    let is_alias = |go: &Value| go.str_at(&["kind"]) == "alias" && types.contains_key(go.str_at(&["of"]));
    let aliases: BTreeMap<String, String> = types
        .iter()
        .filter(|(_, go)| is_alias(go))
        .map(|(name, go)| (name.to_string(), go.str_at(&["of"]).to_string()))
        .collect();
    for (_, go) in types.iter_mut() {
        let Some(fields) = go.get_mut("fields").and_then(Value::as_array_mut) else { continue };
        for field in fields {
            let meant = resolved(field.str_at(&["go"]), &aliases);
            field.set_at(&["go"], meant.into());
        }
    }
    types
}

/// A type expression such as `[]*package.Name` without aliases.
fn resolved(go: &str, aliases: &BTreeMap<String, String>) -> String {
    let at = go.rfind(['[', ']', '*']).map_or(0, |at| at + 1);
    let (prefix, name) = go.split_at(at);
    format!("{prefix}{}", aliases.get(name).map_or(name, String::as_str))
}

fn read_components(dir: &Path) -> Result<Map, Error> {
    let mut all = Map::new();
    let entries = std::fs::read_dir(dir).map_err(|source| Error::Io { path: dir.to_owned(), source })?;
    for entry in entries.flatten() {
        let document = parse(&entry.path())?;
        let Some(schemas) = document.at(&["components", "schemas"]).and_then(Value::as_object) else {
            continue;
        };
        for (name, schema) in schemas.iter() {
            all.insert(name.clone(), schema.clone());
        }
    }
    Ok(all)
}

/// Adds group-versions: only OpenAPI v2 lists all group-versions of the types that they share.
fn add_group_versions(components: &mut Map, v2: &Value) {
    for (name, schema) in components.iter_mut() {
        let known = v2.at(&["definitions", name.as_str(), GROUP_VERSION_KIND]);
        if let Some(known) = known.filter(|_| schema.get(GROUP_VERSION_KIND).is_some()) {
            schema.set_at(&[GROUP_VERSION_KIND], known.clone());
        }
    }
}

fn parse(path: &Path) -> Result<Value, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let parsed = json::parse(&bytes);
    parsed.map(|p| p.value).map_err(|e| Error::Format { path: path.to_owned(), message: e.to_string() })
}

fn into_object(value: Value) -> Map {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
