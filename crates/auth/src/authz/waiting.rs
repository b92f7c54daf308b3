//! Waits for decisions in synchronous code, such as expressions and admission plugins. If a webhook must be called, the thread
//! blocks; the runtime moves its other tasks to another thread.
//!
//! A webhook may take half a minute. A thread that waits for one gives up what other requests need, and only so many threads wait
//! that the runtime always has some left.

use super::{Authorizing, Decision, Failure};
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::{Handle, RuntimeFlavor};

/// How many threads wait at the same time. The runtime has 512, and without a free one the tasks of a thread that begins to wait
/// would wait, too.
const WAITING_THREADS_MAX: usize = 384;

static WAITING: WaitingThreads = WaitingThreads::new(WAITING_THREADS_MAX);

thread_local! {
    /// What this thread gives up when it waits.
    static HELD: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Runs `work` on this thread. `held` is dropped when the work is done, or earlier if it waits for an authorizer.
pub fn with_held<T>(held: impl Any, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(HELD.replace(Some(Box::new(held))));
    work()
}

/// Puts back what was held before, also after a panic.
struct Restore(Option<Box<dyn Any>>);

impl Drop for Restore {
    fn drop(&mut self) {
        let done = HELD.replace(self.0.take());
        drop(done);
    }
}

impl Authorizing<'_> {
    /// Waits for the decision, for synchronous code such as CEL expressions and admission plugins.
    pub fn wait(self) -> Decision {
        let pending = match self {
            Authorizing::Ready(decision) => return decision.into_inner(),
            Authorizing::Pending(pending) => pending,
        };
        let runtime = Handle::try_current().ok();
        let Some(runtime) = runtime.filter(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread) else {
            return failed("this thread cannot wait for an authorizer");
        };
        let Some(_waiting) = WAITING.begin() else {
            return failed("too many requests wait for authorizers");
        };
        drop(HELD.take());
        tokio::task::block_in_place(|| runtime.block_on(pending))
    }
}

fn failed(why: &'static str) -> Decision {
    Decision::Failed(Failure { error: why.into(), ..Failure::default() })
}

/// Counts threads that wait.
struct WaitingThreads {
    count: AtomicUsize,
    max: usize,
}

/// A thread that waits until it is dropped.
struct Waiting<'a>(&'a WaitingThreads);

impl WaitingThreads {
    const fn new(max: usize) -> Self {
        WaitingThreads { count: AtomicUsize::new(0), max }
    }

    /// `None` if too many threads wait.
    fn begin(&self) -> Option<Waiting<'_>> {
        let waiting = Waiting(self);
        (self.count.fetch_add(1, Ordering::Relaxed) < self.max).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn only_so_many_threads_wait() {
        let threads = WaitingThreads::new(2);
        let (first, second) = (threads.begin(), threads.begin());
        assert!(first.is_some() && second.is_some() && threads.begin().is_none());
        drop(first);
        assert!(threads.begin().is_some());
        drop(second);
        assert_eq!(threads.count.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_is_held_is_given_up_while_a_thread_waits() {
        tokio::spawn(async {
            let held = Arc::new(());
            let others = Arc::clone(&held);
            with_held(held, || {
                assert_eq!(Arc::strong_count(&others), 2);
                assert!(matches!(
                    Authorizing::from(Decision::NoOpinion(Default::default())).wait(),
                    Decision::NoOpinion(_)
                ));
                assert_eq!(Arc::strong_count(&others), 2, "a decision that is there is not waited for");
                let seen = Arc::clone(&others);
                let pending = Authorizing::Pending(Box::pin(async move {
                    assert_eq!(Arc::strong_count(&seen), 2, "this one and `others`");
                    Decision::NoOpinion(Default::default())
                }));
                assert!(matches!(pending.wait(), Decision::NoOpinion(_)));
            });
        })
        .await
        .unwrap();
    }
}
