//! What the store holds under prefixes that nobody has registered (yet): kept unparsed.

use crate::options::ORPHAN_EVENTS_MAX;
use pintle_store::{Change, Entry, Key, Loaded, Note};
use std::collections::BTreeMap;

/// Entries and loaded history that belong to no registered resource.
#[derive(Default)]
pub(crate) struct Orphans {
    entries: BTreeMap<Key, Entry>,
    history: BTreeMap<(Key, u64), Change>,
    /// Of no orphan is history known up to here.
    compacted: u64,
    /// No history is older than this.
    since_ms: u64,
}

/// What a new resource takes over.
#[derive(Default)]
pub(crate) struct Orphaned {
    pub(crate) entries: Vec<(Key, Entry)>,
    /// Oldest first.
    pub(crate) history: Vec<Change>,
    /// `history` has everything after this revision.
    pub(crate) compacted: u64,
}

impl Orphans {
    pub(crate) fn load(&mut self, loaded: Loaded, now_ms: u64) {
        self.entries = loaded.entries.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect();
        self.history = loaded
            .history
            .into_iter()
            .map(|change| ((change.key.clone(), change.revision.0), change))
            .collect();
        self.compacted = loaded.compacted.0;
        self.since_ms = now_ms;
    }

    /// A change that belongs to no resource.
    pub(crate) fn apply(&mut self, change: &Change, now_ms: u64) {
        if self.history.is_empty() {
            self.since_ms = now_ms;
        }
        let kept = Change { note: Note::default(), ..change.clone() };
        self.history.insert((change.key.clone(), change.revision.0), kept);
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

    /// An entry of a resource that was unregistered.
    pub(crate) fn put(&mut self, key: Key, entry: Entry) {
        self.entries.insert(key, entry);
    }

    /// From here on, history before `revision` is not known.
    pub(crate) fn forget_history(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision);
        self.history.clear();
    }

    /// Drops all history once some of it is from before `at_ms`; `revision` is the current one.
    pub(crate) fn age(&mut self, at_ms: u64, revision: u64) {
        if self.since_ms < at_ms && !self.history.is_empty() {
            self.forget_history(revision);
        }
    }

    /// Hands over what begins with `prefix`.
    pub(crate) fn take(&mut self, prefix: &str) -> Orphaned {
        let entries = take_range(&mut self.entries, Key::from(prefix), |key| key.starts_with(prefix));
        let history =
            take_range(&mut self.history, (Key::from(prefix), 0), |(key, _)| key.starts_with(prefix));
        let mut history: Vec<Change> = history.into_iter().map(|(_, change)| change).collect();
        history.sort_unstable_by_key(|change| change.revision);
        Orphaned { entries, history, compacted: self.compacted }
    }
}

/// Removes and returns the run of keys from `from` on that satisfies `within`.
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
