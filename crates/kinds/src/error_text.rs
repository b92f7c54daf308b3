//! How kube-apiserver prints values of its internal types in errors: with Go's field names and order, which differ from
//! the API's.

use pintle_meta::field::ErrorText;
use pintle_value::{Value, json};

/// One field of an internal type: its API name, its Go name and its content.
pub(crate) struct Field(pub(crate) &'static str, pub(crate) &'static str, pub(crate) Kind);

/// What a field holds.
pub(crate) enum Kind {
    /// A value that is printed as in the API; the text stands for an absent one.
    Plain(&'static str),
    /// A value that is omitted if absent.
    Omitted,
    /// A struct behind a pointer.
    Struct(&'static [Field]),
    /// A struct, printed with zero values if absent.
    Value(&'static [Field]),
    /// A struct whose fields are inlined. Without an API name it is inlined there, too.
    Inline(&'static [Field]),
    /// A list of structs.
    List(&'static [Field]),
    /// A list of structs that is omitted if absent.
    OmittedList(&'static [Field]),
}

/// A pointer, a list or a map: `null` if absent.
pub(crate) const NULL: Kind = Kind::Plain("null");
/// A text.
pub(crate) const TEXT: Kind = Kind::Plain("\"\"");
/// A number.
pub(crate) const NUMBER: Kind = Kind::Plain("0");
/// A switch.
pub(crate) const FLAG: Kind = Kind::Plain("false");

/// A value of an internal type.
pub(crate) struct Internal<'a>(pub(crate) Option<&'a Value>, pub(crate) &'static [Field]);

impl ErrorText for Internal<'_> {
    fn error_text(&self) -> String {
        self.0.map_or_else(|| "null".to_string(), |value| structure(value, self.1).compact())
    }
}

/// A list of an internal type.
pub(crate) struct InternalList<'a>(pub(crate) &'a [Value], pub(crate) &'static [Field]);

impl ErrorText for InternalList<'_> {
    fn error_text(&self) -> String {
        if self.0.is_empty() { "null".to_string() } else { list(self.0, self.1).compact() }
    }
}

/// JSON whose members retain their order.
enum Ordered {
    Leaf(String),
    List(Vec<Ordered>),
    Object(Vec<(String, Ordered)>),
}

impl Ordered {
    fn compact(&self) -> String {
        match self {
            Ordered::Leaf(text) => text.clone(),
            Ordered::List(items) => {
                format!("[{}]", items.iter().map(Ordered::compact).collect::<Vec<_>>().join(","))
            }
            Ordered::Object(members) => {
                let member = |(name, value): &(String, Ordered)| format!("{name}:{}", value.compact());
                format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
            }
        }
    }
}

fn structure(value: &Value, fields: &[Field]) -> Ordered {
    let mut members = Vec::new();
    collect(value, fields, &mut members);
    Ordered::Object(members)
}

fn list(values: &[Value], fields: &[Field]) -> Ordered {
    Ordered::List(values.iter().map(|v| structure(v, fields)).collect())
}

fn collect(value: &Value, fields: &[Field], members: &mut Vec<(String, Ordered)>) {
    for Field(key, name, kind) in fields {
        let member = value.get(key).filter(|v| !v.is_null());
        let error_text = match (kind, member) {
            (Kind::Inline(inner), _) => {
                let inside = if key.is_empty() { Some(value) } else { member };
                collect(inside.unwrap_or(&Value::Null), inner, members);
                continue;
            }
            (Kind::Omitted | Kind::OmittedList(_), None) => continue,
            (Kind::Omitted | Kind::OmittedList(_), Some(member)) if is_empty(member) => continue,
            (Kind::Plain(zero), None) => Ordered::Leaf((*zero).to_string()),
            (Kind::Struct(_) | Kind::List(_), None) => Ordered::Leaf("null".to_string()),
            (Kind::Value(inner), member) => structure(member.unwrap_or(&Value::Null), inner),
            (Kind::Plain(_) | Kind::Omitted, Some(member)) => plain(member),
            (Kind::Struct(inner), Some(member)) => structure(member, inner),
            (Kind::List(inner) | Kind::OmittedList(inner), Some(member)) => {
                list(member.as_array().unwrap_or(&[]), inner)
            }
        };
        members.push((format!("\"{name}\""), error_text));
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn plain(value: &Value) -> Ordered {
    let text = |value: &Value| {
        let mut out = Vec::new();
        json::print(value, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    match value {
        Value::Array(items) => Ordered::List(items.iter().map(plain).collect()),
        Value::Object(map) => Ordered::Object(
            map.iter().map(|(key, v)| (text(&Value::String(key.clone())), plain(v))).collect(),
        ),
        scalar => Ordered::Leaf(text(scalar)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: &[Field] = &[Field("c", "C", NUMBER)];
    const META: &[Field] = &[Field("name", "name", Kind::Omitted), Field("labels", "labels", Kind::Omitted)];
    const OUTER: &[Field] = &[
        Field("metadata", "", Kind::Inline(META)),
        Field("", "", Kind::Inline(INNER)),
        Field("b", "B", Kind::Struct(INNER)),
        Field("v", "V", Kind::Value(INNER)),
        Field("l", "L", Kind::List(INNER)),
        Field("m", "M", NULL),
    ];

    #[test]
    fn internal_types_have_names_and_order_of_go() {
        let value =
            json::parse(br#"{"metadata":{"name":"n"},"c":1,"l":[{"c":2}],"m":{"x":"y"}}"#).unwrap().value;
        assert_eq!(
            Internal(Some(&value), OUTER).error_text(),
            r#"{"name":"n","C":1,"B":null,"V":{"C":0},"L":[{"C":2}],"M":{"x":"y"}}"#
        );
    }
}
