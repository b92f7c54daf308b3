//! Metrics of token authentications. kube-apiserver accepts a token without another lookup for ten seconds after a
//! success and counts that as a hit. Here each token is looked up, so that a revoked one is refused at once; what
//! kube-apiserver would have cached counts as a hit all the same, so that dashboards show the same ratio.

use pintle_metrics::{Handle, families};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long kube-apiserver caches an accepted token.
const ACCEPTED: Duration = Duration::from_secs(10);
/// The number of tokens that are remembered, a power of two. They take eight bytes each.
const TOKENS_MAX: usize = 8192;
/// The end of a token that identifies it: of a signed token, a part of the signature.
const TAIL_BYTES: usize = 64;

/// When tokens were accepted, in a table by hash. A collision makes one count wrong, no decision.
pub(crate) struct RecentTokens {
    began: Instant,
    hashes: RandomState,
    /// The upper half of a slot is a part of the hash; the lower one is the time until which the token counts as
    /// cached.
    slots: Box<[AtomicU64]>,
}

impl RecentTokens {
    pub(crate) fn new(now: Instant) -> Self {
        let slots = (0..TOKENS_MAX).map(|_| AtomicU64::new(0)).collect();
        RecentTokens { began: now, hashes: RandomState::new(), slots }
    }

    /// Returns whether the token was accepted for these audiences within the last ten seconds. Otherwise it is
    /// remembered, if it is `accepted` now.
    pub(crate) fn is_hit(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        accepted: bool,
        now: Instant,
    ) -> bool {
        let tail = token.as_bytes();
        let tail = tail.get(tail.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
        let hash = self.hashes.hash_one((tail, token.len(), audiences));
        let index = usize::try_from(hash).unwrap_or(0) & TOKENS_MAX.wrapping_sub(1);
        let Some(slot) = self.slots.get(index) else { return false };
        let (half, now) = (hash >> 32, self.centiseconds(now));
        let stored = slot.load(Ordering::Relaxed);
        if stored >> 32 == half && now < stored & u64::from(u32::MAX) {
            return true;
        }
        if accepted {
            let until = now.saturating_add(ACCEPTED.as_secs().saturating_mul(100));
            slot.store(half << 32 | until & u64::from(u32::MAX), Ordering::Relaxed);
        }
        false
    }

    /// Begins again after 497 days, which can make one count of each token wrong.
    fn centiseconds(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.began).as_millis() / 10;
        u64::try_from(passed).unwrap_or(0) & u64::from(u32::MAX)
    }
}

/// Counts the authentication of a token. `failed` is set if an authenticator returned an error, rather than not to
/// know the token.
pub(crate) fn count(
    token: &str,
    audiences: Option<&[String]>,
    accepted: bool,
    failed: bool,
    took: Duration,
    now: Instant,
) {
    static RECENT: LazyLock<RecentTokens> = LazyLock::new(|| RecentTokens::new(Instant::now()));
    static HITS: LazyLock<[Handle; 2]> = LazyLock::new(|| series("hit"));
    static MISSES: LazyLock<[Handle; 2]> = LazyLock::new(|| {
        families::TOKEN_FETCHES_ACTIVE.set(&["blocked"], 0.0);
        families::TOKEN_FETCHES_ACTIVE.set(&["in_flight"], 0.0);
        series("miss")
    });
    static FOUND: LazyLock<Handle> = LazyLock::new(|| families::TOKEN_FETCHES.with(&["ok"]));
    static FAILED: LazyLock<Handle> = LazyLock::new(|| families::TOKEN_FETCHES.with(&["error"]));

    let hit = RECENT.is_hit(token, audiences, accepted, now);
    let [requests, duration] = if hit { &*HITS } else { &*MISSES };
    requests.add(1);
    duration.observe(families::TOKEN_DURATION.buckets(), took.as_secs_f64());
    match (hit, failed) {
        (true, _) => {}
        (false, false) => FOUND.add(1),
        (false, true) => FAILED.add(1),
    }
}

fn series(status: &str) -> [Handle; 2] {
    [families::TOKEN_REQUESTS.with(&[status]), families::TOKEN_DURATION.with(&[status])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_hit_for_ten_seconds_after_it_was_looked_up() {
        let began = Instant::now();
        let recent = RecentTokens::new(began);
        let audience = ["a".to_string()];
        // The seconds, the token, whether it is for an audience, whether it is accepted, whether it is a hit.
        let cases = [
            (0, "one", false, true, false),
            (1, "one", false, true, true),
            (1, "one", true, true, false),
            (2, "two", false, false, false),
            (2, "two", false, true, false),
            (9, "one", false, true, true),
            // The time counts from the lookup, not from the last use.
            (10, "one", false, true, false),
            (11, "two", false, true, true),
            (19, "one", false, true, true),
        ];
        for (seconds, token, for_audience, accepted, want) in cases {
            let now = began + Duration::from_secs(seconds);
            let audiences = for_audience.then_some(&audience[..]);
            assert_eq!(recent.is_hit(token, audiences, accepted, now), want, "{token} after {seconds} s");
        }
    }
}
