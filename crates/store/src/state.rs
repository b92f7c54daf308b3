//! The state in memory: an ordered, persistent map, so that a snapshot is a clone of the root.

use crate::store::{Change, Entry, Key, Note, Revision};
use bytes::Bytes;
use imbl::OrdMap;
use std::ops::Bound;

/// The whole state at one revision. Cloning is free and later writes do not show.
#[derive(Clone, Debug)]
pub struct Snapshot {
    revision: Revision,
    entries: OrdMap<Key, Entry>,
}

impl Snapshot {
    /// A state with nothing in it, at the revision of an empty store.
    pub fn empty() -> Snapshot {
        Snapshot { revision: Revision::EMPTY, entries: OrdMap::new() }
    }

    /// A state put together by an engine from what it has stored.
    pub fn from_entries(revision: Revision, entries: impl IntoIterator<Item = (Key, Entry)>) -> Snapshot {
        Snapshot { revision, entries: entries.into_iter().collect() }
    }

    /// The same entries, each modified anew after `base`, in the order in which they were modified. For stores
    /// that lost changes: clients have seen revisions that are gone, and none may come again with other content.
    pub fn renumbered(&self, base: Revision) -> Snapshot {
        let mut order: Vec<(&Key, &Entry)> = self.iter().collect();
        order.sort_by_key(|(_, entry)| entry.modified);
        let numbered = order.into_iter().zip(base.0 + 1..).map(|((key, entry), revision)| {
            (key.clone(), Entry { modified: Revision(revision), ..entry.clone() })
        });
        Snapshot::from_entries(Revision(base.0 + self.len() as u64), numbered)
    }

    /// The revision this is the state of.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The entry under `key`.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// The entries whose key begins with `prefix`, in key order.
    pub fn prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a Key, &'a Entry)> + 'a {
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(prefix), Bound::Unbounded);
        self.entries.range::<_, str>(from).take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// The same state with only the keys that begin with `prefix`.
    pub fn under(&self, prefix: &str) -> Snapshot {
        let entries = self.prefix(prefix).map(|(key, entry)| (key.clone(), entry.clone()));
        Snapshot::from_entries(self.revision, entries)
    }

    /// Carries out a change that another engine ordered: the revision is given, may jump, and may be that of the
    /// change before where both are of one transaction. Says what the change replaced.
    pub fn apply_at(&mut self, revision: Revision, key: Key, value: Option<Bytes>) -> Change {
        debug_assert!(revision >= self.revision);
        self.revision = revision;
        let previous = match &value {
            None => self.entries.remove(&*key),
            Some(value) => self.put(revision, &key, value),
        };
        Change { revision, key, value, previous, note: Note::default() }
    }

    /// Notes that the state is the same at a later revision.
    pub fn advance_to(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Carries out one change, which must take the next revision, and says what it replaced.
    pub(crate) fn apply(&mut self, revision: Revision, key: Key, value: Option<Bytes>) -> Change {
        debug_assert_eq!(revision, self.revision.next());
        self.apply_at(revision, key, value)
    }

    fn put(&mut self, revision: Revision, key: &Key, value: &Bytes) -> Option<Entry> {
        let entry = |created| Entry { value: value.clone(), created, modified: revision };
        match self.entries.get_mut(&**key) {
            Some(live) => {
                let created = live.created;
                Some(std::mem::replace(live, entry(created)))
            }
            None => self.entries.insert(key.clone(), entry(revision)),
        }
    }
}

impl<'a> IntoIterator for &'a Snapshot {
    type Item = (&'a Key, &'a Entry);
    type IntoIter = imbl::ordmap::Iter<'a, Key, Entry, imbl::shared_ptr::DefaultSharedPtr>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}
