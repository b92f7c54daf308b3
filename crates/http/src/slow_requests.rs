//! Which requests took a processor for long: of one user, with one verb, for one resource, with a long query or without. A small request can be expensive
//! (admission policies, validation rules, reviews of many rules, selectors), and only its execution shows it.

use crate::requestinfo::RequestInfo;
use rustix::time::{ClockId, clock_gettime};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A request that uses a processor longer than this without a pause is slow.
const SLOW: Duration = Duration::from_millis(20);
/// The flag of an entry after a request that took long, perhaps because its thread had to wait for a processor. The time that a
/// thread used costs a system call to find out, so only the next requests of the entry are measured by it.
const SUSPECTED: u64 = 1 << 63;
/// How long that is.
const SUSPICION: Duration = Duration::from_secs(5);
/// How long requests of the same kind count as slow after that.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Queries that are longer count apart from others.
const LONG_QUERY_BYTES: usize = 4096;
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
    /// The entry for the requests of a user with this verb for this resource, and with a query of this size: a selector of
    /// half a megabyte says nothing about lists without one. A get of one object is never slow, and too frequent to be
    /// measured.
    pub(crate) fn entry(&self, user: &str, info: &RequestInfo, query_bytes: usize) -> Option<&AtomicU64> {
        if info.verb == "get" {
            return None;
        }
        let is_long_query = query_bytes > LONG_QUERY_BYTES;
        let mut hasher = DefaultHasher::new();
        (user, &info.verb, &info.group, &info.resource, &info.subresource, is_long_query).hash(&mut hasher);
        let index = usize::try_from(hasher.finish()).unwrap_or(0).checked_rem(self.until_ms.len())?;
        self.until_ms.get(index)
    }

    pub(crate) fn is_slow(&self, entry: &AtomicU64) -> bool {
        let noted = entry.load(Ordering::Relaxed);
        noted & SUSPECTED == 0 && self.milliseconds(Duration::ZERO) < noted
    }

    /// Returns whether requests of the entry are slow or suspected to be.
    fn is_noted(&self, entry: &AtomicU64) -> bool {
        let noted = entry.load(Ordering::Relaxed);
        noted != 0 && self.milliseconds(Duration::ZERO) < noted & !SUSPECTED
    }

    /// Executes a request, and notes if it is slow.
    pub(crate) async fn measure<F: Future>(&self, entry: &AtomicU64, work: F) -> F::Output {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            let used_before = if self.is_noted(entry) { Some(used_by_thread()) } else { None };
            let began = Instant::now();
            let polled = work.as_mut().poll(cx);
            if began.elapsed() < SLOW {
                return polled;
            }
            let noted = match used_before {
                None => self.milliseconds(SUSPICION) | SUSPECTED,
                Some(before) if is_long_since(before) => self.milliseconds(REMEMBERED),
                Some(_) => return polled,
            };
            entry.store(noted, Ordering::Relaxed);
            polled
        })
        .await
    }

    fn milliseconds(&self, later: Duration) -> u64 {
        u64::try_from(self.began.elapsed().saturating_add(later).as_millis()).unwrap_or(u64::MAX)
    }
}

/// The processor time that this thread has used.
fn used_by_thread() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// Returns whether this thread has used a processor for long since it had used `before`.
fn is_long_since(before: Duration) -> bool {
    used_by_thread().saturating_sub(before) >= SLOW
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses a processor for longer than [`SLOW`].
    async fn compute() {
        let began = used_by_thread();
        while !is_long_since(began) {}
    }

    #[tokio::test]
    async fn slow_requests_are_remembered_by_user_verb_and_resource() {
        let slow = SlowRequests::default();
        let info = |path: &str| RequestInfo::parse("GET", path.to_string(), &[]).ok().unwrap();
        let (maps, pods) = (info("/api/v1/namespaces/a/configmaps"), info("/api/v1/namespaces/a/pods"));
        let entry = slow.entry("alice", &maps, 0).unwrap();
        slow.measure(entry, async {}).await;
        assert!(!slow.is_slow(entry));
        // A thread that waits uses no processor, whatever for.
        slow.measure(entry, async { std::thread::sleep(SLOW) }).await;
        slow.measure(entry, async { std::thread::sleep(SLOW) }).await;
        assert!(!slow.is_slow(entry));
        slow.measure(entry, compute()).await;
        assert!(slow.is_slow(slow.entry("alice", &info("/api/v1/namespaces/b/configmaps"), 20).unwrap()));
        assert!(!slow.is_slow(slow.entry("alice", &pods, 0).unwrap()));
        assert!(!slow.is_slow(slow.entry("bob", &maps, 0).unwrap()));
        assert!(!slow.is_slow(slow.entry("alice", &maps, 500_000).unwrap()), "long queries count apart");
        assert!(slow.entry("alice", &info("/api/v1/namespaces/a/configmaps/b"), 0).is_none());
    }
}
