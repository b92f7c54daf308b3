//! A cache of token results, limited in bytes. Tokens are stored as hashes only.

use aws_lc_rs::digest;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The cache is sharded so that requests do not contend.
const SHARDS: usize = 16;

/// SHA-256 of a token and the other inputs of a lookup.
pub(crate) type Key = [u8; 32];

/// The key of a token and the requested audiences.
pub(crate) fn key(token: &str, audiences: Option<&[String]>) -> Key {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(token.as_bytes());
    for audience in audiences.unwrap_or_default() {
        context.update(&[0]);
        context.update(audience.as_bytes());
    }
    // No requested audiences differ from an empty list of audiences.
    context.update(&[u8::from(audiences.is_some())]);
    let mut key = Key::default();
    key.copy_from_slice(context.finish().as_ref());
    key
}

/// Values with a time to live.
pub(crate) struct Cache<V> {
    shards: Vec<Mutex<Shard<V>>>,
    bytes_max: usize,
}

struct Shard<V> {
    values: HashMap<Key, (V, Instant, usize)>,
    /// In order of insertion, with each one's expiry.
    order: VecDeque<(Key, Instant)>,
    bytes: usize,
}

impl<V: Clone> Cache<V> {
    /// A cache whose values take this many bytes at most.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let shard = || Mutex::new(Shard { values: HashMap::new(), order: VecDeque::new(), bytes: 0 });
        Cache { shards: (0..SHARDS).map(|_| shard()).collect(), bytes_max: bytes_max / SHARDS }
    }

    fn shard(&self, key: &Key) -> Option<&Mutex<Shard<V>>> {
        self.shards.get(usize::from(*key.first()?) % SHARDS)
    }

    /// The value of a key, unless it has expired.
    pub(crate) fn get(&self, key: &Key, now: Instant) -> Option<V> {
        let shard = self.shard(key)?.lock().ok()?;
        shard.values.get(key).filter(|(_, until, _)| now < *until).map(|(value, _, _)| value.clone())
    }

    /// Inserts a value of about `bytes` for `life`, evicting the oldest ones if necessary.
    pub(crate) fn insert(&self, key: Key, value: V, bytes: usize, life: Duration, now: Instant) {
        let bytes = bytes
            .saturating_add(size_of::<(Key, V, Instant, usize)>())
            .saturating_add(size_of::<(Key, Instant)>());
        let Some(Ok(mut shard)) = self.shard(&key).map(Mutex::lock) else { return };
        let Some(until) = now.checked_add(life).filter(|until| *until > now && bytes <= self.bytes_max)
        else {
            return;
        };
        shard.drop_first(|shard, until| until <= now || shard.bytes.saturating_add(bytes) > self.bytes_max);
        if let Some((_, _, old)) = shard.values.insert(key, (value, until, bytes)) {
            shard.bytes = shard.bytes.saturating_sub(old);
        }
        shard.bytes = shard.bytes.saturating_add(bytes);
        shard.order.push_back((key, until));
    }
}

impl<V> Shard<V> {
    fn drop_first(&mut self, while_: impl Fn(&Self, Instant) -> bool) {
        while let Some((key, until)) = self.order.front().copied() {
            if !while_(self, until) {
                return;
            }
            self.order.pop_front();
            // A replaced value has a newer entry further back.
            if self.values.get(&key).is_some_and(|(_, current, _)| *current == until)
                && let Some((_, _, bytes)) = self.values.remove(&key)
            {
                self.bytes = self.bytes.saturating_sub(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_and_make_room() {
        let cache = Cache::new(SHARDS * 2000);
        let begin = Instant::now();
        let (life, later) = (Duration::from_secs(10), begin + Duration::from_secs(11));
        let a = key("a", None);
        cache.insert(a, 1, 10, life, begin);
        assert_eq!(cache.get(&a, begin), Some(1));
        cache.insert(a, 2, 10, life, later);
        assert_eq!((cache.get(&a, later), cache.get(&a, later + life)), (Some(2), None));
        for at in 0..10_000 {
            cache.insert(key(&at.to_string(), None), at, 100, life, begin);
        }
        let held: usize = cache.shards.iter().map(|s| s.lock().unwrap().bytes).sum();
        assert!(held <= SHARDS * 2000, "{held}");
        assert_ne!(key("a", None), key("a", Some(&[])));
        assert_ne!(key("a", Some(&["b".into()])), key("a", Some(&["c".into()])));
    }
}
