//! The state in memory: a persistent tree, so that a snapshot is a clone of the root.

use crate::store::{Change, Entry, Key, Note, Revision};
use crate::tree::{Iter, Keyed, Tree};
use bytes::Bytes;

/// The whole state at one revision. Cloning is free and later writes do not show.
#[derive(Clone, Debug)]
pub struct Snapshot {
    revision: Revision,
    entries: Tree<Item>,
    /// The bytes of all keys and values.
    bytes: u64,
}

/// An entry under its key.
#[derive(Clone, Debug)]
struct Item {
    key: Key,
    entry: Entry,
}

impl Item {
    fn pair(&self) -> (&Key, &Entry) {
        (&self.key, &self.entry)
    }
}

impl Keyed for Item {
    fn key(&self) -> &str {
        &self.key
    }
}

impl Snapshot {
    /// An empty state, at the revision of an empty store.
    pub fn empty() -> Snapshot {
        Snapshot { revision: Revision::EMPTY, entries: Tree::new(), bytes: 0 }
    }

    /// A state from entries that an engine has stored.
    pub fn from_entries(revision: Revision, entries: impl IntoIterator<Item = (Key, Entry)>) -> Snapshot {
        let entries: Tree<Item> = entries.into_iter().map(|(key, entry)| Item { key, entry }).collect();
        let bytes = entries.iter().map(|item| bytes_of(&item.key, &item.entry.value)).sum();
        Snapshot { revision, entries, bytes }
    }

    /// This state with its entries renumbered after `base` in the order of their modification. This is for stores
    /// that lost changes: clients have seen the lost revisions, and none may be reused with other content.
    pub fn renumbered(&self, base: Revision) -> Snapshot {
        let mut order: Vec<(&Key, &Entry)> = self.iter().collect();
        order.sort_by_key(|(_, entry)| entry.modified);
        let numbered = order.into_iter().zip(base.0.saturating_add(1)..).map(|((key, entry), revision)| {
            (key.clone(), Entry { modified: Revision(revision), ..entry.clone() })
        });
        Snapshot::from_entries(Revision(base.0.saturating_add(self.len() as u64)), numbered)
    }

    /// The revision of this state.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The entry under `key`.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key).map(|item| &item.entry)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of all keys and values.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.into_iter()
    }

    /// The entries whose key begins with `prefix`, in key order.
    pub fn prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a Key, &'a Entry)> + 'a {
        let from = self.entries.iter_from(prefix).map(Item::pair);
        from.take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// This state with only the keys that begin with `prefix`.
    pub fn under(&self, prefix: &str) -> Snapshot {
        let entries = self.prefix(prefix).map(|(key, entry)| (key.clone(), entry.clone()));
        Snapshot::from_entries(self.revision, entries)
    }

    /// Applies a change that another server ordered: the revision is given, may jump, and may equal the previous one
    /// within a transaction. Returns the previous entry.
    pub fn apply_at(&mut self, revision: Revision, key: Key, value: Option<Bytes>) -> Change {
        debug_assert!(revision >= self.revision);
        self.revision = revision;
        let previous = match &value {
            None => self.entries.remove(&key).map(|item| item.entry),
            Some(value) => self.put(revision, &key, value),
        };
        let before = previous.as_ref().map_or(0, |entry| bytes_of(&key, &entry.value));
        let after = value.as_ref().map_or(0, |value| bytes_of(&key, value));
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        Change { revision, key, value, previous, note: Note::default() }
    }

    /// Records that the state is the same at a later revision.
    pub fn advance_to(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Applies one change, which must have the next revision, and returns the previous entry.
    pub(crate) fn apply(&mut self, revision: Revision, key: Key, value: Option<Bytes>) -> Change {
        debug_assert_eq!(revision, self.revision.next());
        self.apply_at(revision, key, value)
    }

    fn put(&mut self, revision: Revision, key: &Key, value: &Bytes) -> Option<Entry> {
        let live = self.entries.get(key);
        // The state has the key already; sharing it saves a copy of each key.
        let (key, created) = live.map_or((key, revision), |live| (&live.key, live.entry.created));
        let entry = Entry { value: value.clone(), created, modified: revision };
        let replaced = self.entries.insert(Item { key: key.clone(), entry });
        replaced.map(|item| item.entry)
    }
}

fn bytes_of(key: &str, value: &Bytes) -> u64 {
    key.len().saturating_add(value.len()) as u64
}

impl<'a> IntoIterator for &'a Snapshot {
    type Item = (&'a Key, &'a Entry);
    type IntoIter = SnapshotIter<'a>;

    fn into_iter(self) -> SnapshotIter<'a> {
        SnapshotIter(self.entries.iter())
    }
}

/// The entries of a state in key order.
pub struct SnapshotIter<'a>(Iter<'a, Item>);

impl<'a> Iterator for SnapshotIter<'a> {
    type Item = (&'a Key, &'a Entry);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Item::pair)
    }
}
