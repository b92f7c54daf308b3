//! A cache of recently used compiled expressions, limited by their size in bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use pintle_value::Str;

use super::Regex;

/// The size limit in bytes of one generation. There are two.
const GENERATION_BYTES_MAX: usize = 32 << 20;

/// A compiled expression, or the error of the pattern.
type Outcome = Result<Arc<Regex>, Arc<str>>;

/// The compiled expression of a pattern, from the cache if possible.
pub(super) fn get(pattern: &str) -> Outcome {
    static CACHE: OnceLock<Mutex<Cache>> = OnceLock::new();
    let cache = CACHE.get_or_init(Mutex::default);
    if let Some(outcome) = cache.lock().unwrap_or_else(PoisonError::into_inner).get(pattern) {
        return outcome;
    }
    // Other threads must not wait for this compilation.
    let outcome = Regex::new(pattern).map(Arc::new).map_err(Arc::from);
    cache.lock().unwrap_or_else(PoisonError::into_inner).insert(pattern.into(), outcome.clone());
    outcome
}

/// A pattern that is used repeatedly. It holds only the text: the cache owns the compiled expression.
#[derive(Debug)]
pub struct Pattern {
    text: Str,
    compiled: Mutex<Weak<Regex>>,
}

impl Pattern {
    /// Creates a pattern, or returns its error.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let compiled = get(pattern).map_err(|why| why.to_string())?;
        Ok(Pattern { text: pattern.into(), compiled: Mutex::new(Arc::downgrade(&compiled)) })
    }

    /// The compiled expression.
    pub fn regex(&self) -> Result<Arc<Regex>, String> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = compiled.upgrade() {
            return Ok(regex);
        }
        let regex = get(&self.text).map_err(|why| why.to_string())?;
        *compiled = Arc::downgrade(&regex);
        Ok(regex)
    }
}

/// Two generations: used expressions move to the younger one; when that is full, the older one is dropped.
#[derive(Default)]
struct Cache {
    young: HashMap<Str, Outcome>,
    young_bytes: usize,
    old: HashMap<Str, Outcome>,
}

impl Cache {
    fn get(&mut self, pattern: &str) -> Option<Outcome> {
        if let Some(outcome) = self.young.get(pattern) {
            return Some(outcome.clone());
        }
        let (pattern, outcome) = self.old.remove_entry(pattern)?;
        self.insert(pattern, outcome.clone());
        Some(outcome)
    }

    fn insert(&mut self, pattern: Str, outcome: Outcome) {
        let bytes = pattern
            .len()
            .saturating_add(200)
            .saturating_add(outcome.as_ref().map_or_else(|why| why.len(), |regex| regex.bytes()));
        if bytes > GENERATION_BYTES_MAX {
            return;
        }
        if self.young_bytes.saturating_add(bytes) > GENERATION_BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes = self.young_bytes.saturating_add(bytes);
        self.young.insert(pattern, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_limited_by_bytes() {
        let mut cache = Cache::default();
        let outcome = || -> Outcome { Err("x".repeat(1 << 20).into()) };
        for number in 0..100 {
            cache.insert(format!("pattern {number}").into(), outcome());
            // An expression that is used remains cached.
            assert!(number == 0 || cache.get("pattern 0").is_some());
        }
        assert!(cache.young.len() + cache.old.len() <= 2 * (GENERATION_BYTES_MAX >> 20));
        assert!(cache.get("pattern 1").is_none() && cache.get("pattern 99").is_some());
        cache.insert("large".into(), Err("x".repeat(GENERATION_BYTES_MAX + 1).into()));
        assert!(cache.get("large").is_none());
    }

    #[test]
    fn a_pattern_finds_its_expression_again() {
        let pattern = Pattern::new("^a+$").unwrap();
        *pattern.compiled.lock().unwrap() = Weak::new();
        assert!(pattern.regex().unwrap().is_match("aa"));
        assert_eq!(Pattern::new("(").unwrap_err(), "error parsing regexp: missing closing ): `(`");
    }
}
