//! Random choices that a seed repeats.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// A xorshift generator: enough to spread choices.
pub(super) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    pub(super) fn new(seed: Option<u64>) -> Random {
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0)) | 1;
        Random { seed, state: seed }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// Another generator with an independent sequence.
    pub(super) fn fork(&mut self) -> Random {
        Random::new(Some(self.next()))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        // The high bits: the low ones of a xorshift repeat soon.
        (self.next() >> 11) % end.max(1)
    }

    pub(super) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.next() >> 24) as u8).collect()
    }

    /// Returns at most `count` different items.
    pub(super) fn choose<T: Clone>(&mut self, items: &[T], count: usize) -> Vec<T> {
        let mut left = items.to_vec();
        let mut chosen = Vec::new();
        while chosen.len() < count && !left.is_empty() {
            let position = self.below(left.len() as u64) as usize;
            chosen.push(left.swap_remove(position));
        }
        chosen
    }
}
