//! Encodings of one immutable object, made on first use and then shared.

use crate::options::ENCODINGS_MAX;
use bytes::Bytes;
use std::sync::OnceLock;

/// Identifies one encoding (version and format); the caller assigns the numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EncodingKey(pub u16);

/// An append-only list that is read without a lock; while empty it takes one word and a flag.
#[derive(Default)]
pub(crate) struct Encodings {
    head: OnceLock<Box<Node>>,
}

struct Node {
    key: u32,
    bytes: Bytes,
    next: OnceLock<Box<Node>>,
}

impl Encodings {
    /// The encoding under `key`, made by `make` if it is missing. Two concurrent callers may both make it; one result
    /// is cached.
    pub(crate) fn get_or_make<E>(
        &self,
        key: u32,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        if let Some(found) = self.get(key) {
            return Ok(found);
        }
        Ok(self.keep(key, make()?))
    }

    /// The encoding under `key`, if it was made.
    pub(crate) fn get(&self, key: u32) -> Option<Bytes> {
        let mut cell = &self.head;
        while let Some(node) = cell.get() {
            if node.key == key {
                return Some(node.bytes.clone());
            }
            cell = &node.next;
        }
        None
    }

    fn keep(&self, key: u32, bytes: Bytes) -> Bytes {
        self.keep_up_to(ENCODINGS_MAX, key, bytes)
    }

    /// Caches `bytes` under `key`, unless there are `max` encodings or one under this key. Returns the cached one.
    pub(crate) fn keep_up_to(&self, max: usize, key: u32, bytes: Bytes) -> Bytes {
        let mut cell = &self.head;
        for _ in 0..max {
            let node =
                cell.get_or_init(|| Box::new(Node { key, bytes: bytes.clone(), next: OnceLock::new() }));
            if node.key == key {
                return node.bytes.clone();
            }
            cell = &node.next;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_each_key_once_up_to_the_limit() {
        let list = Encodings::default();
        for round in 0..2 {
            for key in 0..(ENCODINGS_MAX as u32 + 4) {
                let mut made = false;
                let bytes = list
                    .get_or_make(key, || {
                        made = true;
                        Ok::<_, ()>(Bytes::from(key.to_string()))
                    })
                    .unwrap();
                assert_eq!(bytes, key.to_string());
                assert_eq!(made, round == 0 || key >= ENCODINGS_MAX as u32, "{key}");
            }
        }
        assert_eq!(list.get_or_make(999, || Err("no")), Err("no"));
    }
}
