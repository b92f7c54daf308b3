//! One element of a path, and the order of elements.

use pintle_meta::field::quoted;
use pintle_value::{Str, Value};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// One element of a path. The order is that of structured-merge-diff: fields, keys, values, indices.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a struct or a key of a map (`f:`).
    Field(Str),
    /// The item of a list that has these fields, sorted by name (`k:`).
    Key(Arc<[(Str, Value)]>),
    /// The item of a set (`v:`).
    Value(Value),
    /// The item at this position (`i:`).
    Index(i64),
}

impl PathElement {
    /// The item that has these key fields, in any order.
    pub fn key(mut fields: Vec<(Str, Value)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        PathElement::Key(fields.into())
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a.as_str().cmp(b.as_str()),
            (PathElement::Key(a), PathElement::Key(b)) => compare_members(
                a.iter().map(|(name, value)| (name, value)),
                b.iter().map(|(name, value)| (name, value)),
            ),
            (PathElement::Value(a), PathElement::Value(b)) => compare(a, b),
            (PathElement::Index(a), PathElement::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

/// The order of values: numbers by value (integers and floats alike), then text, booleans, lists, objects, null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => by_size(*a, *b),
        (Value::Float(a), Value::Int(b)) => by_size(*a, *b as f64),
        (Value::Int(a), Value::Float(b)) => by_size(*a as f64, *b),
        (Value::String(a), Value::String(b)) => a.as_str().cmp(b.as_str()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let differing = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|o| o.is_ne());
            differing.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => compare_members(a.iter(), b.iter()),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn by_size(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::Float(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) | Value::Raw(_) => 4,
        Value::Null => 5,
    }
}

fn compare_members<'v>(
    mut a: impl Iterator<Item = (&'v Str, &'v Value)>,
    mut b: impl Iterator<Item = (&'v Str, &'v Value)>,
) -> Ordering {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((a_name, a)), Some((b_name, b))) => {
                let order = a_name.as_str().cmp(b_name.as_str()).then_with(|| compare(a, b));
                if order.is_ne() {
                    return order;
                }
            }
        }
    }
}

impl fmt::Display for PathElement {
    /// `.name`, `[name="c"]`, `[="v"]` or `[3]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                f.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", display_value(value))?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={}]", display_value(value)),
            PathElement::Index(at) => write!(f, "[{at}]"),
        }
    }
}

fn display_value(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::String(s) => quoted(s),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(display_value).collect::<Vec<_>>().join(","))
        }
        Value::Object(map) => map.iter().map(|(k, v)| format!("{k}={}", display_value(v))).collect(),
        scalar => crate::patch::go_text::go_text(scalar),
    }
}
