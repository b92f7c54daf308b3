//! The reference data as trees: Go types, discovery documents, OpenAPI components.

use crate::Error;
use pintle_value::{Map, Value, json};
use std::path::Path;

const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

/// All reference data that the tables are made of.
pub(crate) struct Reference {
    /// Go types by full name.
    pub(crate) types: Map,
    /// The groups of the two aggregated discovery documents, core first.
    pub(crate) groups: Vec<Value>,
    /// OpenAPI components by name, from all group-versions.
    pub(crate) components: Map,
    /// Protobuf messages by full name.
    pub(crate) messages: Map,
}

impl Reference {
    /// Reads the data below `dir`.
    pub(crate) fn read(dir: &Path) -> Result<Self, Error> {
        let mut groups = Vec::new();
        for name in ["aggregated-api.json", "aggregated-apis.json"] {
            groups.extend_from_slice(parse(&dir.join("discovery").join(name))?.items_at(&["items"]));
        }
        let mut components = components(&dir.join("openapi/v3"))?;
        add_group_versions(&mut components, &parse(&dir.join("openapi/v2.json"))?);
        Ok(Reference {
            types: object(parse(&dir.join("types.json"))?),
            groups,
            components,
            messages: object(parse(&dir.join("protobuf.json"))?),
        })
    }
}

fn components(dir: &Path) -> Result<Map, Error> {
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

/// The types that are known in all group-versions are listed with all of them in the document of OpenAPI v2 only.
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

fn object(value: Value) -> Map {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
