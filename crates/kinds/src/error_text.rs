//! How kube-apiserver prints values of its internal types in errors: with Go's field names and order, which differ from
//! the API's. The types come from `data/types.txt`, what differs in the internal ones from `data/internal.txt`.

use crate::builtin::TYPES;
use pintle_meta::field::ErrorText;
use pintle_value::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, OnceLock};

const INTERNAL: &str = include_str!("../data/internal.txt");
/// The JSON schema type of custom resource definitions.
const PROPS: &str = "apiextensions/v1.JSONSchemaProps";
/// Metadata is part of the internal types as it is: with the API's names, unset fields omitted.
const METADATA: &str = "meta/v1.ObjectMeta";

/// A value of an internal type (`core/v1.PodSpec`, `[]core/v1.Container`).
pub(crate) struct Internal<'a>(pub(crate) Option<&'a Value>, pub(crate) &'static str);

impl ErrorText for Internal<'_> {
    fn error_text(&self) -> String {
        let mut out = String::new();
        let (prefix, name) = split(self.1);
        let prefix = if prefix.is_empty() { "*" } else { prefix };
        TABLE.write(self.0.unwrap_or(&Value::Null), prefix, name, &mut out);
        out
    }
}

/// A list of an internal type.
pub(crate) struct InternalList<'a>(pub(crate) &'a [Value], pub(crate) &'static str);

impl ErrorText for InternalList<'_> {
    fn error_text(&self) -> String {
        if self.0.is_empty() {
            return "null".to_string();
        }
        let mut out = String::new();
        write_list(self.0, &mut out, |item, out| TABLE.write(item, "", self.1, out));
        out
    }
}

/// The diff of a stored value of an internal type and a new one. The stored value has no empty lists and maps, but `old`
/// may have those that make it comparable with `new`.
pub(crate) fn diff_from_stored(old: &Value, new: &Value, name: &'static str) -> String {
    let mut stored = old.clone();
    TABLE.remove_empties(&mut stored, name);
    let text = |value: &Value| Internal(Some(value), name).error_text();
    crate::diff::unified(&text(&stored), &text(new))
}

/// The Go names of the fields that a value has, in Go's order.
pub(crate) fn go_names<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'static str> + use<'a> {
    let has = |member: &&Member| value.get(member.key).is_some_and(|v| !v.is_null());
    TABLE.members(name).iter().filter(has).map(|member| member.go_name.as_str())
}

/// Turns JSON with Go's field names, which Go decodes case-insensitively, into that of the API.
pub(crate) fn from_go_names(value: &Value, name: &str) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(|item| from_go_names(item, name)).collect()),
        Value::Object(map) => {
            let mut out = Map::new();
            for member in TABLE.members(name) {
                let entry = map.iter().find(|(key, _)| key.eq_ignore_ascii_case(&member.go_name));
                if let Some((_, value)) = entry.filter(|(_, value)| !value.is_null()) {
                    let (_, inner) = split(member.expr);
                    let is_struct = TABLE.structs.contains_key(inner);
                    let value = if is_struct { from_go_names(value, inner) } else { value.clone() };
                    out.insert(member.key, value);
                }
            }
            Value::Object(out)
        }
        scalar => scalar.clone(),
    }
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

/// The texts of the tables by type; members are parsed when a type is printed.
struct Table {
    structs: HashMap<&'static str, Declared>,
    /// The underlying type of each named type.
    named: HashMap<&'static str, &'static str>,
    /// Go names of fields that are not the API's name with a capital.
    names: HashMap<&'static str, &'static str>,
    /// The fields in which an internal type differs from that of the API.
    differences: BTreeMap<&'static str, &'static str>,
}

struct Declared {
    /// The lines of the type's members in the table.
    lines: &'static str,
    members: OnceLock<Vec<Member>>,
}

