//! A flow schema within a priority level: the statistics of its requests. They are updated under the level's lock; the
//! lock in here is never contended.

use crate::Histogram;
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const QUEUE_LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const SECONDS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const WATCHES: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0];
const SEATS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];

/// The reason why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// All seats are taken and there are no queues.
    ConcurrencyLimit,
    /// All seats are taken and the queue is full.
    QueueFull,
    /// The request waited too long, or its client disconnected.
    TimeOut,
}

impl RejectReason {
    /// All reasons.
    pub const ALL: [RejectReason; 3] =
        [RejectReason::ConcurrencyLimit, RejectReason::QueueFull, RejectReason::TimeOut];

    /// The name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            RejectReason::ConcurrencyLimit => "concurrency-limit",
            RejectReason::QueueFull => "queue-full",
            RejectReason::TimeOut => "time-out",
        }
    }
}

/// A flow schema and its priority level, the result of classification.
pub struct Flow {
    /// The schema's name.
    pub schema: Arc<str>,
    /// The level's name.
    pub level: Arc<str>,
    /// The schema's uid; empty where the API has no such object.
    pub schema_uid: Bytes,
    /// The level's uid; empty where the API has no such object.
    pub level_uid: Bytes,
    stats: Mutex<FlowReport>,
}

/// The statistics of a flow since the last report; gauges are current values.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the metrics")]
pub struct FlowReport {
    pub dispatched: u64,
    pub rejected: [u64; 3],
    pub no_accommodation: u64,
    pub was_queued: bool,
    pub was_executed: bool,
    pub inqueue_requests: i64,
    pub inqueue_seats: i64,
    pub executing_requests: i64,
    pub executing_seats: i64,
    pub execution_regular: Histogram,
    pub execution_watch: Histogram,
    pub wait_executed: Histogram,
    pub wait_rejected: Histogram,
    pub queue_length: Histogram,
    pub estimated_seats: Histogram,
    pub watch_count: Histogram,
}

impl Flow {
    pub(crate) fn new(schema: Arc<str>, level: Arc<str>, schema_uid: Bytes, level_uid: Bytes) -> Self {
        let stats = FlowReport {
            dispatched: 0,
            rejected: [0; 3],
            no_accommodation: 0,
            was_queued: false,
            was_executed: false,
            inqueue_requests: 0,
            inqueue_seats: 0,
            executing_requests: 0,
            executing_seats: 0,
            execution_regular: Histogram::new(SECONDS),
            execution_watch: Histogram::new(SECONDS),
            wait_executed: Histogram::new(SECONDS),
            wait_rejected: Histogram::new(SECONDS),
            queue_length: Histogram::new(QUEUE_LENGTHS),
            estimated_seats: Histogram::new(SEATS),
            watch_count: Histogram::new(WATCHES),
        };
        Flow { schema, level, schema_uid, level_uid, stats: Mutex::new(stats) }
    }

    pub(crate) fn stats(&self) -> MutexGuard<'_, FlowReport> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The statistics since the last call.
    pub(crate) fn take_report(&self) -> FlowReport {
        let mut stats = self.stats();
        FlowReport {
            dispatched: std::mem::take(&mut stats.dispatched),
            rejected: std::mem::take(&mut stats.rejected),
            no_accommodation: std::mem::take(&mut stats.no_accommodation),
            was_queued: stats.was_queued,
            was_executed: stats.was_executed,
            inqueue_requests: stats.inqueue_requests,
            inqueue_seats: stats.inqueue_seats,
            executing_requests: stats.executing_requests,
            executing_seats: stats.executing_seats,
            execution_regular: stats.execution_regular.take(),
            execution_watch: stats.execution_watch.take(),
            wait_executed: stats.wait_executed.take(),
            wait_rejected: stats.wait_rejected.take(),
            queue_length: stats.queue_length.take(),
            estimated_seats: stats.estimated_seats.take(),
            watch_count: stats.watch_count.take(),
        }
    }
}

impl FlowReport {
    /// Counts that a request entered (1) or left (-1) a queue.
    pub(crate) fn shift_queued(&mut self, requests: i64, seats: u64) {
        self.was_queued = true;
        self.inqueue_requests = self.inqueue_requests.saturating_add(requests);
        self.inqueue_seats =
            self.inqueue_seats.saturating_add(requests.saturating_mul(i64::try_from(seats).unwrap_or(0)));
    }

    /// Counts seats that are taken (1) or freed (-1).
    pub(crate) fn shift_seats(&mut self, sign: i64, seats: u64) {
        self.executing_seats =
            self.executing_seats.saturating_add(sign.saturating_mul(i64::try_from(seats).unwrap_or(0)));
    }

    pub(crate) fn count_rejection(&mut self, reason: RejectReason) {
        let [concurrency, full, time] = &mut self.rejected;
        let count = match reason {
            RejectReason::ConcurrencyLimit => concurrency,
            RejectReason::QueueFull => full,
            RejectReason::TimeOut => time,
        };
        *count = count.saturating_add(1);
    }
}
