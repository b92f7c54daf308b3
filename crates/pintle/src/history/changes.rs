//! The differences between two versions of an object: one line per field.

use pintle_value::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A field that differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change<'v> {
    /// `.spec.replicas`
    pub(super) path: String,
    /// The old value; `None` if the field was added.
    pub(super) from: Option<&'v Value>,
    /// The new value; `None` if the field was removed.
    pub(super) to: Option<&'v Value>,
}

/// Metadata that the server sets with every write.
const SERVER_METADATA: [&str; 3] = ["managedFields", "resourceVersion", "generation"];
/// Fields that identify the items of a list, in the order in which they are tried.
const ITEM_KEYS: [&str; 4] = ["name", "type", "key", "uid"];

/// The fields that differ, in the order of their names. Metadata that the server sets with every write is excluded.
pub(super) fn changes<'v>(from: Option<&'v Value>, to: Option<&'v Value>) -> Vec<Change<'v>> {
    let mut found = Vec::new();
    collect_changes(&mut String::new(), from, to, &mut found);
    let noted = |change: &Change<'_>| {
        let rest = change.path.strip_prefix(".metadata.").unwrap_or_default();
        SERVER_METADATA.iter().any(|name| rest == *name || rest.starts_with(&format!("{name}[")))
    };
    found.retain(|change| !noted(change));
    found
}

fn collect_changes<'v>(
    path: &mut String,
    from: Option<&'v Value>,
    to: Option<&'v Value>,
    found: &mut Vec<Change<'v>>,
) {
    let is_inner = |value: Option<&Value>| match value {
        Some(Value::Object(map)) => !map.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        None => true,
        _ => false,
    };
    match (from, to) {
        _ if from == to => {}
        (Some(Value::Object(_)) | None, Some(Value::Object(_)) | None) if is_inner(from) && is_inner(to) => {
            walk_objects(path, object(from), object(to), found);
        }
        (Some(Value::Array(_)) | None, Some(Value::Array(_)) | None) if is_inner(from) && is_inner(to) => {
            walk_lists(path, list(from), list(to), found);
        }
        _ => found.push(Change { path: path.clone(), from, to }),
    }
}

fn object(value: Option<&Value>) -> Option<&Map> {
    value.and_then(Value::as_object)
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).unwrap_or_default()
}

fn walk_objects<'v>(
    path: &mut String,
    from: Option<&'v Map>,
    to: Option<&'v Map>,
    found: &mut Vec<Change<'v>>,
) {
    let keys: BTreeSet<&str> =
        [from, to].into_iter().flatten().flat_map(|map| map.keys().map(|key| key.as_str())).collect();
    for key in keys {
        let length = path.len();
        push_field(path, key);
        collect_changes(path, from.and_then(|map| map.get(key)), to.and_then(|map| map.get(key)), found);
        path.truncate(length);
    }
}

/// Compares lists. Items are matched by a field that identifies them, so that a new item in front of others does not
/// change them all; otherwise by their positions.
fn walk_lists<'v>(path: &mut String, from: &'v [Value], to: &'v [Value], found: &mut Vec<Change<'v>>) {
    let key = ITEM_KEYS.into_iter().find(|key| is_identifying_key(from, key) && is_identifying_key(to, key));
    let length = path.len();
    if let Some(key) = key {
        let name = |item: &'v Value| item.str_at(&[key]);
        let added = to.iter().filter(|item| !from.iter().any(|old| name(old) == name(item)));
        for item in from.iter().chain(added) {
            let at = |items: &'v [Value]| items.iter().find(|other| name(other) == name(item));
            _ = write!(path, "[{key}={}]", name(item));
            collect_changes(path, at(from), at(to), found);
            path.truncate(length);
        }
        return;
    }
    for index in 0..from.len().max(to.len()) {
        _ = write!(path, "[{index}]");
        collect_changes(path, from.get(index), to.get(index), found);
        path.truncate(length);
    }
}

fn is_identifying_key(items: &[Value], key: &str) -> bool {
    let names: BTreeSet<&str> = items.iter().map(|item| item.str_at(&[key])).collect();
    names.len() == items.len() && !names.contains("")
}

fn push_field(path: &mut String, key: &str) {
    let is_plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if is_plain && !key.is_empty() {
        path.push('.');
        path.push_str(key);
    } else {
        _ = write!(path, "[{key:?}]");
    }
}

/// The path of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
    /// The item whose field has this text.
    Item(String, String),
}

