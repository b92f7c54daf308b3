//! The clock and the random source of the engine. Both are injected so that tests can control them.

use pintle_value::Str;

/// The time.
pub trait Clock: Send + Sync {
    /// Seconds and nanoseconds since 1970.
    fn now(&self) -> (i64, u32);
}

/// The random source.
pub trait Random: Send + Sync {
    /// Fills `out` with random bytes.
    fn fill(&self, out: &mut [u8]);

    /// A random number between 0 and 1.
    fn fraction(&self) -> f64 {
        f64::from(u32::try_from(self.number() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }

    /// A random number.
    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_ne_bytes(bytes)
    }
}

/// A new uid.
pub fn new_uid(random: &dyn Random) -> Str {
    let mut bytes = [0u8; 16];
    random.fill(&mut bytes);
    pintle_meta::generated::uid(bytes)
}
