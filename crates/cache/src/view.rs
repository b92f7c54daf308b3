//! A resource at one revision. Cloning is free and later changes do not show.

use crate::key::ObjectKey;
use crate::object::Object;
use imbl::OrdMap;
use std::ops::Bound;
use std::sync::Arc;

pub(crate) type Index = OrdMap<ObjectKey, Arc<Object>>;

/// All objects of a resource at one revision, ordered by key as in the store.
#[derive(Clone)]
pub struct View {
    pub(crate) revision: u64,
    pub(crate) index: Index,
}

impl View {
    /// The revision this is the state of.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The object under `namespace/name` or `name`.
    pub fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.index.get(key)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// All objects in key order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> + '_ {
        self.index.values()
    }

    /// The objects of one namespace, or all, in key order; beginning with `from` (a key that need
    /// not exist) if given.
    pub fn range<'a>(
        &'a self,
        namespace: Option<&str>,
        from: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
        let start = from.filter(|from| *from > prefix.as_str()).unwrap_or(&prefix).to_owned();
        let bounds: (Bound<&str>, Bound<&str>) = (Bound::Included(&start), Bound::Unbounded);
        self.index
            .range::<_, str>(bounds)
            .take_while(move |(key, _)| key.starts_with(&*prefix))
            .map(|(_, object)| object)
    }

    /// The first objects after the key `after`, at most `limit` of them, within `prefix`.
    pub(crate) fn chunk(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<Arc<Object>> {
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let bounds: (Bound<&str>, Bound<&str>) = (from, Bound::Unbounded);
        let range = self.index.range::<_, str>(bounds).take_while(|(key, _)| key.starts_with(prefix));
        range.take(limit).map(|(_, object)| object.clone()).collect()
    }
}
