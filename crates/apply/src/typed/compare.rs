//! Compares two values: fields added, removed and modified.

use super::{Atom, Fields, List, Type, filled_map, forms_differ, items, list_items, zip};
use crate::fieldset::{self, Entry, Filter, PathElement, Set};
use crate::managed::without_managed_fields;
use pintle_value::Value;

const MANAGED_FIELDS: &str = "managedFields";

/// The fields in which two values differ; each is in one of the three sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Only the old value has them.
    pub removed: Set,
    /// Both values have them, with different content.
    pub modified: Set,
    /// Only the new value has them.
    pub added: Set,
}

impl Comparison {
    /// Whether the values are equal.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Removes the fields that a filter excludes.
    pub fn filtered(self, filter: Option<&Filter>) -> Self {
        match filter {
            None => self,
            Some(filter) => Comparison {
                removed: filter.apply(self.removed),
                modified: filter.apply(self.modified),
                added: filter.apply(self.added),
            },
        }
    }

    fn union(self, other: Comparison) -> Self {
        Comparison {
            removed: self.removed.union(other.removed),
            modified: self.modified.union(other.modified),
            added: self.added.union(other.added),
        }
    }
}

/// Compares an old and a new value of one type.
pub fn compare(old: &Value, new: &Value, ty: Type<'_>) -> Comparison {
    // Most writes that reach this point change nothing, and checking equality is cheaper than comparing.
    if old == new {
        return Comparison::default();
    }
    walk(Some(old), Some(new), ty).below
}

/// Compares two objects as if neither had `metadata.managedFields`.
pub fn compare_unmanaged(old: &Value, new: &Value, ty: Type<'_>) -> Comparison {
    let granular = |ty: Type<'_>| matches!(ty.atom(None), Atom::Map(fields) if !fields.atomic);
    let has_metadata = |object: &Value| {
        let metadata = object.get("metadata").and_then(Value::as_object);
        metadata.is_some_and(|metadata| metadata.keys().any(|key| key != MANAGED_FIELDS))
    };
    match ty.atom(None) {
        Atom::Map(fields)
            if !fields.atomic
                && fields.field("metadata").is_some_and(granular)
                && has_metadata(old)
                && has_metadata(new) =>
        {
            members(&fields, Some(old), Some(new), |key, old, new, ty| match (key, ty.atom(None)) {
                ("metadata", Atom::Map(fields)) => {
                    let below = members(&fields, old, new, |key, old, new, ty| match key {
                        MANAGED_FIELDS => Difference::default(),
                        _ => walk(old, new, ty),
                    });
                    Difference { below, ..Difference::default() }
                }
                _ => walk(old, new, ty),
            })
        }
        // Metadata without another member is compared as a whole.
        _ => compare(&without_managed_fields(old), &without_managed_fields(new), ty),
    }
}

/// The changes of a value itself and below it. Repeated items can be both removed and added.
#[derive(Default)]
struct Difference {
    removed: bool,
    modified: bool,
    added: bool,
    below: Comparison,
}

impl Difference {
    fn union(self, other: Difference) -> Self {
        Difference {
            removed: self.removed | other.removed,
            modified: self.modified | other.modified,
            added: self.added | other.added,
            below: self.below.union(other.below),
        }
    }

    /// Added, removed or neither, by which side has the value.
    fn of_presence(old: Option<&Value>, new: Option<&Value>) -> Self {
        Difference { removed: new.is_none(), added: old.is_none(), ..Difference::default() }
    }
}

/// The added, changed and removed fields that were found at the current level.
#[derive(Default)]
struct Collector {
    removed: Vec<Entry>,
    modified: Vec<Entry>,
    added: Vec<Entry>,
}

impl Collector {
    fn push(&mut self, element: &PathElement, difference: Difference) {
        let Difference { removed, modified, added, below } = difference;
        for (entries, member, below) in [
            (&mut self.removed, removed, below.removed),
            (&mut self.modified, modified, below.modified),
            (&mut self.added, added, below.added),
        ] {
            if member || !below.is_empty() {
                entries.push(Entry { element: element.clone(), member, below });
            }
        }
    }

    fn finish(self) -> Comparison {
        Comparison {
            removed: Set::from_entries(self.removed),
            modified: Set::from_entries(self.modified),
            added: Set::from_entries(self.added),
        }
    }
}

