//! Resolves name clashes between the definitions of extension servers and others. As in kube-apiserver, a definition
//! that differs gets a new name (`Name_v2`); equal definitions become one, which lists the group-version-kinds of
//! both.

use pintle_controllers::aggregation::RemoteSpec;
use pintle_value::{Str, Value};
use std::collections::BTreeMap;

const GVK: &str = "x-kubernetes-group-version-kind";
const REFERENCE: &str = "#/definitions/";
/// Deepest schema that is looked into.
const DEPTH_MAX: usize = 100;

/// The parts of extension servers, without clashes.
#[derive(Default)]
pub(super) struct Resolved {
    /// The new paths and definitions.
    pub(super) paths: Vec<(String, Value)>,
    pub(super) definitions: Vec<(String, Value)>,
    /// Definitions of this server that now also describe kinds of extension servers.
    pub(super) changed: Vec<(String, Value)>,
}

/// Adds the specifications of extension servers, in the order of their priority, to the definitions of this server.
pub(super) fn resolve<'s>(
    own: BTreeMap<String, Value>,
    specs: impl Iterator<Item = &'s RemoteSpec>,
) -> Resolved {
    let mut out = Resolved::default();
    // The definitions by name, each with whether it is one of this server.
    let mut all: BTreeMap<String, (Value, bool)> =
        own.into_iter().map(|(name, schema)| (name, (schema, true))).collect();
    let mut changed: BTreeMap<String, Value> = BTreeMap::new();
    for spec in specs {
        let renames = renames(&all, &spec.definitions);
        for (path, item) in &spec.paths {
            let mut item = item.clone();
            rename(&mut item, &renames, 0);
            out.paths.push((path.clone(), item));
        }
        for (name, schema) in &spec.definitions {
            let name = renames.get(name).unwrap_or(name);
            let mut schema = schema.clone();
            rename(&mut schema, &renames, 0);
            match all.get_mut(name) {
                None => {
                    all.insert(name.clone(), (schema, false));
                }
                Some((existing, is_own)) => {
                    if add_kinds(existing, &schema) && *is_own {
                        changed.insert(name.clone(), existing.clone());
                    }
                }
            }
        }
    }
    out.definitions = all
        .into_iter()
        .filter(|(_, (_, is_own))| !is_own)
        .map(|(name, (schema, _))| (name, schema))
        .collect();
    out.changed = changed.into_iter().collect();
    out
}

/// New names for definitions that differ from the one that already has their name.
fn renames(
    all: &BTreeMap<String, (Value, bool)>,
    definitions: &[(String, Value)],
) -> BTreeMap<String, String> {
    let mut renames: BTreeMap<String, String> = BTreeMap::new();
    let in_source = |name: &str| definitions.iter().any(|(other, _)| other == name);
    for (name, schema) in definitions {
        match all.get(name) {
            Some((existing, _)) if !are_alike(existing, schema, 0) => {}
            _ => continue,
        }
        // Reuse a renamed definition that is equal.
        let numbered = (2_u32..).map(|number| format!("{name}_v{number}"));
        let free = numbered.into_iter().find(|new| match all.get(new) {
            Some((existing, _)) => are_alike(existing, schema, 0),
            None => !renames.values().any(|used| used == new) && !in_source(new),
        });
        renames.extend(free.map(|new| (name.clone(), new)));
    }
    renames
}

/// Returns whether two definitions are equal apart from their group-version-kinds. Descriptions are not compared,
/// because this server does not have all of them.
fn are_alike(a: &Value, b: &Value, depth: usize) -> bool {
    match (a, b) {
        _ if depth > DEPTH_MAX => false,
        (Value::Object(a), Value::Object(b)) => {
            let counts = |(key, value): &(&Str, &Value)| {
                let is_description = key.as_str() == "description" && matches!(value, Value::String(_));
                let is_kinds = depth == 0 && key.as_str() == GVK;
                !is_description && !is_kinds
            };
            let matches = |(key, value): (&Str, &Value)| {
                b.get(key).is_some_and(|other| are_alike(value, other, depth.saturating_add(1)))
            };
            a.iter().filter(counts).count() == b.iter().filter(counts).count()
                && a.iter().filter(counts).all(matches)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len()
                && a.iter().zip(b.iter()).all(|(a, b)| are_alike(a, b, depth.saturating_add(1)))
        }
        (a, b) => a == b,
    }
}

