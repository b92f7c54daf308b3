//! The deadline of a request. It is task-local, so that admission can tell webhooks how much time is left.

use pintle_webhook::Timeout;
use std::future::Future;
use std::time::{Duration, Instant};

tokio::task_local! {
    static DEADLINE: Instant;
}

/// Runs the work of a request that must be answered by `deadline`, if it has one.
pub async fn with_deadline<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> T {
    match deadline {
        Some(deadline) => DEADLINE.scope(deadline, work).await,
        None => work.await,
    }
}

/// When the current request must be answered.
pub(crate) fn current() -> Option<Instant> {
    DEADLINE.try_with(|deadline| *deadline).ok()
}

/// The time-out of a webhook call. The `timeout` parameter of the call is the webhook's own time-out or, if that is
/// less, the remaining time of the request, rounded up to whole seconds. The call itself may take the webhook's full
/// time-out, because the request's own deadline ends it earlier.
pub(crate) fn webhook_timeout(own: Duration) -> Timeout {
    let left = DEADLINE.try_with(|deadline| deadline.saturating_duration_since(Instant::now()));
    let left = left.map_or(u64::MAX, seconds_rounded_up);
    Timeout { limit: own, parameter_seconds: own.as_secs().min(left) }
}

fn seconds_rounded_up(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_second_counts_as_one() {
        for (milliseconds, want) in [(0, 0), (1, 1), (2_500, 3), (3_000, 3), (3_999, 4)] {
            assert_eq!(seconds_rounded_up(Duration::from_millis(milliseconds)), want, "{milliseconds} ms");
        }
    }

    #[tokio::test]
    async fn a_deadline_shortens_the_parameter_of_the_call() {
        let own = Duration::from_secs(10);
        assert_eq!(webhook_timeout(own), Timeout { limit: own, parameter_seconds: 10 });
        let soon = Instant::now().checked_add(Duration::from_millis(1_500)).unwrap();
        let timeout = with_deadline(Some(soon), async { webhook_timeout(own) }).await;
        assert_eq!(timeout, Timeout { limit: own, parameter_seconds: 2 });
    }
}
