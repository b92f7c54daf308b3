//! Batching: a bounded queue of events, and a task that writes the queued events together.

use super::{Backend, Pending, Sink, Truncation, truncate_events, write_all};
use crate::event::Event;
use pintle_metrics::families;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The limits of batches.
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    /// The maximum number of queued events; further ones are dropped.
    pub buffer_size: usize,
    /// The maximum number of events that are written together.
    pub max_size: usize,
    /// The longest time that an event waits for others; zero: until the batch is full.
    pub max_wait: Duration,
    /// The maximum number of batches per second, and the size of a burst.
    pub throttle: Option<(f64, u32)>,
}

/// Writes events in batches. If the queue is full, events are dropped, so that requests are not delayed.
pub struct Batched {
    name: &'static str,
    queue: Mutex<Option<mpsc::Sender<Event>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Batched {
    /// Starts the task that writes to `backend`; it ends with [`Sink::close`].
    pub fn start(backend: Arc<dyn Backend>, options: BatchOptions, truncation: Option<Truncation>) -> Self {
        let (queue, events) = mpsc::channel(options.buffer_size.max(1));
        let name = backend.name();
        let task = tokio::spawn(run(backend, options, truncation, events));
        Batched { name, queue: Mutex::new(Some(queue)), task: Mutex::new(Some(task)) }
    }
}

impl Sink for Batched {
    fn process<'a>(&'a self, event: &'a Event) -> Pending<'a, bool> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let queued = queue.as_ref().is_some_and(|queue| queue.try_send(event.clone()).is_ok());
        if !queued {
            families::AUDIT_ERRORS.inc(&[self.name]);
        }
        Box::pin(async move { queued })
    }

    fn is_strict(&self) -> bool {
        false
    }

    fn close(&self) -> Pending<'_, ()> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async move {
            if let Some(task) = task {
                _ = task.await;
            }
        })
    }
}

async fn run(
    backend: Arc<dyn Backend>,
    options: BatchOptions,
    truncation: Option<Truncation>,
    mut events: mpsc::Receiver<Event>,
) {
    let mut throttle = options.throttle.map(|(qps, burst)| Throttle::new(qps, burst));
    while let Some(first) = events.recv().await {
        let mut batch = vec![first];
        let filled = fill(&mut batch, options.max_size, &mut events);
        if options.max_wait.is_zero() {
            filled.await;
        } else {
            // After `max_wait`, an incomplete batch is written.
            _ = tokio::time::timeout(options.max_wait, filled).await;
        }
        if let Some(throttle) = &mut throttle {
            throttle.wait_for_token().await;
        }
        let batch = truncate_events(truncation, batch);
        write_all(&*backend, truncation, &batch).await;
    }
}

/// Adds events until the batch is full or the queue is closed.
async fn fill(batch: &mut Vec<Event>, size_max: usize, events: &mut mpsc::Receiver<Event>) {
    while batch.len() < size_max {
        let Some(event) = events.recv().await else { return };
        batch.push(event);
    }
}

/// A token bucket.
struct Throttle {
    per_second: f64,
    burst: f64,
    tokens: f64,
    last: Instant,
}

impl Throttle {
    fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Throttle { per_second, burst, tokens: burst, last: Instant::now() }
    }

    async fn wait_for_token(&mut self) {
        let now = Instant::now();
        let gained = now.saturating_duration_since(self.last).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.last = now;
        self.tokens -= 1.0;
        if self.tokens < 0.0 && self.per_second > 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(-self.tokens / self.per_second)).await;
        }
    }
}
