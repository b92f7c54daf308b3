//! How kube-apiserver shows values of its internal types in errors: with the names and the order of Go's
//! fields, which are not those of the API.

use pintle_meta::field::Shown;
use pintle_value::{Value, json};

/// One field of an internal type.
pub(crate) struct Field(pub(crate) &'static str, pub(crate) &'static str, pub(crate) Kind);

/// What a field holds.
pub(crate) enum Kind {
    /// A value that is written as the API has it; the text stands for one that is not there.
    Plain(&'static str),
    /// A struct.
    Struct(&'static [Field]),
    /// A list of structs.
    List(&'static [Field]),
}

/// A pointer, a list or a map: `null` where there is none.
pub(crate) const NULL: Kind = Kind::Plain("null");
/// A text.
pub(crate) const TEXT: Kind = Kind::Plain("\"\"");

/// A value of an internal type.
pub(crate) struct Internal<'a>(pub(crate) Option<&'a Value>, pub(crate) &'static [Field]);

impl Shown for Internal<'_> {
    fn shown(&self) -> String {
        self.0.map_or_else(|| "null".to_string(), |value| structure(value, self.1))
    }
}

/// A list of an internal type.
pub(crate) struct InternalList<'a>(pub(crate) &'a [Value], pub(crate) &'static [Field]);

impl Shown for InternalList<'_> {
    fn shown(&self) -> String {
        if self.0.is_empty() { "null".to_string() } else { items(self.0, self.1) }
    }
}

fn structure(value: &Value, fields: &[Field]) -> String {
    let member = |Field(key, name, kind): &Field| format!("\"{name}\":{}", field(value.get(key), kind));
    format!("{{{}}}", fields.iter().map(member).collect::<Vec<_>>().join(","))
}

fn items(values: &[Value], fields: &[Field]) -> String {
    format!("[{}]", values.iter().map(|v| structure(v, fields)).collect::<Vec<_>>().join(","))
}

fn field(value: Option<&Value>, kind: &Kind) -> String {
    match (kind, value) {
        (Kind::Plain(zero), None | Some(Value::Null)) => (*zero).to_string(),
        (Kind::Plain(_), Some(value)) => plain(value),
        (Kind::Struct(_) | Kind::List(_), None | Some(Value::Null)) => "null".to_string(),
        (Kind::Struct(fields), Some(value)) => structure(value, fields),
        (Kind::List(fields), Some(value)) => items(value.as_array().unwrap_or(&[]), fields),
    }
}

fn plain(value: &Value) -> String {
    let mut out = Vec::new();
    json::print(value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
