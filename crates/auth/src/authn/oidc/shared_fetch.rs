//! `SharedFetch`: concurrent callers share one fetch, which begins after they asked for it. A result that was fetched before may be
//! outdated: a provider publishes a new key, and signs a token with it at once.

use std::future::Future;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// What is fetched, and by whom.
pub(super) struct SharedFetch<T> {
    pause: Duration,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// When the next fetch may begin.
    next: Option<Instant>,
    last: Option<Fetched<T>>,
}

struct Fetched<T> {
    began: Instant,
    ended: Instant,
    outcome: Result<T, String>,
}

impl<T: Clone> SharedFetch<T> {
    /// Fetches begin at least `pause` apart.
    pub(super) fn new(pause: Duration) -> Self {
        SharedFetch { pause, state: Mutex::new(State { next: None, last: None }) }
    }

    /// Returns the result of a fetch that begins after this call, by `fetch` or by that of another caller; or the error of one that
    /// runs already.
    pub(super) async fn run(&self, fetch: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let called = Instant::now();
        // A caller holds the lock while it fetches; the others wait here for its result.
        let mut state = self.state.lock().await;
        if let Some(last) = &state.last
            && (last.began > called || (last.ended > called && last.outcome.is_err()))
        {
            return last.outcome.clone();
        }
        if let Some(next) = state.next {
            sleep_until(next).await;
        }
        let began = Instant::now();
        // Set before the fetch: its caller may leave, and the next one must not begin at once.
        state.next = began.checked_add(self.pause);
        let outcome = fetch.await;
        state.last = Some(Fetched { began, ended: Instant::now(), outcome: outcome.clone() });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::Notify;

    /// A provider whose answers wait until they are let through.
    #[derive(Default)]
    struct Provider {
        keys: AtomicU32,
        requests: AtomicU32,
        asked: Notify,
        answer: Notify,
    }

    impl Provider {
        async fn fetch(&self) -> Result<u32, String> {
            let keys = self.keys.load(Ordering::SeqCst);
            self.requests.fetch_add(1, Ordering::SeqCst);
            self.asked.notify_one();
            self.answer.notified().await;
            if keys == 0 { Err("no keys".to_string()) } else { Ok(keys) }
        }
    }

    struct Test {
        shared: Arc<SharedFetch<u32>>,
        provider: Arc<Provider>,
    }

    impl Test {
        fn new(pause: Duration) -> Self {
            Test { shared: Arc::new(SharedFetch::new(pause)), provider: Arc::default() }
        }

        /// Begins a call, and returns once it waits for the provider or for another call.
        async fn call(&self) -> tokio::task::JoinHandle<Result<u32, String>> {
            let (shared, provider) = (Arc::clone(&self.shared), Arc::clone(&self.provider));
            let call = tokio::spawn(async move { shared.run(provider.fetch()).await });
            tokio::task::yield_now().await;
            call
        }

        fn publish(&self, keys: u32) {
            self.provider.keys.store(keys, Ordering::SeqCst);
        }

        async fn answer(&self) {
            self.provider.asked.notified().await;
            self.provider.answer.notify_one();
        }
    }

    #[tokio::test]
    async fn keys_that_were_published_during_a_fetch_are_fetched() {
        let test = Test::new(Duration::ZERO);
        test.publish(1);
        let before = test.call().await;
        test.publish(2);
        let after: Vec<_> = [test.call().await, test.call().await, test.call().await].into();
        test.answer().await;
        assert_eq!(before.await.unwrap(), Ok(1));
        test.answer().await;
        for call in after {
            assert_eq!(call.await.unwrap(), Ok(2));
        }
        assert_eq!(test.provider.requests.load(Ordering::SeqCst), 2, "they share one fetch");
    }

    #[tokio::test]
    async fn keys_that_were_published_right_after_a_fetch_are_fetched_after_the_pause() {
        let test = Test::new(Duration::from_millis(20));
        for keys in [1, 2] {
            test.publish(keys);
            let began = Instant::now();
            let call = test.call().await;
            test.answer().await;
            assert_eq!(call.await.unwrap(), Ok(keys));
            assert!(keys == 1 || began.elapsed() >= Duration::from_millis(15), "fetches are rare");
        }
    }

    #[tokio::test]
    async fn callers_who_wait_for_a_failing_fetch_do_not_wait_for_another() {
        let test = Test::new(Duration::ZERO);
        let calls = [test.call().await, test.call().await];
        test.answer().await;
        for call in calls {
            assert_eq!(call.await.unwrap(), Err("no keys".to_string()));
        }
        assert_eq!(test.provider.requests.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_caller_who_leaves_does_not_end_the_fetches_of_others() {
        let test = Test::new(Duration::ZERO);
        test.publish(1);
        let first = test.call().await;
        let second = test.call().await;
        first.abort();
        test.provider.asked.notified().await;
        test.answer().await;
        assert_eq!(second.await.unwrap(), Ok(1));
    }
}
