//! Encodes OpenAPI documents in protobuf, driven by the table of messages in `messages.txt`.

use super::model::Dialect;
use pintle_protobuf::Writer;
use pintle_value::{Value, yaml};
use std::collections::HashMap;
use std::sync::LazyLock;

const FILE: &str = include_str!("messages.txt");

/// The encoding of a member. Texts are names of messages.
enum How {
    Text,
    Texts,
    Bool,
    Int,
    Double,
    /// Any value, as YAML.
    Any,
    /// Any values, as YAML.
    Anys,
    One(&'static str),
    Many(&'static str),
    /// One or several type names, in a message of their own.
    TypeNames,
    /// A schema or one of its alternatives, in a message of its own.
    Item(&'static str),
    /// The same, with `true` or `false` as alternative in the second field.
    ItemOrBool(&'static str),
    /// A map: a message of named values in its first field.
    Map(&'static str),
    /// A default: a number, a boolean or text.
    Default,
    /// Parameters of v2; the parameter's location decides which message it is.
    Parameters,
    /// Parameters of v2 that operations refer to.
    NamedParameters,
    /// Authentication by API keys, in v2.
    ApiKeys,
    /// Security requirements: names and their scopes.
    Requirements,
}

impl How {
    fn parse(text: &'static str) -> Option<How> {
        Some(match text.split_once(':').unwrap_or((text, "")) {
            ("text", _) => How::Text,
            ("texts", _) => How::Texts,
            ("bool", _) => How::Bool,
            ("int", _) => How::Int,
            ("double", _) => How::Double,
            ("any", _) => How::Any,
            ("anys", _) => How::Anys,
            ("one", message) => How::One(message),
            ("many", message) => How::Many(message),
            ("type-names", _) => How::TypeNames,
            ("item", message) => How::Item(message),
            ("item-or-bool", message) => How::ItemOrBool(message),
            ("map", message) => How::Map(message),
            ("default", _) => How::Default,
            ("parameters", _) => How::Parameters,
            ("named-parameters", _) => How::NamedParameters,
            ("api-keys", _) => How::ApiKeys,
            ("requirements", _) => How::Requirements,
            _ => return None,
        })
    }
}

/// A message: its members, and the field number of `x-` extensions.
#[derive(Default)]
struct Message {
    members: Vec<(&'static str, u64, How)>,
    extensions: u64,
    /// The message is a union: the members in this field, or a reference in the next one.
    wrapped: u64,
    /// The values of a map with arbitrary keys: the field, and the name of their message.
    values: Option<(u64, &'static str)>,
}

static MESSAGES: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    let mut messages: HashMap<&str, Message> = HashMap::new();
    let mut name = "";
    for line in FILE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.trim_start().split(' ');
        let first = words.next().unwrap_or_default();
        if !line.starts_with(' ') {
            name = first;
        }
        let message = messages.entry(name).or_default();
        if line.starts_with(' ') {
            let number = words.next().and_then(|number| number.parse().ok());
            message
                .members
                .extend(number.zip(words.next().and_then(How::parse)).map(|(n, how)| (first, n, how)));
            continue;
        }
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            let (number, values) = value.split_once(':').unwrap_or((value, ""));
            let number = number.parse().unwrap_or(0);
            match key {
                "extensions" => message.extensions = number,
                "wrapped" => message.wrapped = number,
                _ => message.values = Some((number, values)),
            }
        }
    }
    messages
});

/// The message of this name; a test checks that the table has all names that it uses.
fn message_of(name: &str) -> &'static Message {
    static NONE: Message = Message { members: Vec::new(), extensions: 0, wrapped: 0, values: None };
    MESSAGES.get(name).unwrap_or(&NONE)
}

/// A document in protobuf.
pub(super) fn encode(tree: &Value, dialect: Dialect) -> Vec<u8> {
    let mut out = Writer::default();
    write(&mut out, tree, if dialect == Dialect::V2 { "V2Document" } else { "V3Document" });
    out.0
}

/// Encodes one path as a field of the paths message.
pub(super) fn path(name: &str, item: &Value, dialect: Dialect) -> Vec<u8> {
    let (number, message) = match dialect {
        Dialect::V2 => (2, "V2PathItem"),
        Dialect::V3 => (1, "V3PathItem"),
    };
    encode_field(number, name, item, message)
}

/// Encodes one schema as a field of the message of all schemas.
pub(super) fn schema(name: &str, schema: &Value, dialect: Dialect) -> Vec<u8> {
    encode_field(1, name, schema, if dialect == Dialect::V2 { "V2Schema" } else { "V3Schema" })
}

fn encode_field(number: u64, name: &str, value: &Value, message: &str) -> Vec<u8> {
    let mut out = Writer::default();
    out.message(number, |w| write_named(w, name, value, message));
    out.0.shrink_to_fit();
    out.0
}

/// Writes the header of the paths message, whose size is given.
pub(super) fn begin_paths(out: &mut Vec<u8>, size: usize, dialect: Dialect) {
    begin(out, if dialect == Dialect::V2 { 8 } else { 4 }, size);
}

/// Writes the header of the schemas message. In OpenAPI v3 it is part of the components, which are present even without
/// schemas.
pub(super) fn begin_schemas(out: &mut Vec<u8>, size: Option<usize>, dialect: Dialect) {
    if dialect == Dialect::V2 {
        return begin(out, 9, size.unwrap_or(0));
    }
    let mut inner = Vec::new();
    if let Some(size) = size {
        begin(&mut inner, 1, size);
    }
    begin(out, 5, inner.len().saturating_add(size.unwrap_or(0)));
    out.extend_from_slice(&inner);
}

fn begin(out: &mut Vec<u8>, number: u64, size: usize) {
    let mut writer = Writer(std::mem::take(out));
    writer.length(number, size);
    *out = writer.0;
}

fn write(out: &mut Writer, tree: &Value, message: &str) {
    let Some(members) = tree.as_object() else { return };
    let message = message_of(message);
    if message.wrapped > 0 {
        match tree.get("$ref").and_then(Value::as_str) {
            Some(target) => out.message(message.wrapped.saturating_add(1), |w| w.string(1, target)),
            None => out.message(message.wrapped, |w| write_members(w, tree, message)),
        }
        return;
    }
    if let Some((field, value_message)) = &message.values {
        for (name, value) in members.iter().filter(|(name, _)| !name.starts_with("x-")) {
            out.message(*field, |w| write_named(w, name, value, value_message));
        }
    }
    write_members(out, tree, message);
}

fn write_members(out: &mut Writer, tree: &Value, message: &Message) {
    for (name, number, how) in &message.members {
        if let Some(value) = tree.get(name) {
            write_member(out, *number, value, how);
        }
    }
    let all = tree.as_object().into_iter().flat_map(|m| m.iter());
    for (name, value) in all.filter(|(name, _)| message.extensions > 0 && name.starts_with("x-")) {
        out.message(message.extensions, |w| {
            w.string(1, name);
            w.message(2, |w| any(w, value));
        });
    }
}

fn write_named(out: &mut Writer, name: &str, value: &Value, message: &str) {
    out.string(1, name);
    out.message(2, |w| write(w, value, message));
}

/// JSON is YAML.
fn any(out: &mut Writer, value: &Value) {
    let mut text = Vec::new();
    yaml::print(value, &mut text);
    out.bytes(2, &text);
}

fn write_double(out: &mut Writer, number: u64, value: &Value) {
    let float = match value {
        Value::Int(int) => *int as f64,
        Value::Float(float) => *float,
        _ => return,
    };
    out.fixed64(number, float.to_bits());
}

fn write_member(out: &mut Writer, number: u64, value: &Value, how: &How) {
    let items = value.as_array().unwrap_or_default();
    match how {
        How::Text => out.string(number, value.as_str().unwrap_or("")),
        How::Texts => items.iter().filter_map(Value::as_str).for_each(|text| out.string(number, text)),
        How::Bool => out.int(number, i64::from(value.as_bool() == Some(true))),
        How::Int => out.int(number, value.as_int().unwrap_or(0)),
        How::Double => write_double(out, number, value),
        How::Any => out.message(number, |w| any(w, value)),
        How::Anys => items.iter().for_each(|item| out.message(number, |w| any(w, item))),
        How::One(message) => out.message(number, |w| write(w, value, message)),
        How::Many(message) => items.iter().for_each(|item| out.message(number, |w| write(w, item, message))),
        How::TypeNames => out.message(number, |w| match value.as_str() {
            Some(text) => w.string(1, text),
            None => items.iter().filter_map(Value::as_str).for_each(|text| w.string(1, text)),
        }),
        How::Item(message) => out.message(number, |w| w.message(1, |w| write(w, value, message))),
        How::ItemOrBool(message) => out.message(number, |w| match value.as_bool() {
            Some(allowed) => w.int(2, i64::from(allowed)),
            None => w.message(1, |w| write(w, value, message)),
        }),
        How::Map(message) => out.message(number, |w| {
            for (name, value) in value.as_object().into_iter().flat_map(|m| m.iter()) {
                w.message(1, |w| write_named(w, name, value, message));
            }
        }),
        How::Default => out.message(number, |w| match value {
            Value::Bool(b) => w.int(2, i64::from(*b)),
            Value::String(text) => w.string(3, text),
            other => write_double(w, 1, other),
        }),
        How::Parameters => items.iter().for_each(|item| out.message(number, |w| write_parameter(w, item))),
        How::NamedParameters => out.message(number, |w| {
            for (name, value) in value.as_object().into_iter().flat_map(|m| m.iter()) {
                w.message(1, |w| {
                    w.string(1, name);
                    w.message(2, |w| parameter_definition(w, value));
                });
            }
        }),
        How::ApiKeys => out.message(number, |w| {
            for (name, key) in value.as_object().into_iter().flat_map(|m| m.iter()) {
                w.message(1, |w| {
                    w.string(1, name);
                    w.message(2, |w| w.message(2, |w| write(w, key, "V2ApiKey")));
                });
            }
        }),
        How::Requirements => items.iter().for_each(|item| {
            out.message(number, |w| {
                for (name, scopes) in item.as_object().into_iter().flat_map(|m| m.iter()) {
                    w.message(1, |w| {
                        w.string(1, name);
                        w.message(2, |w| write_member(w, 1, scopes, &How::Texts));
                    });
                }
            });
        }),
    }
}

fn write_parameter(out: &mut Writer, value: &Value) {
    match value.get("$ref").and_then(Value::as_str) {
        Some(target) => out.message(2, |w| w.string(1, target)),
        None => out.message(1, |w| parameter_definition(w, value)),
    }
}

fn parameter_definition(out: &mut Writer, value: &Value) {
    match value.str_at(&["in"]) {
        "body" => out.message(1, |w| write(w, value, "V2Body")),
        "path" => out.message(2, |w| w.message(4, |w| write(w, value, "V2Path"))),
        _ => out.message(2, |w| w.message(3, |w| write(w, value, "V2Query"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_valid_and_name_messages() {
        let rows = FILE.lines().filter(|line| line.starts_with(' ')).count();
        assert_eq!(MESSAGES.values().map(|message| message.members.len()).sum::<usize>(), rows);
        let used = FILE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'));
        let own = ["V2Document", "V3Document", "V2PathItem", "V3PathItem", "V2Schema", "V3Schema"];
        let parameters = ["V2Body", "V2Path", "V2Query", "V2ApiKey"];
        for name in used.map(|(_, name)| name).chain(own).chain(parameters) {
            assert!(MESSAGES.contains_key(name), "{name}");
        }
    }
}
