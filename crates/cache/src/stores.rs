//! Several stores behind one cache: most resources are in the main store, some in stores of their own. Revisions of
//! different stores cannot be compared, so each store has its own published revision, resets and compaction.

use crate::cache::Cache;
use crate::shared::Shared;
use pintle_store::{Change, Loaded, Revision, Sink};
use std::sync::Arc;

/// The number of the main store; the further ones follow.
pub(crate) const MAIN: usize = 0;

/// A store that holds some of the resources.
pub(crate) struct FurtherStore {
    pub(crate) shared: Arc<Shared>,
    prefixes: Vec<Arc<str>>,
}

impl FurtherStore {
    pub(crate) fn new(main: &Shared, prefixes: Vec<Arc<str>>) -> FurtherStore {
        FurtherStore { shared: Arc::new(main.of_another_store()), prefixes }
    }

    /// Whether a key or the prefix of a resource belongs to this store.
    pub(crate) fn owns(&self, key: &str) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(&**prefix))
    }
}

/// The sink of one of the further stores.
pub(crate) struct StoreSink {
    pub(crate) cache: Arc<Cache>,
    pub(crate) store: usize,
}

impl Sink for StoreSink {
    fn apply(&self, changes: &[Change]) {
        self.cache.apply_changes(self.store, changes);
    }

    fn advance(&self, revision: Revision) {
        self.cache.advance_store(self.store, revision);
    }

    fn reset(&self, loaded: Loaded) {
        self.cache.reset_store(self.store, loaded);
    }

    fn interrupted(&self, is: bool) {
        self.cache.interrupt_store(self.store, is);
    }

    fn compacted(&self, revision: Revision) {
        self.cache.compact_store(self.store, revision);
    }
}

/// The sink of the main store.
impl Sink for Cache {
    fn apply(&self, changes: &[Change]) {
        self.apply_changes(MAIN, changes);
    }

    fn advance(&self, revision: Revision) {
        self.advance_store(MAIN, revision);
    }

    fn reset(&self, loaded: Loaded) {
        self.reset_store(MAIN, loaded);
    }

    fn interrupted(&self, is: bool) {
        self.interrupt_store(MAIN, is);
    }

    fn compacted(&self, revision: Revision) {
        self.compact_store(MAIN, revision);
    }
}