/// One field of an internal type.
#[derive(Clone, Default)]
struct Member {
    key: &'static str,
    go_name: String,
    /// The member's type, `*core/v1.Probe`; for the few fields that the API has elsewhere, "".
    expr: &'static str,
    /// The text of an absent value, if it is not the zero value of the type.
    zero: Option<&'static str>,
    /// Whether an absent or empty value is omitted.
    is_omitted: bool,
    /// Whether the API has the field in `metadata`, which Go embeds.
    in_metadata: bool,
}

impl Table {
    fn read() -> Table {
        let mut table = Table {
            structs: HashMap::new(),
            named: HashMap::new(),
            names: HashMap::new(),
            differences: BTreeMap::new(),
        };
        for (head, lines) in blocks(TYPES) {
            let mut words = head.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("struct"), Some(name), _) => {
                    table.structs.insert(name, Declared { lines, members: OnceLock::new() });
                }
                (Some("named"), Some(name), Some(element)) => _ = table.named.insert(name, element),
                _ => {}
            }
        }
        for line in INTERNAL.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once(' ') {
                Some(("names", names)) => {
                    table.names.extend(names.split(' ').filter_map(|n| n.split_once('=')))
                }
                Some((name, words)) => _ = table.differences.insert(name, words),
                None => {}
            }
        }
        table
    }

    /// The fields of an internal type in Go's order.
    fn members(&self, name: &str) -> &[Member] {
        let Some(declared) = self.structs.get(name) else { return &[] };
        declared.members.get_or_init(|| self.internal_members(name, declared.lines))
    }

    /// The members of an internal type: those of the API's type, changed by the words of `data/internal.txt`.
    fn internal_members(&self, name: &str, lines: &'static str) -> Vec<Member> {
        let mut members = self.api_members(name, lines);
        let Some(words) = self.differences.get(name) else { return members };
        let (words, all) = words.strip_prefix("order ").map_or((*words, false), |words| (words, true));
        let mut ordered = Vec::new();
        for word in words.split(' ') {
            let (word, zero) = word.split_once(':').map_or((word, None), |(word, zero)| (word, Some(zero)));
            let (key, go_name) = word.split_once('=').unwrap_or((word, ""));
            let at = members.iter().position(|member| member.key == key);
            let mut member = match at {
                Some(at) => members.remove(at),
                None => Member { key, go_name: self.go_name(key), ..Member::default() },
            };
            member.zero = zero;
            if !go_name.is_empty() {
                member.go_name = go_name.to_string();
            }
            match at.filter(|_| !all) {
                Some(at) => members.insert(at, member),
                None => ordered.push(member),
            }
        }
        if all { ordered } else { members }
    }

    /// The fields of a type of the API.
    fn api_members(&self, name: &str, lines: &'static str) -> Vec<Member> {
        let mut out = Vec::new();
        // Errors of declarative validation print the types of the API.
        let from_meta = name.starts_with("meta/") || name.starts_with("scheduling/v1alpha2.");
        for line in lines.lines() {
            let mut words = line.trim_start().split(' ');
            let (Some(key), Some(expr)) = (words.next(), words.next()) else { continue };
            let in_metadata = expr == METADATA && !from_meta;
            if key == "inline" || in_metadata {
                out.extend(self.members(expr).iter().map(|m| Member { in_metadata, ..m.clone() }));
                continue;
            }
            out.push(Member {
                key,
                go_name: if from_meta { key.to_string() } else { self.go_name(key) },
                expr,
                is_omitted: from_meta && words.any(|word| word == "e" || word == "z"),
                ..Member::default()
            });
        }
        out
    }

    fn go_name(&self, key: &str) -> String {
        if let Some(name) = self.names.get(key) {
            return (*name).to_string();
        }
        let mut name = key.to_string();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        name
    }

    /// Writes a value of type `name`, of which `prefix` is a pointer (`*`), a list (`[]`), a map or nothing.
    fn write(&self, value: &Value, prefix: &str, name: &str, out: &mut String) {
        if let Some(element) = self.named.get(name).filter(|_| !matches!(value, Value::Null)) {
            return self.write_named(value, prefix, element, out);
        }
        if !self.structs.contains_key(name) {
            return write_plain(value, out);
        }
        match (prefix, value) {
            ("*", Value::Null) => out.push_str("null"),
            ("[]" | "map", _) => write_each(value, out, |item, out| self.write(item, "", name, out)),
            _ => {
                let present = self.members(name).iter().filter_map(|member| {
                    let holder = if member.in_metadata { value.get("metadata") } else { Some(value) };
                    let value = holder.and_then(|holder| holder.get(member.key)).filter(|v| !v.is_null());
                    let is_omitted = member.is_omitted && value.is_none_or(is_empty);
                    (!is_omitted).then_some((member.go_name.as_str(), (member, value)))
                });
                write_object(present, out, |(member, value), out| self.write_member(member, value, out));
            }
        }
    }

    /// Writes a value of a named type. The types of JSON schemas that allow something else in place of a schema are
    /// structs in Go.
    fn write_named(&self, value: &Value, prefix: &str, underlying: &'static str, out: &mut String) {
        let (other, is_other) = match underlying {
            "PropsOrArray" => ("JSONSchemas", value.as_array().is_some()),
            "PropsOrStrings" => ("Property", value.as_array().is_some()),
            "PropsOrBool" => ("Allows", value.as_bool().is_some()),
            _ => {
                let (inner, name) = split(underlying);
                return self.write(value, if inner.is_empty() { prefix } else { inner }, name, out);
            }
        };
        if prefix == "map" {
            return write_each(value, out, |item, out| self.write_named(item, "", underlying, out));
        }
        let schema = |out: &mut String| {
            out.push_str("\"Schema\":");
            let value = if is_other { &Value::Null } else { value };
            self.write(value, "*", PROPS, out);
        };
        out.push('{');
        if other != "Allows" {
            schema(out);
            out.push(',');
        }
        out.push_str(&format!("\"{other}\":"));
        match (other, is_other) {
            ("JSONSchemas", true) => self.write(value, "[]", PROPS, out),
            (_, true) => write_plain(value, out),
            ("Allows", false) => out.push_str("true"),
            (_, false) => out.push_str("null"),
        }
        if other == "Allows" {
            out.push(',');
            schema(out);
        }
        out.push('}');
    }

    fn write_member(&self, member: &Member, value: Option<&Value>, out: &mut String) {
        let (prefix, name) = split(member.expr);
        match value {
            Some(value) => self.write(value, prefix, name, out),
            None if prefix.is_empty() && self.structs.contains_key(name) => {
                self.write(&Value::Null, prefix, name, out)
            }
            None => out.push_str(member.zero.unwrap_or_else(|| self.zero_text(prefix, name))),
        }
    }

    /// Removes the empty lists and maps of a value of this type.
    fn remove_empties(&self, value: &mut Value, expr: &str) {
        let (prefix, name) = split(expr);
        if let Some(element) = self.named.get(name).filter(|_| prefix.is_empty()) {
            return self.remove_empties(value, element);
        }
        match (prefix, &mut *value) {
            ("[]" | "map", empty) if is_empty(empty) => *value = Value::Null,
            ("[]", Value::Array(items)) => items.iter_mut().for_each(|item| self.remove_empties(item, name)),
            ("map", Value::Object(map)) => {
                map.iter_mut().for_each(|(_, value)| self.remove_empties(value, name))
            }
            (_, value) => {
                for member in self.members(name) {
                    let holder =
                        if member.in_metadata { value.get_mut("metadata") } else { Some(&mut *value) };
                    if let Some(value) = holder.and_then(|holder| holder.get_mut(member.key)) {
                        self.remove_empties(value, member.expr);
                    }
                }
            }
        }
    }

    fn zero_text(&self, prefix: &str, name: &str) -> &'static str {
        match name {
            _ if !prefix.is_empty() => "null",
            "string" => "\"\"",
            "bool" => "false",
            "int32" | "int64" | "float64" | "IntOrString" => "0",
            "Quantity" => "\"0\"",
            named => self.named.get(named).map_or("null", |underlying| {
                let (prefix, underlying) = split(underlying);
                self.zero_text(prefix, underlying)
            }),
        }
    }
}

