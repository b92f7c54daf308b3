//! The key of an object within its resource, sharing the bytes of the store's key.

use pintle_store::Key;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// `namespace/name`, or `name` for cluster-scoped objects; ordered by bytes, as the store orders.
#[derive(Clone)]
pub struct ObjectKey {
    full: Key,
    start: u32,
}

impl ObjectKey {
    /// The part of `full` after `prefix`; `None` if it does not begin with it or is equal to it.
    pub fn new(full: &Key, prefix: &str) -> Option<ObjectKey> {
        let rest = full.strip_prefix(prefix)?;
        let start = u32::try_from(prefix.len()).ok()?;
        (!rest.is_empty()).then(|| ObjectKey { full: full.clone(), start })
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        self.full.get(self.start as usize..).unwrap_or_default()
    }

    /// The store's key.
    pub fn full(&self) -> &Key {
        &self.full
    }

    /// The namespace, if there is one.
    pub fn namespace(&self) -> Option<&str> {
        self.as_str().split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        let key = self.as_str();
        key.split_once('/').map_or(key, |(_, name)| name)
    }
}

impl Deref for ObjectKey {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &ObjectKey) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for ObjectKey {}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &ObjectKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &ObjectKey) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits() {
        for (full, expected) in [
            ("/r/pods/default/a", Some(("default/a", Some("default"), "a"))),
            ("/r/pods/a", Some(("a", None, "a"))),
            ("/r/pods/", None),
            ("/r/nodes/a", None),
        ] {
            let key = ObjectKey::new(&Key::from(full), "/r/pods/");
            assert_eq!(key.as_ref().map(|key| (key.as_str(), key.namespace(), key.name())), expected);
        }
    }
}
