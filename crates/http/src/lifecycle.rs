//! Shutdown: tracks ordinary requests in flight, and rejects new ones (`--shutdown-send-retry-after`).

use crate::api::ApiResponse;
use crate::{headers, respond, target};
use http::request::Parts;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// The state of a shutdown.
#[derive(Default)]
pub struct Lifecycle {
    sends_away: AtomicBool,
    in_flight: AtomicUsize,
    one_ended: Notify,
}

/// Counts an ordinary request as in flight until it is dropped.
pub(crate) struct Ordinary(Arc<Lifecycle>);

impl Drop for Ordinary {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.one_ended.notify_waiters();
        }
    }
}

/// Paths of probes and monitoring: they are answered until the end, and shutdown does not wait for them.
const EXEMPT_PATHS: [&str; 4] = ["/readyz", "/livez", "/healthz", "/metrics"];

impl Lifecycle {
    /// Answers all new requests with 429 and `Retry-After` from now on.
    pub(crate) fn reject_new_requests(&self) {
        self.sends_away.store(true, Ordering::Release);
    }

    /// Counts a request as in flight.
    pub(crate) fn begin(self: &Arc<Self>) -> Ordinary {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        Ordinary(Arc::clone(self))
    }

    /// Waits until no ordinary request is in flight.
    pub(crate) async fn drained(&self) {
        loop {
            let ended = self.one_ended.notified();
            let mut ended = std::pin::pin!(ended);
            // Register before reading the count, so that no end is missed.
            ended.as_mut().enable();
            if self.in_flight.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }

    /// The answer to a request that arrives during shutdown.
    pub(crate) fn refusal(&self, parts: &Parts) -> Option<ApiResponse> {
        if !self.sends_away.load(Ordering::Acquire) || is_exempt(parts) {
            return None;
        }
        let mut answer = respond::text(429, "The apiserver is shutting down, please try again later.");
        answer.set_header("retry-after", "5");
        answer.set_header("connection", "close");
        Some(answer)
    }
}

/// Returns whether the request is from a probe, monitoring or kube-apiserver's own client (by User-Agent).
fn is_exempt(parts: &Parts) -> bool {
    EXEMPT_PATHS.iter().any(|prefix| target::path(parts).starts_with(prefix))
        || headers::first(&parts.headers, "user-agent").starts_with("kube-apiserver/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str) -> Parts {
        http::Request::builder().uri(path).body(()).map(|request| request.into_parts().0).unwrap()
    }

    #[tokio::test]
    async fn the_end_waits_for_requests_in_flight() {
        let lifecycle = Arc::new(Lifecycle::default());
        let request = lifecycle.begin();
        let waits = tokio::spawn({
            let lifecycle = lifecycle.clone();
            async move { lifecycle.drained().await }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(request);
        waits.await.unwrap();
    }

    #[test]
    fn late_requests_are_sent_away_but_for_probes() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.refusal(&parts("/api")).is_none());
        lifecycle.reject_new_requests();
        assert_eq!(lifecycle.refusal(&parts("/api")).map(|answer| answer.code), Some(429));
        assert!(lifecycle.refusal(&parts("/readyz?verbose")).is_none());
    }
}
