//! `IdleTimer`: the clock by which hyper limits how long a connection waits for the head of its next request.
//!
//! hyper asks for a new time-out with each request and drops it when the head has arrived. In Tokio each of them would be entered into the
//! timer that all threads share, and removed from it. Here the requests of a connection share one entry: a time-out that ends
//! later than the entry only looks again when the entry is due.

use hyper::rt::{Sleep, Timer};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The timer of one connection. Its time-outs must not get shorter: one that is requested later ends later.
#[derive(Clone, Default)]
pub(crate) struct IdleTimer(Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>);

impl Timer for IdleTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now().checked_add(duration).unwrap_or_else(|| self.now()))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Timeout { timer: self.clone(), deadline })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

/// One time-out.
struct Timeout {
    timer: IdleTimer,
    deadline: Instant,
}

impl Future for Timeout {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut entry = self.timer.0.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = self.deadline.into();
        let entry = entry.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        loop {
            ready!(entry.as_mut().poll(cx));
            if tokio::time::Instant::now() >= deadline {
                return Poll::Ready(());
            }
            entry.as_mut().reset(deadline);
        }
    }
}

impl Sleep for Timeout {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_time_out_ends_at_its_own_time() {
        let timer = IdleTimer::default();
        let began = timer.now();
        let mut first = timer.sleep(Duration::from_millis(10));
        _ = std::future::poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx))).await;
        // The head of the first request came, and the connection waits for the second one.
        drop(first);
        let limit = Duration::from_millis(40);
        timer.sleep(limit).await;
        assert!(timer.now() - began >= limit);
    }
}
