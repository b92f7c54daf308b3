//! Counts watches by what they select, so that the cost of a write includes the watches that are notified of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The selection of a watch. Name and namespace are "" if it selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Key {
    group: Box<str>,
    resource: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
}

impl Key {
    fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Key { group: group.into(), resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// How many watches there are.
#[derive(Debug, Default)]
pub struct WatchCounts(Mutex<HashMap<Key, u64>>);

impl WatchCounts {
    /// Counts a watch until the registration is dropped.
    pub fn register(
        self: &Arc<Self>,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> WatchRegistration {
        let key = Key::new(group, resource, namespace, name);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_insert(0);
        *count = count.saturating_add(1);
        drop(counts);
        WatchRegistration { counts: Arc::clone(self), key }
    }

    /// The number of watches that a write notifies: those of all objects, of its namespace and of its object.
    pub fn interested(&self, group: &str, resource: &str, namespace: &str, name: &str) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.is_empty() {
            return 0;
        }
        let mut key = Key::new(group, resource, "", "");
        let mut sum = counts.get(&key).copied().unwrap_or(0);
        if !namespace.is_empty() {
            key.namespace = namespace.into();
            sum = sum.saturating_add(counts.get(&key).copied().unwrap_or(0));
        }
        if !name.is_empty() {
            key.name = name.into();
            sum = sum.saturating_add(counts.get(&key).copied().unwrap_or(0));
        }
        sum
    }
}

/// A watch that is counted until this is dropped.
#[derive(Debug)]
pub struct WatchRegistration {
    counts: Arc<WatchCounts>,
    key: Key,
}

impl Drop for WatchRegistration {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_of_interest_to_watches_around_it() {
        let counts = Arc::new(WatchCounts::default());
        let all = counts.register("", "pods", "", "");
        let _namespace = counts.register("", "pods", "a", "");
        let _one = counts.register("", "pods", "a", "x");
        let _other = counts.register("", "pods", "b", "");
        assert_eq!(counts.interested("", "pods", "a", "x"), 3);
        assert_eq!(counts.interested("", "pods", "a", ""), 2);
        assert_eq!(counts.interested("", "nodes", "", ""), 0);
        drop(all);
        assert_eq!(counts.interested("", "pods", "a", "x"), 2);
    }
}
