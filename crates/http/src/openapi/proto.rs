//! Encodes OpenAPI documents in protobuf, driven by tables of the messages: the number and type of each member.

use super::model::Dialect;
use pintle_protobuf::Writer;
use pintle_value::{Value, yaml};

/// The encoding of a member.
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
    One(&'static Message),
    Many(&'static Message),
    /// One or several type names, in a message of their own.
    TypeItem,
    /// A schema or one of its alternatives, in a message of its own.
    In(u64, &'static Message),
    /// The same, with `true` or `false` as alternative in the second field.
    InOrBool(&'static Message),
    /// A map: a message of named values in its first field.
    Map(&'static Message),
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

/// A message: its members, and the field number of `x-` extensions.
struct Message {
    members: &'static [(&'static str, u64, How)],
    extensions: u64,
    /// The message is a union: the members in this field, or a reference in the next one.
    wrapped: u64,
    /// The values of a map with arbitrary keys.
    values: Option<(u64, &'static Message)>,
}

const NO: Message = Message { members: &[], extensions: 0, wrapped: 0, values: None };

/// A document in protobuf.
pub(super) fn encode(tree: &Value, dialect: Dialect) -> Vec<u8> {
    let mut out = Writer::default();
    let message = if dialect == Dialect::V2 { &V2_DOCUMENT } else { &V3_DOCUMENT };
    write(&mut out, tree, message);
    out.0
}

/// Encodes one path as a field of the paths message.
pub(super) fn path(name: &str, item: &Value, dialect: Dialect) -> Vec<u8> {
    let (number, message) = match dialect {
        Dialect::V2 => (2, &V2_PATH_ITEM),
        Dialect::V3 => (1, &V3_PATH_ITEM),
    };
    encode_field(number, name, item, message)
}

/// Encodes one schema as a field of the message of all schemas.
pub(super) fn schema(name: &str, schema: &Value, dialect: Dialect) -> Vec<u8> {
    encode_field(1, name, schema, if dialect == Dialect::V2 { &V2_SCHEMA } else { &V3_SCHEMA })
}

fn encode_field(number: u64, name: &str, value: &Value, message: &Message) -> Vec<u8> {
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

fn write(out: &mut Writer, tree: &Value, message: &Message) {
    let Some(members) = tree.as_object() else { return };
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
    for (name, number, how) in message.members {
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

fn write_named(out: &mut Writer, name: &str, value: &Value, message: &Message) {
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
        How::TypeItem => out.message(number, |w| match value.as_str() {
            Some(text) => w.string(1, text),
            None => items.iter().filter_map(Value::as_str).for_each(|text| w.string(1, text)),
        }),
        How::In(field, message) => out.message(number, |w| w.message(*field, |w| write(w, value, message))),
        How::InOrBool(message) => out.message(number, |w| match value.as_bool() {
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
                    w.message(2, |w| w.message(2, |w| write(w, key, &V2_API_KEY)));
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
        "body" => out.message(1, |w| write(w, value, &V2_BODY)),
        "path" => out.message(2, |w| w.message(4, |w| write(w, value, &V2_PATH))),
        _ => out.message(2, |w| w.message(3, |w| write(w, value, &V2_QUERY))),
    }
}

static V2_DOCUMENT: Message = Message {
    members: &[
        ("swagger", 1, How::Text),
        ("info", 2, How::One(&V2_INFO)),
        ("paths", 8, How::One(&V2_PATHS)),
        ("definitions", 9, How::Map(&V2_SCHEMA)),
        ("parameters", 10, How::NamedParameters),
        ("security", 12, How::Requirements),
        ("securityDefinitions", 13, How::ApiKeys),
        ("tags", 14, How::Many(&TAG)),
    ],
    ..NO
};
static TAG: Message = Message { members: &[("name", 1, How::Text), ("description", 2, How::Text)], ..NO };
static V2_INFO: Message = Message { members: &[("title", 1, How::Text), ("version", 2, How::Text)], ..NO };
static V2_PATHS: Message = Message { values: Some((2, &V2_PATH_ITEM)), ..NO };
static V2_PATH_ITEM: Message = Message {
    members: &[
        ("get", 2, How::One(&V2_OPERATION)),
        ("put", 3, How::One(&V2_OPERATION)),
        ("post", 4, How::One(&V2_OPERATION)),
        ("delete", 5, How::One(&V2_OPERATION)),
        ("options", 6, How::One(&V2_OPERATION)),
        ("head", 7, How::One(&V2_OPERATION)),
        ("patch", 8, How::One(&V2_OPERATION)),
        ("parameters", 9, How::Parameters),
    ],
    extensions: 10,
    ..NO
};
static V2_OPERATION: Message = Message {
    members: &[
        ("tags", 1, How::Texts),
        ("description", 3, How::Text),
        ("operationId", 5, How::Text),
        ("produces", 6, How::Texts),
        ("consumes", 7, How::Texts),
        ("parameters", 8, How::Parameters),
        ("responses", 9, How::One(&V2_RESPONSES)),
        ("schemes", 10, How::Texts),
    ],
    extensions: 13,
    ..NO
};
static V2_BODY: Message = Message {
    members: &[
        ("description", 1, How::Text),
        ("name", 2, How::Text),
        ("in", 3, How::Text),
        ("required", 4, How::Bool),
        ("schema", 5, How::One(&V2_SCHEMA)),
    ],
    extensions: 6,
    ..NO
};
static V2_QUERY: Message = Message {
    members: &[
        ("required", 1, How::Bool),
        ("in", 2, How::Text),
        ("description", 3, How::Text),
        ("name", 4, How::Text),
        ("type", 6, How::Text),
        ("uniqueItems", 20, How::Bool),
    ],
    extensions: 23,
    ..NO
};
static V2_PATH: Message = Message {
    members: &[
        ("required", 1, How::Bool),
        ("in", 2, How::Text),
        ("description", 3, How::Text),
        ("name", 4, How::Text),
        ("type", 5, How::Text),
        ("uniqueItems", 19, How::Bool),
    ],
    extensions: 22,
    ..NO
};
static V2_RESPONSES: Message = Message { values: Some((1, &V2_RESPONSE)), ..NO };
static V2_RESPONSE: Message = Message {
    wrapped: 1,
    members: &[("description", 1, How::Text), ("schema", 2, How::In(1, &V2_SCHEMA))],
    extensions: 5,
    ..NO
};
static EXTERNAL_DOCS: Message =
    Message { members: &[("description", 1, How::Text), ("url", 2, How::Text)], extensions: 3, ..NO };
static V2_SCHEMA: Message = Message {
    members: &[
        ("$ref", 1, How::Text),
        ("format", 2, How::Text),
        ("title", 3, How::Text),
        ("description", 4, How::Text),
        ("multipleOf", 6, How::Double),
        ("maximum", 7, How::Double),
        ("exclusiveMaximum", 8, How::Bool),
        ("minimum", 9, How::Double),
        ("exclusiveMinimum", 10, How::Bool),
        ("maxLength", 11, How::Int),
        ("minLength", 12, How::Int),
        ("pattern", 13, How::Text),
        ("maxItems", 14, How::Int),
        ("minItems", 15, How::Int),
        ("uniqueItems", 16, How::Bool),
        ("maxProperties", 17, How::Int),
        ("minProperties", 18, How::Int),
        ("required", 19, How::Texts),
        ("enum", 20, How::Anys),
        ("additionalProperties", 21, How::InOrBool(&V2_SCHEMA)),
        ("type", 22, How::TypeItem),
        ("items", 23, How::In(1, &V2_SCHEMA)),
        ("properties", 25, How::Map(&V2_SCHEMA)),
        ("externalDocs", 29, How::One(&EXTERNAL_DOCS)),
        ("example", 30, How::Any),
    ],
    extensions: 31,
    ..NO
};
static V2_API_KEY: Message = Message {
    members: &[
        ("type", 1, How::Text),
        ("name", 2, How::Text),
        ("in", 3, How::Text),
        ("description", 4, How::Text),
    ],
    ..NO
};

static V3_DOCUMENT: Message = Message {
    members: &[
        ("openapi", 1, How::Text),
        ("info", 2, How::One(&V3_INFO)),
        ("paths", 4, How::One(&V3_PATHS)),
        ("components", 5, How::One(&V3_COMPONENTS)),
        ("tags", 7, How::Many(&TAG)),
    ],
    ..NO
};
static V3_INFO: Message = Message { members: &[("title", 1, How::Text), ("version", 6, How::Text)], ..NO };
static V3_PATHS: Message = Message { values: Some((1, &V3_PATH_ITEM)), ..NO };
static V3_PATH_ITEM: Message = Message {
    members: &[
        ("get", 4, How::One(&V3_OPERATION)),
        ("put", 5, How::One(&V3_OPERATION)),
        ("post", 6, How::One(&V3_OPERATION)),
        ("delete", 7, How::One(&V3_OPERATION)),
        ("options", 8, How::One(&V3_OPERATION)),
        ("head", 9, How::One(&V3_OPERATION)),
        ("patch", 10, How::One(&V3_OPERATION)),
        ("parameters", 13, How::Many(&V3_PARAMETER)),
    ],
    extensions: 14,
    ..NO
};
static V3_OPERATION: Message = Message {
    members: &[
        ("tags", 1, How::Texts),
        ("description", 3, How::Text),
        ("operationId", 5, How::Text),
        ("parameters", 6, How::Many(&V3_PARAMETER)),
        ("requestBody", 7, How::One(&V3_BODY)),
        ("responses", 8, How::One(&V3_RESPONSES)),
    ],
    extensions: 13,
    ..NO
};
static V3_PARAMETER: Message = Message {
    wrapped: 1,
    members: &[
        ("name", 1, How::Text),
        ("in", 2, How::Text),
        ("description", 3, How::Text),
        ("required", 4, How::Bool),
        ("schema", 10, How::One(&V3_SCHEMA)),
    ],
    extensions: 14,
    ..NO
};
static V3_BODY: Message = Message {
    wrapped: 1,
    members: &[("content", 2, How::Map(&V3_MEDIA)), ("required", 3, How::Bool)],
    extensions: 4,
    ..NO
};
static V3_MEDIA: Message = Message { members: &[("schema", 1, How::One(&V3_SCHEMA))], extensions: 5, ..NO };
static V3_RESPONSES: Message = Message { values: Some((2, &V3_RESPONSE)), ..NO };
static V3_RESPONSE: Message = Message {
    wrapped: 1,
    members: &[("description", 1, How::Text), ("content", 3, How::Map(&V3_MEDIA))],
    extensions: 5,
    ..NO
};
static V3_COMPONENTS: Message = Message {
    members: &[("schemas", 1, How::Map(&V3_SCHEMA)), ("securitySchemes", 7, How::Map(&V3_SECURITY))],
    ..NO
};
static V3_SECURITY: Message = Message {
    wrapped: 1,
    members: &[
        ("type", 1, How::Text),
        ("description", 2, How::Text),
        ("name", 3, How::Text),
        ("in", 4, How::Text),
    ],
    ..NO
};
static V3_SCHEMA: Message = Message {
    wrapped: 1,
    members: &[
        ("nullable", 1, How::Bool),
        ("externalDocs", 6, How::One(&EXTERNAL_DOCS)),
        ("example", 7, How::Any),
        ("title", 9, How::Text),
        ("multipleOf", 10, How::Double),
        ("maximum", 11, How::Double),
        ("exclusiveMaximum", 12, How::Bool),
        ("minimum", 13, How::Double),
        ("exclusiveMinimum", 14, How::Bool),
        ("maxLength", 15, How::Int),
        ("minLength", 16, How::Int),
        ("pattern", 17, How::Text),
        ("maxItems", 18, How::Int),
        ("minItems", 19, How::Int),
        ("uniqueItems", 20, How::Bool),
        ("maxProperties", 21, How::Int),
        ("minProperties", 22, How::Int),
        ("required", 23, How::Texts),
        ("enum", 24, How::Anys),
        ("type", 25, How::Text),
        ("allOf", 26, How::Many(&V3_SCHEMA)),
        ("oneOf", 27, How::Many(&V3_SCHEMA)),
        ("anyOf", 28, How::Many(&V3_SCHEMA)),
        ("items", 30, How::In(1, &V3_SCHEMA)),
        ("properties", 31, How::Map(&V3_SCHEMA)),
        ("additionalProperties", 32, How::InOrBool(&V3_SCHEMA)),
        ("default", 33, How::Default),
        ("description", 34, How::Text),
        ("format", 35, How::Text),
    ],
    extensions: 36,
    ..NO
};
