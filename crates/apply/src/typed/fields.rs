//! The fields that a value sets.

use super::{Atom, Fields, List, Type, items};
use crate::fieldset::{Entry, PathElement, Set};
use pintle_value::Value;

/// All fields that `value` sets: leaves, list items, map keys, and fields set to null or empty.
pub fn field_set(value: &Value, ty: Type<'_>) -> Set {
    walk(value, ty).1
}

/// Returns whether the value itself is a field that can be owned, and the fields below it.
fn walk(value: &Value, ty: Type<'_>) -> (bool, Set) {
    match ty.atom(Some(value)) {
        Atom::Scalar(_) => (true, Set::new()),
        Atom::List(list) if list.is_atomic() => (true, Set::new()),
        Atom::List(list) => (false, of_list(&list, value)),
        Atom::Map(fields) if fields.atomic => (true, Set::new()),
        Atom::Map(fields) => (false, of_fields(&fields, value)),
    }
}

/// A repeated item is owned as a whole, because it is ambiguous which one is meant.
fn of_list(list: &List<'_>, value: &Value) -> Set {
    let found = items::sorted(list, super::list_items(Some(value)));
    let mut entries = Vec::with_capacity(found.len());
    for same in found.chunk_by(|a, b| a.0 == b.0) {
        let Some((element, first)) = same.first() else { continue };
        let below = if same.len() == 1 { walk(first, list.item).1 } else { Set::new() };
        entries.push(Entry { element: element.clone(), member: true, below });
    }
    Set::from_entries(entries)
}

fn of_fields(fields: &Fields<'_>, value: &Value) -> Set {
    let Value::Object(map) = value else { return Set::new() };
    let mut entries = Vec::with_capacity(map.len());
    entries.extend(map.iter().filter_map(|(key, member)| {
        let (owned, below) = walk(member, fields.field(key)?);
        let nothing = match member {
            Value::Null => true,
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        let member =
            owned || nothing || !fields.is_known(key) || has_item_without_key(member, fields.field(key)?);
        Some(Entry { element: PathElement::Field(key.clone()), member, below })
    }));
    Set::from_entries(entries)
}

/// Returns whether a list has an item that lost all of its fields while an object was pruned. kube-apiserver counts it as
/// an item without a key, so that the list remains as a field.
fn has_item_without_key(value: &Value, ty: Type<'_>) -> bool {
    let Atom::List(list) = ty.atom(Some(value)) else { return false };
    !list.is_atomic()
        && super::list_items(Some(value))
            .iter()
            .any(|item| item.is_null() && items::element(&list, item).is_err())
}

/// Adds every struct field above a member to the set.
pub fn with_named_fields(mut set: Set, ty: Type<'_>) -> Set {
    name_fields(&mut set, ty);
    set
}

fn name_fields(set: &mut Set, ty: Type<'_>) {
    // Without a value the type alone decides; a type that allows several forms has no named fields.
    let atom = ty.atom(None);
    for entry in set.entries_mut() {
        let below = match (&atom, &entry.element) {
            (Atom::Map(fields), PathElement::Field(name)) => {
                entry.member |= !entry.below.is_empty() && fields.is_known(name);
                fields.field(name)
            }
            (Atom::List(list), PathElement::Key(_)) => Some(list.item),
            _ => None,
        };
        if let Some(below) = below {
            name_fields(&mut entry.below, below);
        }
    }
}
