//! `Map`: the members of an object, a vector sorted by key.
//!
//! Objects are small and read far more often than they grow, so a sorted vector is faster than a tree. Custom resources,
//! map fields, CBOR and managed fields are written in sorted order anyway; `schema` knows the order in which a built-in
//! type writes its fields.

use crate::{Str, Value};
use std::cmp::Ordering;

/// The largest map that is searched from its start.
const LINEAR_SEARCH_MAX: usize = 12;

/// Members of an object: unique keys in bytewise order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map(Vec<(Str, Value)>);

impl Map {
    /// Creates an empty map.
    pub const fn new() -> Self {
        Map(Vec::new())
    }

    /// Creates an empty map with room for `capacity` members.
    pub fn with_capacity(capacity: usize) -> Self {
        Map(Vec::with_capacity(capacity))
    }

    /// Takes entries in any order. Of entries with equal keys the last one wins. Also returns the repeated keys, each
    /// once.
    pub fn from_entries(mut entries: Vec<(Str, Value)>) -> (Self, Vec<Str>) {
        if ascending(&entries) {
            return (Map(entries), Vec::new());
        }
        entries.sort_by(|a, b| compare_text(&a.0, &b.0));
        if ascending(&entries) {
            return (Map(entries), Vec::new());
        }
        let mut repeated: Vec<Str> = Vec::new();
        entries.dedup_by(|next, retained| {
            let same = next.0 == retained.0;
            if same {
                std::mem::swap(&mut next.1, &mut retained.1);
                if repeated.last() != Some(&retained.0) {
                    repeated.push(retained.0.clone());
                }
            }
            same
        });
        (Map(entries), repeated)
    }

    /// The members in order of their keys.
    pub fn as_slice(&self) -> &[(Str, Value)] {
        &self.0
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| compare_text(k, key))
    }

    /// The position of `key`. Most objects have few members, and most keys differ in length: then a search from the start
    /// compares fewer bytes than a binary search.
    fn position(&self, key: &str) -> Option<usize> {
        if self.0.len() <= LINEAR_SEARCH_MAX {
            return self.0.iter().position(|(k, _)| is_same_text(k, key));
        }
        self.find(key).ok()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `key` is a member.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(self.position(key)?).map(|(_, v)| v)
    }

    /// The value of `key`.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = self.position(key)?;
        self.0.get_mut(at).map(|(_, v)| v)
    }

    /// Sets `key` and returns its previous value.
    pub fn insert(&mut self, key: impl AsRef<str> + Into<Str>, value: Value) -> Option<Value> {
        match self.find(key.as_ref()) {
            Ok(at) => self.0.get_mut(at).map(|(_, v)| std::mem::replace(v, value)),
            Err(at) => {
                self.0.insert(at, (key.into(), value));
                None
            }
        }
    }

    /// The value of `key`, which is set to `null` if it is missing.
    pub fn entry(&mut self, key: &str) -> &mut Value {
        let at = self.position(key).unwrap_or_else(|| {
            let (Ok(at) | Err(at)) = self.find(key);
            self.0.insert(at, (Str::from(key), Value::Null));
            at
        });
        #[expect(clippy::indexing_slicing, reason = "the position was found or made just above")]
        &mut self.0[at].1
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.position(key)?;
        Some(self.0.remove(at).1)
    }

    /// Removes the members for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.0.retain_mut(|(k, v)| keep(k, v));
    }

    /// The members in order of their keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Str, &Value)> + ExactSizeIterator {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// The members in order of their keys, values mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Str, &mut Value)> {
        self.0.iter_mut().map(|(k, v)| (&*k, v))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Str> + ExactSizeIterator {
        self.0.iter().map(|(k, _)| k)
    }

    /// The values in order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        self.0.iter().map(|(_, v)| v)
    }
}

/// Compares short texts in one or two words, which takes less than calling `memcmp`.
#[inline]
pub fn is_same_text(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    if a.len() > 16 {
        return a == b;
    }
    // The two words overlap where the text is shorter than both together.
    if let (Some(a_first), Some(a_last), Some(b_first), Some(b_last)) =
        (a.first_chunk::<8>(), a.last_chunk::<8>(), b.first_chunk::<8>(), b.last_chunk::<8>())
    {
        return (a_first, a_last) == (b_first, b_last);
    }
    if let (Some(a_first), Some(a_last), Some(b_first), Some(b_last)) =
        (a.first_chunk::<4>(), a.last_chunk::<4>(), b.first_chunk::<4>(), b.last_chunk::<4>())
    {
        return (a_first, a_last) == (b_first, b_last);
    }
    a.iter().eq(b)
}

/// The bytewise order of two texts. Most differ in their first byte, and then `memcmp` need not be called.
#[inline]
pub fn compare_text(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    match a.first().cmp(&b.first()) {
        Ordering::Equal => a.cmp(b),
        order => order,
    }
}

/// Whether the keys are unique and in order.
fn ascending(entries: &[(Str, Value)]) -> bool {
    entries.windows(2).all(|pair| matches!(pair, [a, b] if compare_text(&a.0, &b.0).is_lt()))
}

impl IntoIterator for Map {
    type Item = (Str, Value);
    type IntoIter = std::vec::IntoIter<(Str, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: Into<Str>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(entries: I) -> Self {
        Map::from_entries(entries.into_iter().map(|(k, v)| (k.into(), v)).collect()).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_keys_the_last_stays_and_is_reported_once() {
        let entries = [("b", 1), ("a", 2), ("b", 3), ("b", 4)].map(|(k, v)| (Str::from(k), Value::Int(v)));
        let (map, repeated) = Map::from_entries(entries.to_vec());
        assert_eq!(
            map.iter().map(|(k, v)| (k.as_str(), v.as_int())).collect::<Vec<_>>(),
            [("a", Some(2)), ("b", Some(4))]
        );
        assert_eq!(repeated, ["b"]);
    }

    #[test]
    fn texts_of_all_lengths_are_compared_whole() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        for length in 0..text.len() {
            let same = &text[..length];
            assert!(is_same_text(same, &String::from(same)), "{same}");
            assert!(!is_same_text(same, &text[..=length]), "{same}");
            for at in 0..length {
                let mut other = same.to_string();
                other.replace_range(at..=at, "_");
                assert!(!is_same_text(same, &other), "{other}");
            }
        }
    }

    #[test]
    fn keys_stay_sorted_through_insert_and_remove() {
        let mut map = Map::new();
        for key in ["m", "a", "z", "k"] {
            map.insert(key, Value::Null);
        }
        map.remove("m");
        assert_eq!(map.keys().collect::<Vec<_>>(), ["a", "k", "z"]);
    }
}
