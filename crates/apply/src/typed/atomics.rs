//! Finds lists and objects that can only be replaced as a whole.

use super::{Atom, Type};
use crate::DEPTH_MAX;
use crate::fieldset::PathElement;
use pintle_value::Value;

/// The paths of lists and objects within a value that its type treats as atomic. Values below members of maps are not
/// examined.
pub fn atomics(value: &Value, ty: Type<'_>) -> Vec<String> {
    let mut found = Vec::new();
    find(value, ty, &mut Vec::new(), &mut found);
    found
}

fn find(value: &Value, ty: Type<'_>, path: &mut Vec<PathElement>, found: &mut Vec<String>) {
    if path.len() >= DEPTH_MAX {
        return;
    }
    let text = |path: &[PathElement]| path.iter().map(ToString::to_string).collect::<String>();
    match (value, ty.atom(Some(value))) {
        (Value::Object(map), Atom::Map(fields)) => {
            if fields.atomic {
                found.push(text(path));
            }
            for (key, value) in map.iter().filter(|(key, _)| fields.is_known(key)) {
                let Some(ty) = fields.field(key) else { continue };
                path.push(PathElement::Field(key.clone()));
                find(value, ty, path, found);
                path.pop();
            }
        }
        (Value::Array(items), Atom::List(list)) => {
            if list.is_atomic() {
                found.push(text(path));
            }
            for (at, item) in items.iter().enumerate() {
                path.push(PathElement::Index(at as i64));
                find(item, list.item, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}