/// The lines of a table that begin with a word, each with the indented lines below it.
pub(crate) fn blocks(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut rest = table;
    std::iter::from_fn(move || {
        let (head, after) = rest.split_once('\n')?;
        let mut length = 0usize;
        for line in after.split_inclusive('\n').take_while(|line| line.starts_with(' ')) {
            length = length.saturating_add(line.len());
        }
        let (members, after) = after.split_at_checked(length)?;
        rest = after;
        Some((head, members))
    })
}

/// `*core/v1.Probe` → `("*", "core/v1.Probe")`
fn split(expr: &str) -> (&str, &str) {
    let after = |prefix: &'static str| expr.strip_prefix(prefix).map(|name| (prefix, name));
    let map = || expr.strip_prefix("map[").and_then(|e| e.split_once(']')).map(|(_, name)| ("map", name));
    after("*").or_else(|| after("[]")).or_else(map).unwrap_or(("", expr))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn write_plain(value: &Value, out: &mut String) {
    out.push_str(&json::text(value));
}

/// Writes the items of a list or the entries of a map.
fn write_each(value: &Value, out: &mut String, write: impl Fn(&Value, &mut String)) {
    match value {
        Value::Array(items) => write_list(items, out, write),
        Value::Object(map) => write_object(map.iter().map(|(k, v)| (k.as_str(), v)), out, write),
        other => write_plain(other, out),
    }
}

fn write_list<T>(items: impl IntoIterator<Item = T>, out: &mut String, write: impl Fn(T, &mut String)) {
    out.push('[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

fn write_object<'a, T>(
    members: impl Iterator<Item = (&'a str, T)>,
    out: &mut String,
    write: impl Fn(T, &mut String),
) {
    out.push('{');
    for (at, (name, value)) in members.enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_plain(&Value::from(name), out);
        out.push(':');
        write(value, out);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn internal_types_have_names_and_order_of_go() {
        for (name, value, expected) in [
            (
                "core/v1.RBDVolumeSource",
                r#"{"image":"i","monitors":["m"]}"#,
                r#"{"CephMonitors":["m"],"RBDImage":"i","FSType":"","RBDPool":"","RadosUser":"","Keyring":"","SecretRef":null,"ReadOnly":false}"#,
            ),
            (
                "core/v1.PersistentVolumeClaimTemplate",
                r#"{"metadata":{"labels":{"a":"b"}},"spec":{"selector":{"matchLabels":{}}}}"#,
                r#"{"labels":{"a":"b"},"Spec":{"AccessModes":null,"Selector":{},"Resources":{"Limits":null,"Requests":null},"VolumeName":"","StorageClassName":null,"VolumeMode":null,"DataSource":null,"DataSourceRef":null,"VolumeAttributesClassName":null}}"#,
            ),
            ("apps/v1.RollingUpdateStatefulSetStrategy", "{}", r#"{"Partition":0,"MaxUnavailable":null}"#),
        ] {
            assert_eq!(Internal(Some(&tree(value)), name).error_text(), expected);
        }
    }

    #[test]
    fn differences_name_fields_of_the_types() {
        for (name, words) in &TABLE.differences {
            assert!(TABLE.structs.contains_key(name), "{name}");
            let members = TABLE.api_members(name, TABLE.structs[name].lines);
            for word in words.split(' ').filter(|word| *word != "order") {
                let key = word.split(['=', ':']).next().unwrap_or_default();
                let elsewhere = words.starts_with("order ") && word.contains(':');
                assert!(elsewhere || members.iter().any(|m| m.key == key), "{name} {key}");
            }
        }
    }
}
