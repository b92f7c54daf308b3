//! Which requests took a processor for long: of one user, with one verb, for one resource. A small request can be expensive
//! (admission policies, validation rules, reviews of many rules, selectors), and only its first execution shows it.

use crate::requestinfo::RequestInfo;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A request that occupies a thread longer than this without a pause is slow.
const SLOW: Duration = Duration::from_millis(20);
/// How long requests of the same kind count as slow after that.
const REMEMBERED: Duration = Duration::from_secs(60);
/// The number of entries. Two kinds of requests that share one by chance are slow together, which does no harm.
const ENTRIES: usize = 4096;

/// The slow kinds of requests, each with the time until which it counts as slow, in milliseconds since `began`.
pub(crate) struct SlowRequests {
    began: Instant,
    until_ms: Box<[AtomicU64]>,
}

impl Default for SlowRequests {
    fn default() -> Self {
        let until_ms = std::iter::repeat_with(AtomicU64::default).take(ENTRIES).collect();
        SlowRequests { began: Instant::now(), until_ms }
    }
}

impl SlowRequests {
    /// The entry for the requests of a user with this verb for this resource. A get of one object is never slow, and too
    /// frequent to be measured.
    pub(crate) fn entry(&self, user: &str, info: &RequestInfo) -> Option<&AtomicU64> {
        if info.verb == "get" {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (user, &info.verb, &info.group, &info.resource, &info.subresource).hash(&mut hasher);
        let index = usize::try_from(hasher.finish()).unwrap_or(0).checked_rem(self.until_ms.len())?;
        self.until_ms.get(index)
    }

    pub(crate) fn is_slow(&self, entry: &AtomicU64) -> bool {
        self.milliseconds(Duration::ZERO) < entry.load(Ordering::Relaxed)
    }

    /// Executes a request, and notes if it is slow.
    pub(crate) async fn measure<F: Future>(&self, entry: &AtomicU64, work: F) -> F::Output {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            let began = Instant::now();
            let polled = work.as_mut().poll(cx);
            if began.elapsed() >= SLOW {
                entry.store(self.milliseconds(REMEMBERED), Ordering::Relaxed);
            }
            polled
        })
        .await
    }

    fn milliseconds(&self, later: Duration) -> u64 {
        u64::try_from(self.began.elapsed().saturating_add(later).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slow_requests_are_remembered_by_user_verb_and_resource() {
        let slow = SlowRequests::default();
        let info = |path: &str| RequestInfo::parse("GET", path.to_string(), &[]).ok().unwrap();
        let (maps, pods) = (info("/api/v1/namespaces/a/configmaps"), info("/api/v1/namespaces/a/pods"));
        let entry = slow.entry("alice", &maps).unwrap();
        slow.measure(entry, async {}).await;
        assert!(!slow.is_slow(entry));
        slow.measure(entry, async { std::thread::sleep(SLOW) }).await;
        assert!(slow.is_slow(slow.entry("alice", &info("/api/v1/namespaces/b/configmaps")).unwrap()));
        assert!(!slow.is_slow(slow.entry("alice", &pods).unwrap()));
        assert!(!slow.is_slow(slow.entry("bob", &maps).unwrap()));
        assert!(slow.entry("alice", &info("/api/v1/namespaces/a/configmaps/b")).is_none());
    }
}