impl FieldPath {
    /// Parses `.spec.containers[0].image`, `.metadata.labels["a.b/c"]` or `.spec.containers[name=web].image`.
    pub(super) fn parse(text: &str) -> Result<FieldPath, String> {
        let bad = || format!("--field {text:?} is no path such as .spec.replicas");
        let mut steps = Vec::new();
        // The braces of kubectl's templates may stay.
        let mut rest = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text);
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix("[\"") {
                let (name, after) = inside.split_once("\"]").ok_or_else(bad)?;
                steps.push(Step::Field(name.to_string()));
                rest = after;
            } else if let Some(inside) = rest.strip_prefix('[') {
                let (item, after) = inside.split_once(']').ok_or_else(bad)?;
                steps.push(match item.split_once('=') {
                    Some((key, name)) => Step::Item(key.to_string(), name.to_string()),
                    None => Step::Index(item.parse().map_err(|_| bad())?),
                });
                rest = after;
            } else {
                let field = rest.strip_prefix('.').unwrap_or(rest);
                let end = field.find(['.', '[']).unwrap_or(field.len());
                let (name, after) = field.split_at_checked(end).ok_or_else(bad)?;
                if name.is_empty() || (rest.len() == field.len() && !steps.is_empty()) {
                    return Err(bad());
                }
                steps.push(Step::Field(name.to_string()));
                rest = after;
            }
        }
        if steps.is_empty() { Err(bad()) } else { Ok(FieldPath(steps)) }
    }

    /// The value at the path.
    pub(super) fn find<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(object, |value, step| match step {
            Step::Field(name) => value.get(name),
            Step::Index(index) => value.as_array()?.get(*index),
            Step::Item(key, name) => value.as_array()?.iter().find(|item| item.str_at(&[key]) == name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn tree(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap().value
    }

    fn check(from: &str, to: &str, want: &[&str]) {
        let (from, to) = (tree(from), tree(to));
        let text = |value: Option<&Value>| {
            let mut out = Vec::new();
            if let Some(value) = value {
                json::print(value, &mut out);
            }
            String::from_utf8(out).unwrap()
        };
        let found = changes(Some(&from), Some(&to));
        let lines: Vec<String> = found
            .iter()
            .map(|change| format!("{} {} -> {}", change.path, text(change.from), text(change.to)))
            .collect();
        assert_eq!(lines, want);
    }

    #[test]
    fn fields_that_differ() {
        check(r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"b":1,"c":3}}"#, &[".a.c 2 -> 3"]);
        check(r#"{"a":{}}"#, r#"{"a":{"x.y/z":"v"}}"#, &[".a {} -> {\"x.y/z\":\"v\"}"]);
        check(r#"{"a":{"k":1}}"#, r#"{"a":{"k":1,"x.y/z":"v"}}"#, &[".a[\"x.y/z\"]  -> \"v\""]);
        check(r#"{"a":[1,2]}"#, r#"{"a":[1]}"#, &[".a[1] 2 -> "]);
        check(r#"{"a":1}"#, r#"{"a":[1]}"#, &[".a 1 -> [1]"]);
        check(
            r#"{"c":[{"name":"x","v":1}]}"#,
            r#"{"c":[{"name":"y","v":2},{"name":"x","v":3}]}"#,
            &[".c[name=x].v 1 -> 3", ".c[name=y].name  -> \"y\"", ".c[name=y].v  -> 2"],
        );
        check(
            r#"{"metadata":{"generation":1,"managedFields":[{"manager":"a"}],"resourceVersion":"1"}}"#,
            r#"{"metadata":{"generation":2,"managedFields":[{"manager":"b"}],"resourceVersion":"2"}}"#,
            &[],
        );
    }

    #[test]
    fn paths_find_their_field() {
        let object = tree(r#"{"spec":{"c":[{"name":"x","i":"one"}],"l":{"a.b/c":"v"},"n":3}}"#);
        for (path, want) in [
            (".spec.n", Some("3")),
            ("spec.n", Some("3")),
            ("{.spec.n}", Some("3")),
            (".spec.c[0].i", Some("\"one\"")),
            (".spec.c[name=x].i", Some("\"one\"")),
            (".spec.l[\"a.b/c\"]", Some("\"v\"")),
            (".spec.c[1].i", None),
            (".spec.nope", None),
        ] {
            let found = FieldPath::parse(path).unwrap();
            let text = found.find(&object).map(json::text);
            assert_eq!(text.as_deref(), want, "{path}");
        }
        for wrong in ["", ".", ".a..b", ".a[", ".a[x]", ".a[0]b"] {
            assert!(FieldPath::parse(wrong).is_err(), "{wrong}");
        }
    }
}
