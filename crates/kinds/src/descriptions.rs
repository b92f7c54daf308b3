//! Descriptions of the API's types and fields, as OpenAPI documents publish them. They stay in the binary's read-only
//! data: nothing is parsed or cached, an entry is found by binary search when a document is rendered.

use pintle_value::Value;
use std::borrow::Cow;

macro_rules! files {
    ($($group:literal),* $(,)?) => {
        &[$(($group, include_str!(concat!("../data/descriptions/", $group, ".txt")))),*]
    };
}

/// Groups, and the lines that describe their types. `data/descriptions/README` has the format.
const FILES: &[(&str, &str)] = files![
    "admissionregistration",
    "apiextensions",
    "apiregistration",
    "apiserverinternal",
    "apps",
    "authentication",
    "authorization",
    "autoscaling",
    "batch",
    "certificates",
    "coordination",
    "core",
    "discovery",
    "events",
    "flowcontrol",
    "meta",
    "networking",
    "node",
    "policy",
    "rbac",
    "resource",
    "scheduling",
    "storage",
    "storagemigration",
];

/// API groups by name and what they are for.
const GROUPS: &str = include_str!("../data/descriptions/groups.txt");

/// All texts, for hashes of the documents that contain them.
pub fn texts() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(_, text)| *text).chain([GROUPS])
}

/// Describes a group of the built-in API; the core group has the name "".
pub fn of_group(name: &str) -> Option<&'static str> {
    search(GROUPS, if name.is_empty() { "core" } else { name })
}

/// Describes the type whose published name is `name`.
pub fn of_type(name: &str, schema: &Value) -> Option<Cow<'static, str>> {
    if let Some(text) = find(name, "") {
        return Some(text.into());
    }
    let item = list_item(name, schema)?;
    Some(format!("A page of {item} objects, or all of them, as list requests return them.").into())
}

/// Describes a field of that type.
pub fn of_field(name: &str, schema: &Value, field: &str) -> Option<Cow<'static, str>> {
    if let Some(text) = find(name, field) {
        return Some(text.into());
    }
    schema.get("x-kubernetes-group-version-kind")?;
    Some(match field {
        "apiVersion" => API_VERSION.into(),
        "kind" => KIND.into(),
        "metadata" if list_item(name, schema).is_some() => LIST_METADATA.into(),
        "metadata" => METADATA.into(),
        "items" => format!("The {} objects, sorted by namespace and name.", list_item(name, schema)?).into(),
        _ => return None,
    })
}

const API_VERSION: &str = "Group and version in which the object is written, for example `apps/v1`; objects of the \
     core group have `v1`. It must be that of the request's path.";
const KIND: &str = "Type of the object in CamelCase, for example `ConfigMap`. It must fit the request's path and never changes.";
const METADATA: &str = "What objects of all kinds have: name, namespace, labels, annotations, owners, and what the server records.";
const LIST_METADATA: &str = "The resourceVersion of the list, from which a watch can go on, and the token of the next page if there is one.";

/// The kind of the objects of a list, where the type is one.
fn list_item<'a>(name: &'a str, schema: &Value) -> Option<&'a str> {
    schema.get("x-kubernetes-group-version-kind")?;
    schema.at(&["properties", "items"])?;
    name.rsplit('.').next()?.strip_suffix("List")
}

/// The entry of a type (without a field) or of a field; one of its version before one of all versions.
fn find(name: &str, field: &str) -> Option<&'static str> {
    let mut parts = name.rsplit('.');
    let (type_, version, group) = (parts.next()?, parts.next()?, parts.next()?);
    let group = if name.starts_with("io.k8s.apimachinery.") { "meta" } else { group };
    let (_, lines) = FILES.iter().find(|(file, _)| *file == group)?;
    let dot = if field.is_empty() { "" } else { "." };
    let entry = |version: &str| search(lines, &format!("{version}.{type_}{dot}{field}"));
    entry(version).or_else(|| entry("*"))
}

/// The text of the line that begins with `key` and a blank. The lines are sorted by the bytes of their keys.
fn search<'a>(lines: &'a str, key: &str) -> Option<&'a str> {
    let mut rest = entries(lines);
    while !rest.is_empty() {
        let middle = rest.len() / 2;
        let start = rest.as_bytes().get(..middle)?.iter().rposition(|b| *b == b'\n');
        let start = start.map_or(0, |at| at.saturating_add(1));
        let (before, from) = rest.split_at_checked(start)?;
        let (line, after) = from.split_once('\n').unwrap_or((from, ""));
        let (found, text) = line.split_once(' ').unwrap_or((line, ""));
        match key.cmp(found) {
            std::cmp::Ordering::Equal => return Some(text),
            std::cmp::Ordering::Less => rest = before,
            std::cmp::Ordering::Greater => rest = after,
        }
    }
    None
}

