//! `Offload`: runs work that occupies a processor for long without blocking the threads that answer other requests.
//!
//! An offloaded future is polled where blocking is allowed: the runtime moves the other tasks of the thread to
//! another thread. The number of futures that are polled at once is limited; the remaining ones wait for a permit
//! without occupying a thread, and users take turns.

mod permits;

use self::permits::{Permits, Queued};
use crate::requestinfo::RequestInfo;
use crate::slow_requests::SlowRequests;
use pintle_auth::authz::with_held;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};
use tokio::runtime::{Handle, RuntimeFlavor};

/// From this size on, a body is decoded, patched and validated on the offload pool. Below it, that takes less time than
/// switching threads.
pub(crate) const LARGE_BODY_BYTES: usize = 64 * 1024;

thread_local! {
    /// Whether this thread polls an offloaded future.
    static IS_OFFLOADED: Cell<bool> = const { Cell::new(false) };
}

/// Runs heavy work outside the async workers, with limited concurrency.
pub struct Offload {
    permits: Arc<Permits>,
    slow: SlowRequests,
}

impl Default for Offload {
    /// As many concurrent tasks as there are processors, but at least two: a slow one must not block all others.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Offload::with_permits(processors.max(2))
    }
}

impl Offload {
    fn with_permits(permits: usize) -> Self {
        Offload { permits: Arc::new(Permits::new(permits)), slow: SlowRequests::default() }
    }

    /// Runs a future on the offload pool. `key` is that of the user whose turn it takes.
    pub(crate) async fn run<F: Future>(&self, key: u64, work: F) -> F::Output {
        let work = std::pin::pin!(work);
        Offloaded { queued: self.permits.queue(key), work }.await
    }

    /// Where it is noted whether the requests of a user for a resource are slow; `None` if they never are.
    pub(crate) fn entry(&self, user: &str, info: &RequestInfo, query_bytes: usize) -> Option<&AtomicU64> {
        self.slow.entry(user, info, query_bytes)
    }

    /// Executes a request, on the offload pool if it is large or the last of its entry was slow.
    pub(crate) async fn execute<F: Future>(
        &self,
        key: u64,
        entry: Option<&AtomicU64>,
        is_large: bool,
        work: F,
    ) -> F::Output {
        let Some(entry) = entry else {
            return if is_large { self.run(key, work).await } else { work.await };
        };
        let offloads = is_large || self.slow.is_slow(entry);
        let work = self.slow.measure(entry, work);
        if offloads { self.run(key, work).await } else { work.await }
    }
}

struct Offloaded<'a, F> {
    queued: Queued,
    work: Pin<&'a mut F>,
}

impl<F: Future> Future for Offloaded<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        // Offloaded work that offloads a part of itself has a permit already. If it waited for a second one, all permits
        // could be granted to parts whose whole waits for a permit.
        if IS_OFFLOADED.get() {
            return this.work.as_mut().poll(cx);
        }
        // The permit is released after each poll, so work that awaits something else does not hold one, and neither does a
        // thread that waits for an authorization webhook within a poll.
        let permit = ready!(this.queued.poll_permit(cx));
        let poll = || {
            let _mark = OffloadedMark::set();
            with_held(permit, || this.work.as_mut().poll(cx))
        };
        if Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread) {
            tokio::task::block_in_place(poll)
        } else {
            poll()
        }
    }
}

/// Marks the thread until it is dropped, also by a panic.
struct OffloadedMark;

impl OffloadedMark {
    fn set() -> Self {
        IS_OFFLOADED.set(true);
        OffloadedMark
    }
}

impl Drop for OffloadedMark {
    fn drop(&mut self) {
        IS_OFFLOADED.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_auth::{Authorizing, Decision};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn heavy_work_is_limited_and_does_not_delay_others() {
        let offload = Arc::new(Offload::with_permits(2));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        let heavy: Vec<_> = (0..4)
            .map(|_| {
                let (offload, now, most) = (Arc::clone(&offload), Arc::clone(&now), Arc::clone(&most));
                let gate = Arc::clone(&gate);
                tokio::spawn(async move {
                    offload
                        .run(1, async {
                            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            gate.lock().unwrap().recv().unwrap();
                            now.fetch_sub(1, Ordering::SeqCst);
                        })
                        .await;
                })
            })
            .collect();
        // Even with a single runtime thread, other requests are answered during the blocking work.
        let light = tokio::spawn(async { tokio::time::sleep(Duration::from_millis(5)).await });
        tokio::time::timeout(Duration::from_secs(20), light).await.unwrap().unwrap();
        (0..4).for_each(|_| go.send(()).unwrap());
        for task in heavy {
            task.await.unwrap();
        }
        assert!(most.load(Ordering::SeqCst) <= 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_that_waits_for_an_authorizer_holds_no_permit() {
        let offload = Arc::new(Offload::with_permits(2));
        let (answer, _) = tokio::sync::broadcast::channel::<()>(1);
        let asking: Vec<_> = (0..8)
            .map(|_| {
                let (offload, mut answered) = (Arc::clone(&offload), answer.subscribe());
                let webhook = Authorizing::Pending(Box::pin(async move {
                    answered.recv().await.unwrap();
                    Decision::NoOpinion(Default::default())
                }));
                tokio::spawn(async move { offload.run(1, async { webhook.wait() }).await })
            })
            .collect();
        let others = async {
            for _ in 0..100 {
                offload.run(2, tokio::task::yield_now()).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), others).await.expect("the permits are all taken");
        answer.send(()).unwrap();
        for asking in asking {
            assert!(matches!(asking.await.unwrap(), Decision::NoOpinion(_)));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn parts_of_offloaded_work_need_no_permit() {
        let offload = Arc::new(Offload::with_permits(2));
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                let offload = Arc::clone(&offload);
                tokio::spawn(async move {
                    let part = async {
                        tokio::task::yield_now().await;
                        std::thread::sleep(Duration::from_micros(100));
                    };
                    offload.run(1, async { offload.run(2, part).await }).await;
                })
            })
            .collect();
        let all = async {
            for task in tasks {
                task.await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(20), all).await.expect("the permits are all taken");
    }
}
