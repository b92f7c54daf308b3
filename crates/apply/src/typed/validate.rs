//! Validates that a value has the form of its type.

use super::{Atom, Fields, List, Scalar, Type, items};
use crate::DEPTH_MAX;
use crate::fieldset::PathElement;
use crate::managed::without_managed_fields;
use crate::patch::go_text::{go_syntax, go_text};
use pintle_meta::field::{ERROR_BYTES_MAX, ERRORS_MAX};
use pintle_schema::ListKind;
use pintle_value::{Map, Value};
use std::fmt;

/// Whether items of sets and keyed lists may repeat. Live objects may contain repetitions that no apply may introduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Repeated items are allowed.
    Allowed,
    /// Repeated items are refused.
    Refused,
}

/// The errors of a value, each with its path.
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

/// A value that contains, or is, one that Go can hold but JSON cannot express, as Go prints it.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreign {
    /// Whether the value is a map, a list or something else.
    pub form: Form,
    /// The value's type (`%T`).
    pub go_type: String,
    /// The value in Go's syntax (`%#v`).
    pub go_syntax: String,
    /// The value as text (`%v`).
    pub go_text: String,
    /// Of a map, the members that are scalars of JSON. An item of a list may be named by them.
    pub members: Map,
}

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Fields or keys with values.
    Map,
    /// Items.
    List,
    /// Anything else.
    Scalar,
}

/// The error for a value that JSON cannot express, which no type accepts. `values` are the values on the path to it: the
/// whole document first, the value itself last. The first that is not of its type is reported.
pub fn refuse_foreign(values: &[Foreign], path: &[PathElement], ty: Type<'_>) -> ValidationErrors {
    let mut ty = ty;
    let mut printed = Vec::new();
    let mut elements = path.iter();
    let mut message = "field not declared in schema".to_string();
    for (at, value) in values.iter().enumerate() {
        let atom = ty.atom(None);
        let next = match (value.form, &atom, elements.as_slice().first()) {
            (Form::Map, Atom::Map(fields), Some(element @ PathElement::Field(name))) => {
                Some((element.to_string(), fields.field(name)))
            }
            (Form::List, Atom::List(list), Some(element)) => {
                let item = values.get(at.saturating_add(1));
                Some((list_element(list, element, item), Some(list.item)))
            }
            _ => None,
        };
        let Some((element, below)) = next else {
            message = mismatch(value, &atom);
            break;
        };
        elements.next();
        printed.push(element);
        let Some(below) = below else { break };
        ty = below;
    }
    ValidationErrors(vec![(printed.concat(), message)])
}

fn list_element(list: &List<'_>, element: &PathElement, item: Option<&Foreign>) -> String {
    match (list.kind, item) {
        // Go's library cannot print such a value in a path.
        (ListKind::Set, _) => "[={{undefined}}]".to_string(),
        (ListKind::Map(keys), Some(item)) => {
            let named = keys.iter().map(|key| Some((key.clone(), item.members.get(key)?.clone())));
            named
                .collect::<Option<_>>()
                .map_or_else(|| element.to_string(), |key| PathElement::key(key).to_string())
        }
        _ => element.to_string(),
    }
}

fn mismatch(value: &Foreign, expected: &Atom<'_>) -> String {
    let Foreign { go_type, go_syntax, go_text, .. } = value;
    match expected {
        Atom::Scalar(Scalar::Numeric) => format!("expected numeric (int or float), got {go_type}"),
        Atom::Scalar(Scalar::String) => {
            format!("expected string, got &value.valueUnstructured{{Value:{go_syntax}}}")
        }
        Atom::Scalar(Scalar::Boolean) => format!("expected boolean, got &{{{go_text}}}"),
        Atom::Scalar(Scalar::Any) => format!("expected any scalar, got &{{{go_text}}}"),
        Atom::List(_) => format!("expected list, got &{{{go_text}}}"),
        Atom::Map(_) => format!("expected map, got &{{{go_text}}}"),
    }
}

