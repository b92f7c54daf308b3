//! What the engine takes from outside: the time and chance. Injected, so that tests decide both.

use pintle_value::Str;

/// The time.
pub trait Clock: Send + Sync {
    /// Seconds and nanoseconds since 1970.
    fn now(&self) -> (i64, u32);
}

/// Chance.
pub trait Random: Send + Sync {
    /// Fills `out` with random bytes.
    fn fill(&self, out: &mut [u8]);
}

/// A new uid.
pub fn new_uid(random: &dyn Random) -> Str {
    let mut bytes = [0u8; 16];
    random.fill(&mut bytes);
    pintle_meta::identity::uuid(bytes)
}
