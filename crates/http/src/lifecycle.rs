//! How the server ends: which ordinary requests are in flight, and whether new ones are sent away
//! (`--shutdown-send-retry-after`).

use crate::api::ApiResponse;
use crate::{headers, respond};
use http::request::Parts;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// What is known of the end of the server.
#[derive(Default)]
pub struct Lifecycle {
    sends_away: AtomicBool,
    in_flight: AtomicUsize,
    one_ended: Notify,
}

/// An ordinary request in flight, until it is dropped.
pub(crate) struct Ordinary(Arc<Lifecycle>);

impl Drop for Ordinary {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.one_ended.notify_waiters();
        }
    }
}

/// Paths that probes and monitoring ask for: they are answered until the end, and the end does not wait for them.
const EXEMPT_PATHS: [&str; 4] = ["/readyz", "/livez", "/healthz", "/metrics"];

impl Lifecycle {
    /// From now on new requests are answered 429 with `Retry-After`.
    pub(crate) fn send_away(&self) {
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
            // Registers before the count is read, so that no end is missed.
            ended.as_mut().enable();
            if self.in_flight.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }

    /// The answer to a request that comes too late.
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

/// Probes, monitoring, and kube-apiserver's own clients, which the name of the program tells.
fn is_exempt(parts: &Parts) -> bool {
    EXEMPT_PATHS.iter().any(|prefix| parts.uri.path().starts_with(prefix))
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
        lifecycle.send_away();
        assert_eq!(lifecycle.refusal(&parts("/api")).map(|answer| answer.code), Some(429));
        assert!(lifecycle.refusal(&parts("/readyz?verbose")).is_none());
    }
}
