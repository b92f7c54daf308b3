//! A resource at one revision. Cloning is cheap, and later changes are not visible.

use crate::object::Object;
use pintle_store::{Keyed, Tree};
use std::sync::Arc;

pub(crate) type Index = Tree<Indexed>;

/// An object as the index holds it.
#[derive(Clone)]
pub(crate) struct Indexed(pub(crate) Arc<Object>);

impl Keyed for Indexed {
    fn key(&self) -> &str {
        self.0.key().as_str()
    }
}

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
        self.index.get(key).map(|indexed| &indexed.0)
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
        self.index.iter().map(|indexed| &indexed.0)
    }

    /// The objects of one namespace, or all, in key order; beginning with `from` (a key that need
    /// not exist) if given.
    pub fn range<'a>(
        &'a self,
        namespace: Option<&str>,
        from: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let prefix = namespace_prefix(namespace);
        let start = from.filter(|from| *from > prefix.as_str()).unwrap_or(&prefix);
        self.index
            .iter_from(start)
            .map(|indexed| &indexed.0)
            .take_while(move |object| object.key().starts_with(&*prefix))
    }

    /// How many objects of one namespace, or of all, come after the key `after`. Does not walk over them.
    pub fn count_after(&self, namespace: Option<&str>, after: &str) -> usize {
        let prefix = namespace_prefix(namespace);
        let end = self.index.position(|key| key < prefix.as_str() || key.starts_with(&*prefix));
        end.saturating_sub(self.index.position(|key| key < prefix.as_str() || key <= after))
    }

    /// The first objects after the key `after`, at most `limit` of them, within `prefix`.
    pub(crate) fn chunk(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<Arc<Object>> {
        let objects = self.index.iter_from(after.unwrap_or(prefix)).map(|indexed| &indexed.0);
        let later = objects.skip_while(|object| after == Some(object.key().as_str()));
        later.take_while(|object| object.key().starts_with(prefix)).take(limit).cloned().collect()
    }
}

fn namespace_prefix(namespace: Option<&str>) -> String {
    namespace.map_or_else(String::new, |namespace| format!("{namespace}/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::ObjectKey;
    use crate::object::{Extracted, ReadForm};
    use crate::stored_value::value_header;

    #[test]
    fn counts_what_is_left_as_a_walk_would() {
        let object = |key: &str| {
            let key = ObjectKey::new(&format!("/r/{key}").into(), "/r/").unwrap();
            let value = [value_header(0).as_slice(), b"{}"].concat();
            Object::unstored(key, 1, value.into(), Extracted::default(), ReadForm::AsStored).unwrap()
        };
        let names = ["a-b", "a", "b", "a/b"].map(|ns| (0..40).map(move |n| format!("{ns}/{n:02}")));
        let index = names.into_iter().flatten().map(|key| Indexed(object(&key))).collect();
        let view = View { revision: 1, index };
        for namespace in [None, Some("a"), Some("a-b"), Some("b"), Some("c"), Some("")] {
            for after in view.iter().map(|object| object.key().as_str()).chain(["", "a/", "zz"]) {
                let left = view.range(namespace, Some(after)).filter(|object| object.key().as_str() > after);
                assert_eq!(view.count_after(namespace, after), left.count(), "{namespace:?} {after}");
            }
        }
    }
}