/// Checks a value against its type.
pub fn validate(value: &Value, ty: Type<'_>, duplicates: Duplicates) -> Result<(), ValidationErrors> {
    // Nearly all values are valid, and finding that out needs no paths.
    if fits(value, ty, duplicates, 0) {
        return Ok(());
    }
    let mut walk = Walk { duplicates, path: Vec::new(), errors: ValidationErrors::default(), bytes: 0 };
    walk.value(value, ty);
    if walk.errors.0.is_empty() { Ok(()) } else { Err(walk.errors) }
}

/// Checks an object against its type as if it had no `metadata.managedFields`.
pub fn validate_unmanaged(
    object: &Value,
    ty: Type<'_>,
    duplicates: Duplicates,
) -> Result<(), ValidationErrors> {
    let (Value::Object(map), Atom::Map(fields)) = (object, ty.atom(Some(object))) else {
        return validate(object, ty, duplicates);
    };
    let mut types = fields.ascending();
    let is_valid = map.iter().all(|(key, member)| {
        let Some(ty) = types(key) else { return false };
        match (key.as_str(), member, ty.atom(Some(member))) {
            ("metadata", Value::Object(metadata), Atom::Map(fields)) => {
                let mut types = fields.ascending();
                metadata.iter().all(|(key, member)| {
                    key == "managedFields" || types(key).is_some_and(|ty| fits(member, ty, duplicates, 2))
                })
            }
            _ => fits(member, ty, duplicates, 1),
        }
    });
    if is_valid { Ok(()) } else { validate(&without_managed_fields(object), ty, duplicates) }
}

/// Returns whether a value has the form of its type. `depth` is the number of its ancestors.
fn fits(value: &Value, ty: Type<'_>, duplicates: Duplicates, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    let below = depth.saturating_add(1);
    match (ty.atom(Some(value)), value) {
        (Atom::Scalar(scalar), value) => scalar_fits(scalar, value),
        (Atom::List(_) | Atom::Map(_), Value::Null) => true,
        (Atom::List(list), Value::Array(items)) => {
            let are_found = list.is_atomic() || has_elements(&list, items, duplicates);
            are_found && items.iter().all(|item| fits(item, list.item, duplicates, below))
        }
        (Atom::Map(fields), Value::Object(map)) => {
            let mut types = fields.ascending();
            map.iter().all(|(key, member)| types(key).is_some_and(|ty| fits(member, ty, duplicates, below)))
        }
        (Atom::List(_) | Atom::Map(_), _) => false,
    }
}

/// Returns whether all items of a set or keyed list have a path element, and whether these differ where they must.
fn has_elements(list: &List<'_>, items: &[Value], duplicates: Duplicates) -> bool {
    let may_repeat = duplicates == Duplicates::Allowed || items.len() < 2;
    items.iter().all(|item| items::has_element(list, item))
        && (may_repeat || items::sorted(list, items).is_sorted_by(|a, b| a.0 < b.0))
}

struct Walk {
    duplicates: Duplicates,
    path: Vec<PathElement>,
    errors: ValidationErrors,
    /// The size of all errors.
    bytes: usize,
}

impl Walk {
    /// Adds an error, unless there are enough: each repeats the keys on its path.
    fn error(&mut self, message: String) {
        if self.is_full() {
            return;
        }
        let path: String = self.path.iter().map(ToString::to_string).collect();
        self.bytes = self.bytes.saturating_add(path.len()).saturating_add(message.len());
        self.errors.0.push((path, message));
    }

    fn is_full(&self) -> bool {
        self.bytes > ERROR_BYTES_MAX || self.errors.0.len() >= ERRORS_MAX
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

fn scalar_fits(scalar: Scalar, value: &Value) -> bool {
    match (scalar, value) {
        (_, Value::Null) => true,
        (Scalar::Numeric, value) => matches!(value, Value::Int(_) | Value::Float(_)),
        (Scalar::String, value) => matches!(value, Value::String(_)),
        (Scalar::Boolean, value) => matches!(value, Value::Bool(_)),
        (Scalar::Any, value) => !matches!(value, Value::Array(_) | Value::Object(_)),
    }
}

fn scalar_error(scalar: Scalar, value: &Value) -> Option<String> {
    if scalar_fits(scalar, value) {
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
