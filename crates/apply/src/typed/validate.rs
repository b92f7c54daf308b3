//! Validates that a value has the form of its type.

use super::{Atom, Fields, List, Scalar, Type, items};
use crate::DEPTH_MAX;
use crate::fieldset::PathElement;
use crate::patch::go_text::{go_syntax, go_text};
use pintle_schema::ListKind;
use pintle_value::Value;
use std::fmt;

/// Whether items of sets and keyed lists may repeat. Live objects may contain repetitions that no apply may introduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Repeated items are allowed.
    Allowed,
    /// Repeated items are refused.
    Refused,
}

/// The errors with their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationErrors(Vec<(String, String)>);

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |(path, message): &(String, String)| {
            if path.is_empty() { message.clone() } else { format!("{path}: {message}") }
        };
        match self.0.as_slice() {
            [only] => f.write_str(&one(only)),
            many => {
                f.write_str("errors:")?;
                many.iter().try_for_each(|error| write!(f, "\n  {}", one(error)))
            }
        }
    }
}

/// A value that Go can hold but JSON cannot express, as Go prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Its type.
    pub go_type: &'static str,
    /// The value in Go's syntax.
    pub go_syntax: String,
}

/// The errors for a value that JSON cannot express: no type at `path` accepts it.
pub fn refuse_foreign(foreign: &Foreign, path: &[PathElement], ty: Type<'_>) -> ValidationErrors {
    let found = path.iter().try_fold(ty, |ty, element| match (element, ty.atom(None)) {
        (PathElement::Field(name), Atom::Map(fields)) => fields.field(name),
        (PathElement::Index(_), Atom::List(list)) => Some(list.item),
        _ => None,
    });
    let Foreign { go_type, go_syntax } = foreign;
    let message = match found.map(|ty| ty.atom(None)) {
        None => "field not declared in schema".to_string(),
        Some(Atom::Scalar(Scalar::Numeric)) => format!("expected numeric (int or float), got {go_type}"),
        Some(Atom::Scalar(Scalar::String)) => {
            format!("expected string, got &value.valueUnstructured{{Value:{go_syntax}}}")
        }
        Some(Atom::Scalar(Scalar::Boolean)) => format!("expected boolean, got &{{{go_syntax}}}"),
        Some(Atom::Scalar(Scalar::Any)) => format!("expected any scalar, got &{{{go_syntax}}}"),
        Some(Atom::List(_)) => format!("expected list, got &{{{go_syntax}}}"),
        Some(Atom::Map(_)) => format!("expected map, got &{{{go_syntax}}}"),
    };
    let path = path.iter().map(ToString::to_string).collect();
    ValidationErrors(vec![(path, message)])
}

/// Checks a value against its type.
pub fn validate(value: &Value, ty: Type<'_>, duplicates: Duplicates) -> Result<(), ValidationErrors> {
    let mut walk = Walk { duplicates, path: Vec::new(), errors: ValidationErrors::default() };
    walk.value(value, ty);
    if walk.errors.0.is_empty() { Ok(()) } else { Err(walk.errors) }
}

struct Walk {
    duplicates: Duplicates,
    path: Vec<PathElement>,
    errors: ValidationErrors,
}

impl Walk {
    fn error(&mut self, message: String) {
        let path = self.path.iter().map(ToString::to_string).collect();
        self.errors.0.push((path, message));
    }

    fn below(&mut self, element: PathElement, value: &Value, ty: Type<'_>) {
        if self.path.len() >= DEPTH_MAX {
            return self.error(format!("exceeded max depth of {DEPTH_MAX}"));
        }
        self.path.push(element);
        self.value(value, ty);
        self.path.pop();
    }

    fn value(&mut self, value: &Value, ty: Type<'_>) {
        match ty.atom(Some(value)) {
            Atom::Scalar(scalar) => {
                if let Some(message) = scalar_error(scalar, value) {
                    self.error(message);
                }
            }
            Atom::List(list) => self.list(&list, value),
            Atom::Map(fields) => self.fields(&fields, value),
        }
    }

    fn list(&mut self, list: &List<'_>, value: &Value) {
        let list_items = match value {
            Value::Array(list_items) => list_items,
            Value::Null => return,
            other => return self.error(format!("expected list, got &{{{}}}", go_text(other))),
        };
        let mut seen = std::collections::BTreeSet::new();
        for (at, item) in list_items.iter().enumerate() {
            if *list.kind == ListKind::Atomic {
                self.below(PathElement::Index(at as i64), item, list.item);
                continue;
            }
            let element = match items::element(list, item) {
                Ok(element) => element,
                Err(why) => return self.error(format!("element {at}: {why}")),
            };
            if self.duplicates == Duplicates::Refused && !seen.insert(element.clone()) {
                self.error(format!("duplicate entries for key {element}"));
            }
            self.below(element, item, list.item);
        }
    }

    fn fields(&mut self, fields: &Fields<'_>, value: &Value) {
        let map = match value {
            Value::Object(map) => map,
            Value::Null => return,
            other => return self.error(format!("expected map, got &{{{}}}", go_text(other))),
        };
        for (key, member) in map.iter() {
            let element = PathElement::Field(key.clone());
            match fields.field(key) {
                Some(ty) => self.below(element, member, ty),
                None => {
                    self.path.push(element);
                    self.error("field not declared in schema".into());
                    self.path.pop();
                    return;
                }
            }
        }
    }
}

fn scalar_error(scalar: Scalar, value: &Value) -> Option<String> {
    let fits = match (scalar, value) {
        (_, Value::Null) => true,
        (Scalar::Numeric, value) => matches!(value, Value::Int(_) | Value::Float(_)),
        (Scalar::String, value) => matches!(value, Value::String(_)),
        (Scalar::Boolean, value) => matches!(value, Value::Bool(_)),
        (Scalar::Any, value) => !matches!(value, Value::Array(_) | Value::Object(_)),
    };
    if fits {
        return None;
    }
    Some(match scalar {
        Scalar::Numeric => format!("expected numeric (int or float), got {}", value.go_type()),
        Scalar::String => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))
        }
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", go_text(value)),
        Scalar::Any => format!("expected any scalar, got &{{{}}}", go_text(value)),
    })
}
