//! Reduces a value to the parts that matter for removing fields from it.

use super::{Atom, Fields, List, Type, items};
use crate::fieldset::{Entry, PathElement, Set};
use pintle_value::{Map, Value};

/// `value` without the list items that are unaffected when the fields in `applied` but not in `owned` are removed:
/// items of which nothing was applied, or everything applied is owned. One of them always stays, because an empty list
/// differs from a list with items.
pub fn narrow(value: &Value, applied: &Set, owned: &Set, ty: Type<'_>) -> Value {
    match (ty.atom(Some(value)), value) {
        (Atom::List(list), Value::Array(items)) if !list.is_atomic() => in_list(&list, items, applied, owned),
        (Atom::Map(fields), Value::Object(map)) if !fields.atomic => in_map(&fields, map, applied, owned),
        _ => value.clone(),
    }
}

fn in_list(list: &List<'_>, items: &[Value], applied: &Set, owned: &Set) -> Value {
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        let element = items::element(list, item).ok();
        let [applied, owned] = [applied, owned].map(|set| element.as_ref().and_then(|e| set.find(e)));
        match applied {
            Some(entry) if !is_fully_owned(entry, owned) => {
                let nothing = Set::new();
                let owned = owned.map_or(&nothing, |entry| &entry.below);
                kept.push(narrow(item, &entry.below, owned, list.item));
            }
            _ => {}
        }
    }
    if kept.is_empty() {
        kept.extend(items.first().cloned());
    }
    Value::Array(kept)
}

fn in_map(fields: &Fields<'_>, map: &Map, applied: &Set, owned: &Set) -> Value {
    let nothing = Set::new();
    let members = map.iter().map(|(key, member)| {
        let Some(ty) = fields.field(key) else { return (key.clone(), member.clone()) };
        let element = PathElement::Field(key.clone());
        let [applied, owned] = [applied, owned].map(|set| set.find(&element).map_or(&nothing, |e| &e.below));
        (key.clone(), narrow(member, applied, owned, ty))
    });
    Value::Object(members.collect())
}

/// Whether all applied fields are owned, and none is below a field that was not applied.
fn is_fully_owned(applied: &Entry, owned: Option<&Entry>) -> bool {
    let Some(owned) = owned else { return false };
    is_closed(applied) && owned.member && applied.below.is_within(&owned.below)
}

fn is_closed(entry: &Entry) -> bool {
    entry.member && entry.below.entries().iter().all(is_closed)
}
