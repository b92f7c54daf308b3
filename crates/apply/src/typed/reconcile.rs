//! Adapts a set to a changed schema: fields that are now part of an atomic value are owned as a whole.

use super::{Atom, Type};
use crate::fieldset::{Entry, PathElement, Set};

/// The adapted set; `None` if nothing changes. Fields that became granular are unchanged.
pub fn reconcile(set: &Set, ty: Type<'_>) -> Option<Set> {
    let atom = ty.atom(None);
    let member_type = |element: &PathElement| match (&atom, element) {
        (Atom::Map(fields), _) if fields.is_untyped() => None,
        (Atom::Map(fields), PathElement::Field(name)) => fields.field(name),
        (Atom::Map(fields), _) => fields.others,
        (Atom::List(list), _) => Some(list.item),
        (Atom::Scalar(_), _) => None,
    };
    let reconciled = |entry: &Entry| reconcile_entry(entry, member_type(&entry.element)?);
    let first = set.entries().iter().position(|entry| reconciled(entry).is_some())?;
    let (same, rest) = set.entries().split_at(first);
    let rest = rest.iter().map(|entry| reconciled(entry).unwrap_or_else(|| entry.clone()));
    Some(Set::from_entries(same.iter().cloned().chain(rest).collect()))
}

/// The entry under the current type; `None` if it is unchanged. A value that became atomic is owned as a whole.
fn reconcile_entry(entry: &Entry, ty: Type<'_>) -> Option<Entry> {
    if entry.below.is_empty() {
        return None;
    }
    let whole = match ty.atom(None) {
        Atom::List(list) => list.is_atomic(),
        // Sets of maps without types are not adapted.
        Atom::Map(fields) => fields.atomic && !fields.is_untyped(),
        Atom::Scalar(_) => false,
    };
    if whole {
        return Some(Entry { element: entry.element.clone(), member: true, below: Set::new() });
    }
    let below = reconcile(&entry.below, ty)?;
    Some(Entry { element: entry.element.clone(), member: entry.member, below })
}
