//! Entries of the store under prefixes that are not registered (yet), retained unparsed.

use crate::options::ORPHAN_EVENTS_MAX;
use pintle_store::{Change, Entry, Key, Loaded, Note};
use std::collections::BTreeMap;

/// Entries and loaded history that belong to no registered resource.
#[derive(Default)]
pub(crate) struct Orphans {
    entries: BTreeMap<Key, Entry>,
    history: BTreeMap<(Key, u64), Change>,
    /// History up to this revision is unknown for all of them.
    compacted: u64,
    /// The time from which on the history is complete.
    since_ms: u64,
}

/// The objects and history that a newly registered resource takes over.
#[derive(Default)]
pub(crate) struct Orphaned {
    pub(crate) entries: Vec<(Key, Entry)>,
    /// Oldest first.
    pub(crate) history: Vec<Change>,
    /// `history` has everything after this revision.
    pub(crate) compacted: u64,
}

impl Orphans {
    /// Takes over a state. Returns the entries of the resources with these prefixes, which must be in ascending
    /// order; the other entries are retained here.
    pub(crate) fn load(&mut self, loaded: Loaded, now_ms: u64, prefixes: &[&str]) -> Vec<Orphaned> {
        let history = loaded.history.into_iter();
        self.history = history.map(|change| ((change.key.clone(), change.revision.0), change)).collect();
        self.compacted = loaded.compacted.0;
        self.since_ms = now_ms;
        let mut taken: Vec<Orphaned> = prefixes.iter().map(|prefix| self.take_history(prefix)).collect();
        let mut owners = prefixes.iter().zip(&mut taken).peekable();
        let mut rest = Vec::new();
        for (key, entry) in &loaded.entries {
            // Both are in ascending order, so a prefix that is before this key owns none of the later ones.
            while owners.next_if(|(prefix, _)| **prefix < &**key && !key.starts_with(**prefix)).is_some() {}
            let owner = owners.peek_mut().filter(|(prefix, _)| key.starts_with(**prefix));
            let entries = owner.map_or(&mut rest, |(_, owner)| &mut owner.entries);
            entries.push((key.clone(), entry.clone()));
        }
        self.entries = rest.into_iter().collect();
        taken
    }

    /// Drops entries that belong to another store.
    pub(crate) fn retain(&mut self, is_own: impl Fn(&str) -> bool) {
        self.entries.retain(|key, _| is_own(key));
        self.history.retain(|(key, _), _| is_own(key));
    }

    /// Applies a change that belongs to no resource.
    pub(crate) fn apply(&mut self, change: &Change, now_ms: u64) {
        if self.history.is_empty() {
            self.since_ms = now_ms;
        }
        let without_note = Change { note: Note::default(), ..change.clone() };
        self.history.insert((change.key.clone(), change.revision.0), without_note);
        if self.history.len() > ORPHAN_EVENTS_MAX {
            self.forget_history(change.revision.0);
        }
        match &change.value {
            None => drop(self.entries.remove(&change.key)),
            Some(value) => {
                let created = change.previous.as_ref().map_or(change.revision, |previous| previous.created);
                let entry = Entry { value: value.clone(), created, modified: change.revision };
                self.entries.insert(change.key.clone(), entry);
            }
        }
    }

    /// Adds an entry of a resource that was unregistered.
    pub(crate) fn put(&mut self, key: Key, entry: Entry) {
        self.entries.insert(key, entry);
    }

    /// Drops all history before `revision`.
    pub(crate) fn forget_history(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision);
        self.history.clear();
    }

    /// Drops all history once some of it is older than `at_ms`; `revision` is the current one.
    pub(crate) fn age(&mut self, at_ms: u64, revision: u64) {
        if self.since_ms < at_ms && !self.history.is_empty() {
            self.forget_history(revision);
        }
    }

    /// Removes and returns everything under `prefix`.
    pub(crate) fn take(&mut self, prefix: &str) -> Orphaned {
        let entries = take_range(&mut self.entries, Key::from(prefix), |key| key.starts_with(prefix));
        Orphaned { entries, ..self.take_history(prefix) }
    }

    fn take_history(&mut self, prefix: &str) -> Orphaned {
        let history =
            take_range(&mut self.history, (Key::from(prefix), 0), |(key, _)| key.starts_with(prefix));
        let mut history: Vec<Change> = history.into_iter().map(|(_, change)| change).collect();
        history.sort_unstable_by_key(|change| change.revision);
        Orphaned { entries: Vec::new(), history, compacted: self.compacted }
    }
}

/// Removes and returns the keys from `from` on while `within` holds.
fn take_range<K: Ord + Clone, V>(
    map: &mut BTreeMap<K, V>,
    from: K,
    within: impl Fn(&K) -> bool,
) -> Vec<(K, V)> {
    let mut taken = map.split_off(&from);
    if let Some(end) = taken.keys().find(|key| !within(key)).cloned() {
        let mut rest = taken.split_off(&end);
        map.append(&mut rest);
    }
    taken.into_iter().collect()
}