fn walk(old: Option<&Value>, new: Option<&Value>, ty: Type<'_>) -> Difference {
    let new_atom = match (old, new) {
        (Some(_), None) => return by_atom(&ty.atom(old), old, new),
        _ => ty.atom(new),
    };
    if old.is_some() {
        let old_atom = ty.atom(old);
        if forms_differ(&old_atom, &new_atom) {
            return by_atom(&old_atom, old, new).union(by_atom(&new_atom, old, new));
        }
    }
    by_atom(&new_atom, old, new)
}

fn by_atom(atom: &Atom<'_>, old: Option<&Value>, new: Option<&Value>) -> Difference {
    // If both sides are empty, the value is a leaf, so that null and empty are distinguished.
    let below = match atom {
        Atom::Scalar(_) => return leaf(old, new),
        Atom::List(list) => {
            let (old_items, new_items) = (list_items(old), list_items(new));
            if list.is_atomic() || (old_items.is_empty() && new_items.is_empty()) {
                return leaf(old, new);
            }
            if old_items == new_items {
                return Difference::default();
            }
            lists(list, old_items, new_items)
        }
        Atom::Map(fields) => {
            let (old_map, new_map) = (filled_map(old), filled_map(new));
            if fields.atomic || (old_map.is_none() && new_map.is_none()) {
                return leaf(old, new);
            }
            maps(fields, old_map, new_map)
        }
    };
    Difference { below, ..Difference::of_presence(old, new) }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Difference {
    let modified = matches!((old, new), (Some(old), Some(new)) if fieldset::compare(old, new).is_ne());
    Difference { modified, ..Difference::of_presence(old, new) }
}

fn maps(fields: &Fields<'_>, old: Option<&Value>, new: Option<&Value>) -> Comparison {
    members(fields, old, new, |_, old, new, ty| walk(old, new, ty))
}

/// Compares the members of two objects, each with `compare`.
fn members<'s>(
    fields: &Fields<'s>,
    old: Option<&Value>,
    new: Option<&Value>,
    compare: impl Fn(&str, Option<&Value>, Option<&Value>, Type<'s>) -> Difference,
) -> Comparison {
    let mut found = Collector::default();
    for (key, old, new) in zip(old, new) {
        // Most members are equal, and finding that out is cheaper than comparing by type.
        if old == new {
            continue;
        }
        if let Some(ty) = fields.field(key) {
            found.push(&PathElement::Field(key.clone()), compare(key, old, new, ty));
        }
    }
    found.finish()
}

type Item<'v> = (PathElement, &'v Value);

/// Walks the items of both lists in the order of their elements. Items that repeat are compared together.
fn lists(list: &List<'_>, old: &[Value], new: &[Value]) -> Comparison {
    let (old, new) = (items::sorted(list, old), items::sorted(list, new));
    let mut old = old.chunk_by(|a, b| a.0 == b.0).peekable();
    let mut new = new.chunk_by(|a, b| a.0 == b.0).peekable();
    let mut found = Collector::default();
    loop {
        let element = match (old.peek().and_then(|c| c.first()), new.peek().and_then(|c| c.first())) {
            (Some((a, _)), Some((b, _))) => a.min(b).clone(),
            (Some((only, _)), None) | (None, Some((only, _))) => only.clone(),
            (None, None) => return found.finish(),
        };
        let of_element = |chunk: &&[Item<'_>]| chunk.first().is_some_and(|(e, _)| *e == element);
        let (before, after) = (old.next_if(of_element), new.next_if(of_element));
        let difference = same_element(list, before.unwrap_or_default(), after.unwrap_or_default());
        found.push(&element, difference);
    }
}

fn same_element(list: &List<'_>, old: &[Item<'_>], new: &[Item<'_>]) -> Difference {
    let one = |items: &[Item<'_>], old: bool| match items.first() {
        Some((_, item)) if old => walk(Some(item), None, list.item),
        Some((_, item)) => walk(None, Some(item), list.item),
        None => Difference::default(),
    };
    match (old, new) {
        ([(_, a)], [(_, b)]) if a == b => Difference::default(),
        ([] | [_], [] | [_]) => walk(old.first().map(|(_, v)| *v), new.first().map(|(_, v)| *v), list.item),
        ([_, _, ..], [_, _, ..]) => {
            let same = old.len() == new.len()
                && old.iter().zip(new).all(|((_, a), (_, b))| fieldset::compare(a, b).is_eq());
            Difference { modified: !same, ..Difference::default() }
        }
        ([_, _, ..], _) => Difference { removed: true, ..one(new, false) },
        _ => Difference { added: true, ..one(old, true) },
    }
}