/// Adds the group-version-kinds of `other` that `schema` does not have; whether there were any.
fn add_kinds(schema: &mut Value, other: &Value) -> bool {
    let mut kinds = schema.items_at(&[GVK]).to_vec();
    let before = kinds.len();
    for kind in other.items_at(&[GVK]) {
        if !kinds.iter().any(|known| are_alike(known, kind, 1)) {
            kinds.push(kind.clone());
        }
    }
    let is_more = kinds.len() > before;
    if is_more {
        schema.set_at(&[GVK], Value::Array(kinds));
    }
    is_more
}

/// Changes the references to definitions with new names.
fn rename(value: &mut Value, renames: &BTreeMap<String, String>, depth: usize) {
    if renames.is_empty() || depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                let new = match member {
                    Value::String(text) if key.as_str() == "$ref" => {
                        text.strip_prefix(REFERENCE).and_then(|name| renames.get(name))
                    }
                    _ => None,
                };
                match new {
                    Some(new) => *member = format!("{REFERENCE}{new}").into(),
                    None => rename(member, renames, depth.saturating_add(1)),
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| rename(item, renames, depth.saturating_add(1)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap().value
    }

    fn spec(definitions: &[(&str, &str)], path: &str) -> RemoteSpec {
        RemoteSpec {
            hash: 0,
            parameters: Vec::new(),
            paths: vec![(path.into(), value(r##"{"get":{"schema":{"$ref":"#/definitions/a"}}}"##))],
            definitions: definitions.iter().map(|(name, text)| (name.to_string(), value(text))).collect(),
        }
    }

    fn text(all: &[(String, Value)]) -> String {
        let line = |(name, schema): &(String, Value)| format!("{name} {}", json::text(schema));
        all.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn definitions_that_differ_get_a_new_name() {
        let own = BTreeMap::from([("a".to_string(), value(r#"{"type":"object"}"#))]);
        let first = spec(&[("a", r#"{"type":"string"}"#), ("b", r##"{"$ref":"#/definitions/a"}"##)], "/1");
        let same = spec(&[("a", r#"{"type":"string","description":"in other words"}"#)], "/2");
        let third = spec(&[("a", r#"{"type":"integer"}"#)], "/3");
        let resolved = resolve(own, [&first, &same, &third].into_iter());
        assert_eq!(
            text(&resolved.definitions),
            "a_v2 {\"type\":\"string\"}\na_v3 {\"type\":\"integer\"}\nb {\"$ref\":\"#/definitions/a_v2\"}"
        );
        assert_eq!(
            text(&resolved.paths),
            "/1 {\"get\":{\"schema\":{\"$ref\":\"#/definitions/a_v2\"}}}\n\
             /2 {\"get\":{\"schema\":{\"$ref\":\"#/definitions/a_v2\"}}}\n\
             /3 {\"get\":{\"schema\":{\"$ref\":\"#/definitions/a_v3\"}}}"
        );
        assert!(resolved.changed.is_empty());
    }

    #[test]
    fn equal_definitions_are_shared_by_both_kinds() {
        let of = |kind: &str| format!(r#"{{"type":"object","{GVK}":[{{"kind":"{kind}"}}]}}"#);
        let own = BTreeMap::from([("a".to_string(), value(&of("Own")))]);
        let remote = spec(&[("a", &of("Theirs"))], "/1");
        let resolved = resolve(own, [&remote, &remote].into_iter());
        assert!(resolved.definitions.is_empty());
        assert_eq!(
            text(&resolved.changed),
            format!(r#"a {{"type":"object","{GVK}":[{{"kind":"Own"}},{{"kind":"Theirs"}}]}}"#)
        );
    }
}
