//! Sets of field paths, which a manager owns. A set is a tree of sorted vectors, so that all set operations walk two
//! trees in step.

mod codec;
mod element;
mod filter;
mod shared_path;

pub use codec::FieldsError;
pub use element::PathElement;
pub(crate) use element::compare;
pub use filter::Filter;
pub use shared_path::SharedPath;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A path from the object's root.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<PathElement>);

impl FieldPath {
    /// The path of these field names.
    pub fn of(names: &[&str]) -> Self {
        FieldPath(names.iter().map(|name| PathElement::Field((*name).into())).collect())
    }
}

impl fmt::Display for FieldPath {
    /// Prints the path as `.spec.containers[name="c"].image`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

/// A set of paths. Entries are sorted by element; each is a member, or has members below it, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    entries: Vec<Entry>,
}

/// One path element of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) element: PathElement,
    /// Whether the path that ends here is in the set.
    pub(crate) member: bool,
    /// The paths that continue from here.
    pub(crate) below: Set,
}

impl Entry {
    /// An entry, unless it is neither a member nor has members below it.
    fn needed(element: &PathElement, member: bool, below: Set) -> Option<Entry> {
        (member || !below.is_empty()).then(|| Entry { element: element.clone(), member, below })
    }

    fn is_needed(&self) -> bool {
        self.member || !self.below.is_empty()
    }
}

impl Set {
    /// The empty set.
    pub const fn new() -> Self {
        Set { entries: Vec::new() }
    }

