//! Removes fields from a value.

use super::{Atom, Fields, List, Type, items};
use crate::fieldset::{PathElement, Set};
use pintle_value::{Map, Value};

/// `value` without the fields in `gone` and everything below them. A value that loses everything becomes `null`.
pub fn remove(value: &Value, gone: &Set, ty: Type<'_>) -> Value {
    match ty.atom(Some(value)) {
        Atom::Scalar(_) => value.clone(),
        Atom::List(list) if list.is_atomic() => Value::Null,
        Atom::List(list) => from_list(&list, value, gone),
        Atom::Map(fields) if fields.atomic => Value::Null,
        Atom::Map(fields) => from_map(&fields, value, gone),
    }
}

fn from_list(list: &List<'_>, value: &Value, gone: &Set) -> Value {
    let kept: Vec<Value> = super::list_items(Some(value))
        .iter()
        .filter_map(|item| {
            let entry = items::element(list, item).ok().and_then(|element| gone.find(&element));
            match entry {
                None => Some(item.clone()),
                Some(entry) if entry.member => None,
                Some(entry) => Some(remove(item, &entry.below, list.item)),
            }
        })
        .collect();
    if kept.is_empty() { Value::Null } else { Value::Array(kept) }
}

fn from_map(fields: &Fields<'_>, value: &Value, gone: &Set) -> Value {
    let Value::Object(map) = value else { return Value::Null };
    let mut kept = Vec::with_capacity(map.len());
    kept.extend(map.iter().filter_map(|(key, member)| {
        let kept = match gone.find(&PathElement::Field(key.clone())) {
            None => member.clone(),
            Some(entry) if entry.member => return None,
            Some(entry) => remove(member, &entry.below, fields.field(key)?),
        };
        Some((key.clone(), kept))
    }));
    if kept.is_empty() { Value::Null } else { Value::Object(Map::from_entries(kept).0) }
}
