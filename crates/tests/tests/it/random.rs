//! Random choices that a seed repeats.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// A number in an environment variable.
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A xorshift generator: enough to spread choices.
pub(crate) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Multiplied, so that neighbouring seeds do not start with the same choices; zero would stay zero.
        Random { seed, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// A generator whose seed is in an environment variable, or random.
    pub(crate) fn from_setting(name: &str) -> Random {
        Random::new(setting(name).unwrap_or_else(|| RandomState::new().hash_one(0)))
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Another generator with an independent sequence.
    pub(crate) fn fork(&mut self) -> Random {
        Random::new(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // The high bits: the low ones of a xorshift repeat soon.
        (self.next() >> 11) % end.max(1)
    }

    /// An index of a list of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.index(from.len())]
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.next() >> 24) as u8).collect()
    }

    /// Returns at most `count` different items.
    pub(crate) fn choose<T: Clone>(&mut self, items: &[T], count: usize) -> Vec<T> {
        let mut left = items.to_vec();
        let mut chosen = Vec::new();
        while chosen.len() < count && !left.is_empty() {
            let position = self.index(left.len());
            chosen.push(left.swap_remove(position));
        }
        chosen
    }
}