    /// The set of these paths of field names.
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Set::new();
        for path in paths {
            set.insert(&FieldPath::of(path));
        }
        set
    }

    /// Builds a set from entries in any order; entries with equal elements are united, and empty entries are dropped.
    pub(crate) fn from_entries(mut entries: Vec<Entry>) -> Self {
        entries.retain(Entry::is_needed);
        if !entries.is_sorted_by(|a, b| a.element < b.element) {
            entries.sort_by(|a, b| a.element.cmp(&b.element));
            entries.dedup_by(|later, kept| {
                let same = later.element == kept.element;
                if same {
                    kept.member |= later.member;
                    let below = std::mem::take(&mut kept.below);
                    kept.below = below.union(std::mem::take(&mut later.below));
                }
                same
            });
        }
        Set { entries }
    }

    /// The entries in order.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries, to change all but their elements.
    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    /// The first elements of all paths.
    pub(crate) fn elements(&self) -> impl Iterator<Item = &PathElement> {
        self.entries.iter().map(|entry| &entry.element)
    }

    /// The first element that `matches`: whether its path is a member, and the set below it.
    pub(crate) fn entry(&self, matches: &dyn Fn(&PathElement) -> bool) -> Option<(bool, &Set)> {
        self.entries.iter().find(|entry| matches(&entry.element)).map(|entry| (entry.member, &entry.below))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of paths.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|e| usize::from(e.member).saturating_add(e.below.len())).sum()
    }

    pub(crate) fn find(&self, element: &PathElement) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|e| e.element.cmp(element)).ok()?;
        self.entries.get(at)
    }

    /// Adds a path. The empty path (the whole object) is ignored.
    pub fn insert(&mut self, path: &FieldPath) {
        insert(self, &path.0);
    }

    /// Whether the set contains the path.
    pub fn has(&self, path: &FieldPath) -> bool {
        let Some((last, parents)) = path.0.split_last() else { return false };
        let mut set = self;
        for element in parents {
            let Some(entry) = set.find(element) else { return false };
            set = &entry.below;
        }
        set.find(last).is_some_and(|entry| entry.member)
    }

    /// The paths that are in either set.
    pub fn union(self, other: Set) -> Set {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut out = Vec::with_capacity(self.entries.len().max(other.entries.len()));
        let (mut left, mut right) =
            (self.entries.into_iter().peekable(), other.entries.into_iter().peekable());
        while let (Some(l), Some(r)) = (left.peek(), right.peek()) {
            match l.element.cmp(&r.element) {
                Ordering::Less => out.extend(left.next()),
                Ordering::Greater => out.extend(right.next()),
                Ordering::Equal => {
                    if let (Some(mut l), Some(r)) = (left.next(), right.next()) {
                        l.member |= r.member;
                        l.below = l.below.union(r.below);
                        out.push(l);
                    }
                }
            }
        }
        out.extend(left);
        out.extend(right);
        Set { entries: out }
    }

    /// The paths that are in both sets.
    pub fn intersection(&self, other: &Set) -> Set {
        let mut counterparts = other.entries.iter().peekable();
        let mut entries = Vec::new();
        for entry in &self.entries {
            while counterparts.next_if(|c| c.element < entry.element).is_some() {}
            let Some(first) = counterparts.peek() else { break };
            if first.element == entry.element {
                let (member, below) = (entry.member && first.member, entry.below.intersection(&first.below));
                entries.extend(Entry::needed(&entry.element, member, below));
            }
        }
        Set { entries }
    }

    /// Returns whether the set is a subset of the other.
    pub fn is_within(&self, other: &Set) -> bool {
        let mut counterparts = other.entries.iter().peekable();
        self.entries.iter().all(|entry| {
            while counterparts.next_if(|c| c.element < entry.element).is_some() {}
            counterparts.next_if(|c| c.element == entry.element).is_some_and(|counterpart| {
                (counterpart.member || !entry.member) && entry.below.is_within(&counterpart.below)
            })
        })
    }

    /// The members of this set that are not in the other. A member of the other does not remove what is below it.
    pub fn difference(self, other: &Set) -> Set {
        self.filtered(other, |mut entry, counterpart| {
            if let Some(counterpart) = counterpart {
                entry.member &= !counterpart.member;
                entry.below = entry.below.difference(&counterpart.below);
            }
            Some(entry)
        })
    }

    /// The members of this set that are neither in the other nor below a member of the other.
    pub fn recursive_difference(self, other: &Set) -> Set {
        self.filtered(other, |mut entry, counterpart| {
            if let Some(counterpart) = counterpart {
                if counterpart.member {
                    return None;
                }
                entry.below = entry.below.recursive_difference(&counterpart.below);
            }
            Some(entry)
        })
    }

    /// The members without members below them.
    pub fn leaves(&self) -> Set {
        let leaf = |entry: &Entry| Entry {
            element: entry.element.clone(),
            member: entry.member && entry.below.is_empty(),
            below: entry.below.leaves(),
        };
        Set::from_entries(self.entries.iter().map(leaf).collect())
    }

    /// Walks both sets in step and collects what `keep` returns for each entry and its counterpart.
    fn filtered(self, other: &Set, keep: impl Fn(Entry, Option<&Entry>) -> Option<Entry>) -> Set {
        let mut counterparts = other.entries.iter().peekable();
        let mut entries = self.entries;
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries.drain(..) {
            while counterparts.next_if(|c| c.element < entry.element).is_some() {}
            let counterpart = counterparts.next_if(|c| c.element == entry.element);
            kept.extend(keep(entry, counterpart).filter(Entry::is_needed));
        }
        Set { entries: kept }
    }

    /// All paths: at each level first the members, then those below.
    pub fn paths(&self) -> Vec<SharedPath> {
        let mut out = Vec::with_capacity(self.len());
        collect(self, None, &mut out);
        out
    }
}

fn insert(set: &mut Set, path: &[PathElement]) {
    let Some((first, rest)) = path.split_first() else { return };
    let at = match set.entries.binary_search_by(|e| e.element.cmp(first)) {
        Ok(at) => at,
        Err(at) => {
            set.entries.insert(at, Entry { element: first.clone(), member: false, below: Set::new() });
            at
        }
    };
    if let Some(entry) = set.entries.get_mut(at) {
        if rest.is_empty() {
            entry.member = true;
        } else {
            insert(&mut entry.below, rest);
        }
    }
}

fn collect(set: &Set, parent: Option<&Arc<SharedPath>>, out: &mut Vec<SharedPath>) {
    let members = set.entries.iter().filter(|entry| entry.member);
    out.extend(members.map(|entry| SharedPath::below(parent, &entry.element)));
    for entry in set.entries.iter().filter(|entry| !entry.below.is_empty()) {
        collect(&entry.below, Some(&Arc::new(SharedPath::below(parent, &entry.element))), out);
    }
}

#[cfg(test)]
mod tests;
