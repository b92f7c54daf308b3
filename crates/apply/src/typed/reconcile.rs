//! Bringing a set in line with a schema that has changed since: what was owned field by field and is now a
//! whole is owned as a whole.

use super::{Atom, Type};
use crate::fieldset::{Entry, PathElement, Set};

/// The set as the schema now has it; none if nothing changes. What became granular stays as it was.
pub fn reconcile(set: &Set, ty: Type<'_>) -> Option<Set> {
    let atom = ty.atom(None);
    let member_type = |element: &PathElement| match (&atom, element) {
        (Atom::Map(fields), _) if fields.is_deduced() => None,
        (Atom::Map(fields), PathElement::Field(name)) => fields.field(name),
        (Atom::Map(fields), _) => fields.others,
        (Atom::List(list), _) => Some(list.item),
        (Atom::Scalar(_), _) => None,
    };
    let changes: Vec<Option<Entry>> =
        set.entries().iter().map(|entry| entry_as_now(entry, member_type(&entry.element)?)).collect();
    if changes.iter().all(Option::is_none) {
        return None;
    }
    let entries = set.entries().iter().zip(changes);
    Some(Set::from_entries(entries.map(|(old, new)| new.unwrap_or_else(|| old.clone())).collect()))
}

fn entry_as_now(entry: &Entry, ty: Type<'_>) -> Option<Entry> {
    if entry.below.is_empty() {
        return None;
    }
    let whole = match ty.atom(None) {
        Atom::List(list) => list.is_atomic(),
        Atom::Map(fields) => fields.atomic,
        Atom::Scalar(_) => false,
    };
    if whole {
        return Some(Entry { element: entry.element.clone(), member: true, below: Set::new() });
    }
    let below = reconcile(&entry.below, ty)?;
    Some(Entry { element: entry.element.clone(), member: entry.member, below })
}