/// The lines behind the comments at the top.
fn entries(mut lines: &str) -> &str {
    while lines.starts_with('#') {
        lines = lines.split_once('\n').map_or("", |(_, rest)| rest);
    }
    lines
}

/// The description of a field of a Go type (`core/v1.Probe`), for tests that compare it with what the tables say.
#[cfg(test)]
pub(crate) fn of_go_field(type_: &str, field: &str) -> Option<&'static str> {
    find(&format!("io.k8s.api.{}", type_.replace('/', ".")), field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PUBLISHED_SCHEMAS;
    use pintle_value::json;
    use std::collections::BTreeSet;

    const TEXT_BYTES_MAX: usize = 400;

    /// Published names and schemas.
    fn schemas() -> impl Iterator<Item = (&'static str, Value)> {
        PUBLISHED_SCHEMAS.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (name, text) = line.split_once(' ').unwrap();
            (name, json::parse(text.as_bytes()).unwrap().value)
        })
    }

    fn fields(schema: &Value) -> impl Iterator<Item = &str> {
        let fields = schema.get("properties").and_then(Value::as_object);
        fields.into_iter().flat_map(|fields| fields.iter().map(|(field, _)| field.as_str()))
    }

    #[test]
    fn every_type_and_field_is_described() {
        let mut missing = Vec::new();
        for (name, schema) in schemas() {
            if of_type(name, &schema).is_none() {
                missing.push(name.to_string());
            }
            for field in fields(&schema).filter(|field| of_field(name, &schema, field).is_none()) {
                missing.push(format!("{name} {field}"));
            }
        }
        assert!(missing.is_empty(), "no description of {}: {missing:#?}", missing.len());
    }

    #[test]
    fn every_entry_describes_something_that_exists() {
        let mut known = BTreeSet::new();
        for (name, schema) in schemas() {
            let parts: Vec<&str> = name.rsplit('.').collect();
            let group = if name.starts_with("io.k8s.apimachinery.") { "meta" } else { parts[2] };
            for version in [parts[1], "*"] {
                known.insert(format!("{group} {version}.{}", parts[0]));
                known.extend(fields(&schema).map(|f| format!("{group} {version}.{}.{f}", parts[0])));
            }
        }
        for (group, lines) in FILES {
            for line in entries(lines).lines() {
                let (key, _) = line.split_once(' ').unwrap();
                assert!(known.contains(&format!("{group} {key}")), "{group}.txt: {key} does not exist");
            }
        }
    }

    #[test]
    fn every_group_is_described() {
        let kinds = crate::builtin().kinds;
        let groups: BTreeSet<&str> = kinds.iter().map(|kind| &*kind.group).collect();
        assert!(groups.len() > 15);
        for group in groups {
            assert!(of_group(group).is_some(), "no description of the group {group:?}");
        }
    }

    #[test]
    fn entries_are_sorted_and_short() {
        for (group, lines) in FILES.iter().chain(&[("groups", GROUPS)]) {
            let mut previous = "";
            for line in entries(lines).lines() {
                let (key, text) = line.split_once(' ').unwrap_or((line, ""));
                assert!(previous < key, "{group}.txt: {key} must stand before {previous}");
                assert!(!text.is_empty() && text.trim() == text, "{group}.txt: {key} has no clean text");
                assert!(text.len() <= TEXT_BYTES_MAX, "{group}.txt: {key} has {} bytes", text.len());
                previous = key;
            }
        }
    }

    #[test]
    fn entries_are_found_by_key() {
        let lines = "# comment\n*.A all A\n*.A.b all b\nv1.A A of v1\nv1.A.b b of v1\n";
        for (key, text) in [
            ("*.A", Some("all A")),
            ("*.A.b", Some("all b")),
            ("v1.A", Some("A of v1")),
            ("v1.A.b", Some("b of v1")),
            ("v1", None),
            ("v1.A.", None),
            ("z", None),
            ("", None),
        ] {
            assert_eq!(search(lines, key), text, "{key}");
        }
        assert_eq!(search("", "a"), None);
        assert_eq!(search("a without end", "a"), Some("without end"));
    }

    #[test]
    fn lists_are_described_by_their_items() {
        let schema = r#"{"properties":{"items":{},"metadata":{}},"x-kubernetes-group-version-kind":[{}]}"#;
        let schema = json::parse(schema.as_bytes()).unwrap().value;
        let name = "io.k8s.api.core.v1.PodList";
        let of = |field| of_field(name, &schema, field).unwrap().into_owned();
        assert_eq!(of("items"), "The Pod objects, sorted by namespace and name.");
        assert_eq!(of("metadata"), LIST_METADATA);
        assert!(of_type(name, &schema).unwrap().contains("Pod objects"));
        assert_eq!(of_field(name, &schema, "unknown"), None);
    }
}
