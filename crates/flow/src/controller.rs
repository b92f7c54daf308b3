//! `Controller`: classifies requests, admits them, and applies the objects that configure it.

mod configure;

use crate::histogram::TimingRatio;
use crate::level::{Arrived, Arriving, Level};
use crate::objects::SchemaObject;
use crate::queues::Ticket;
use crate::schema::Distinguisher;
use crate::seat::Place;
use crate::{
    Digest, Flow, FlowReport, LevelReport, LevelRow, QueueRow, RequestRow, Seat, TimingReport, Waiting,
    WatchCounts, Work,
};
use arc_swap::ArcSwap;
use configure::{Configuring, Schema};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const READ_WRITE_RATIOS: &[f64] =
    &[0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];

/// Returns the time since some moment before the controller was created.
pub type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Priority and fairness of a server. `D` is the description of a request in the dump of requests.
pub struct Controller<D> {
    seats: u64,
    clock: Clock,
    /// Called when [`Controller::maintain`] has to be called earlier than it returned.
    signal: Box<dyn Fn() + Send + Sync>,
    config: ArcSwap<Config<D>>,
    configuring: Mutex<Configuring>,
    watches: Arc<WatchCounts>,
    /// The numbers of executing and of waiting requests, each for reads and for writes.
    read_write: Mutex<[Gauge; 4]>,
}

/// The configuration in force.
pub(crate) struct Config<D> {
    /// The schemas in the order in which they are matched.
    schemas: Vec<Schema<D>>,
    levels: BTreeMap<Arc<str>, Arc<Level<D>>>,
}

struct Gauge {
    count: u32,
    /// The highest count since it was last taken.
    watermark: u32,
    ratio: TimingRatio,
}

/// Whether a request reads or changes objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadWrite {
    /// The request reads.
    Read,
    /// The request begins a watch.
    Watch,
    /// The request writes.
    Write,
}

/// The outcome of the admission of a request.
pub enum Entry<D> {
    /// The request executes.
    Execute(Seat<D>),
    /// The request waits.
    Wait(Waiting<D>),
    /// The request is rejected; the client should retry after so many seconds.
    Reject {
        /// The seconds.
        retry_after: u64,
    },
}

/// The estimated work of a request, and the number of watches that it notifies, if that was counted.
pub type Estimate = (Work, Option<u64>);

impl<D> Controller<D> {
    /// Creates the controller of a server with this many seats for all levels together. Only the mandatory objects
    /// are in force.
    pub fn new(seats: u64, clock: Clock, signal: Box<dyn Fn() + Send + Sync>) -> Self {
        let now = clock();
        let gauge = || Gauge { count: 0, watermark: 0, ratio: TimingRatio::new(READ_WRITE_RATIOS, now) };
        let controller = Controller {
            seats,
            clock,
            signal,
            config: ArcSwap::from_pointee(Config { schemas: Vec::new(), levels: BTreeMap::new() }),
            configuring: Mutex::default(),
            watches: Arc::default(),
            read_write: Mutex::new([gauge(), gauge(), gauge(), gauge()]),
        };
        controller.configure(Vec::new(), Vec::new());
        controller
    }

    /// The time of the controller's clock.
    pub fn now(&self) -> Duration {
        (self.clock)()
    }

    /// The watches, counted by what they select.
    pub fn watches(&self) -> &Arc<WatchCounts> {
        &self.watches
    }

    /// Classifies a request and admits it. `estimate` receives the maximum number of seats that a request of the
    /// level may take.
    pub fn enter(
        self: &Arc<Self>,
        request: &Digest<'_>,
        kind: ReadWrite,
        estimate: impl FnOnce(u64) -> Estimate,
        detail: impl FnOnce() -> D,
    ) -> (Arc<Flow>, Entry<D>) {
        let config = self.config.load();
        let schema = config.classify(request);
        // A level with one queue does not distinguish flows.
        let distinguisher = if schema.queues > 1 { schema.distinguisher } else { Distinguisher::None };
        let hash = if schema.queues > 1 { hash(&schema.flow.schema, distinguisher.of(request)) } else { 0 };
        let flow = Arc::clone(&schema.flow);
        let detail = detail();
        let mut state = schema.level.state();
        let (work, watches) = estimate(state.request_seats_max);
        let now = self.now();
        let arriving = Arriving {
            flow: Arc::clone(&flow),
            hash,
            work,
            watches,
            distinguisher,
            is_watch: kind == ReadWrite::Watch,
            detail,
        };
        let arrived = state.arrive(now, arriving);
        drop(state);
        let place = |ticket| Place {
            controller: Arc::clone(self),
            level: Arc::clone(&schema.level),
            ticket,
            mutating: kind == ReadWrite::Write,
        };
        let entry = match arrived {
            Arrived::Execute(ticket) => Entry::Execute(Seat::new(place(ticket), now)),
            Arrived::Wait(ticket) => Entry::Wait(Waiting::new(place(ticket), Arc::clone(&flow))),
            Arrived::Reject { retry_after } => Entry::Reject { retry_after },
        };
        (flow, entry)
    }

    pub(crate) fn finish(&self, level: &Level<D>, ticket: Ticket, mutating: bool) {
        let mut state = level.state();
        let now = self.now();
        let lingers = state.finish(now, ticket).is_some();
        let is_over = state.quiescing && state.is_idle();
        drop(state);
        self.count_executing(mutating, -1, now);
        if lingers || is_over {
            (self.signal)();
        }
    }

    pub(crate) fn cancel_waiting(&self, level: &Level<D>, ticket: Ticket) -> Option<u64> {
        let mut state = level.state();
        let retry_after = state.cancel(self.now(), ticket)?;
        let is_over = state.quiescing && state.is_idle();
        drop(state);
        if is_over {
            (self.signal)();
        }
        Some(retry_after)
    }

    pub(crate) fn count_executing(&self, mutating: bool, by: i32, now: Duration) {
        self.change_gauge(usize::from(mutating), by, now);
    }

    pub(crate) fn count_waiting(&self, mutating: bool, by: i32) {
        self.change_gauge(if mutating { 3 } else { 2 }, by, self.now());
    }

    fn change_gauge(&self, gauge: usize, by: i32, now: Duration) {
        let mut gauges = self.read_write.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gauge) = gauges.get_mut(gauge) {
            gauge.count = gauge.count.saturating_add_signed(by);
            gauge.watermark = gauge.watermark.max(gauge.count);
            gauge.ratio.set(now, f64::from(gauge.count));
        }
    }

    /// Requests that execute (reads, writes) and that wait (reads, writes), over time.
    pub fn read_write_report(&self) -> [TimingReport; 4] {
        let now = self.now();
        let mut gauges = self.read_write.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.each_mut().map(|gauge| gauge.ratio.take(now))
    }

    /// The highest numbers of requests that executed (reads, writes) and that waited (reads, writes) since the last call. As in
    /// kube-apiserver only changes count: it is 0 if no request began or ended.
    pub fn take_watermarks(&self) -> [u32; 4] {
        let mut gauges = self.read_write.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.each_mut().map(|gauge| std::mem::take(&mut gauge.watermark))
    }

    /// The counters of all levels.
    pub fn level_reports(&self) -> Vec<LevelReport> {
        let now = self.now();
        self.config.load().levels.values().map(|level| level.state().report(now)).collect()
    }

    /// The counters of all flows since the last call, including flows that are no longer in force.
    pub fn flow_reports(&self) -> Vec<(Arc<str>, Arc<str>, FlowReport)> {
        let mut configuring = self.configuring.lock().unwrap_or_else(PoisonError::into_inner);
        let config = self.config.load();
        let row = |flow: &Arc<Flow>| (Arc::clone(&flow.schema), Arc::clone(&flow.level), flow.take_report());
        let mut rows: Vec<_> = configuring.retired.iter().map(row).collect();
        rows.extend(config.schemas.iter().map(|schema| row(&schema.flow)));
        // Keep only flows that still have requests.
        configuring.retired.retain(|flow| Arc::strong_count(flow) > 1);
        rows
    }

    /// The proportion of the last division of seats.
    pub fn fair_fraction(&self) -> f64 {
        self.configuring.lock().unwrap_or_else(PoisonError::into_inner).fair_fraction
    }

    /// The levels, by name.
    pub fn level_rows(&self) -> Vec<LevelRow> {
        self.config.load().levels.values().map(|level| level.state().level_row()).collect()
    }

    /// The queues of all levels.
    pub fn queue_rows(&self) -> Vec<QueueRow> {
        let config = self.config.load();
        config.levels.values().flat_map(|level| level.state().queue_rows().collect::<Vec<_>>()).collect()
    }
}

impl<D: Clone> Controller<D> {
    /// The requests that wait or execute.
    pub fn request_rows(&self) -> Vec<RequestRow<D>> {
        self.config.load().levels.values().flat_map(|level| level.state().request_rows()).collect()
    }
}

impl<D> Config<D> {
    /// The schema that matches a request. A request that no schema matches, of a user without groups, is assigned to
    /// `catch-all`.
    fn classify(&self, request: &Digest<'_>) -> &Schema<D> {
        let taken = self.schemas.iter().find(|schema| schema.rules.iter().any(|rule| rule.matches(request)));
        let fallback = || self.schemas.iter().find(|schema| &*schema.flow.schema == crate::CATCH_ALL);
        taken.or_else(fallback).unwrap_or_else(|| unreachable!("configure always adds the schema catch-all"))
    }
}

/// The hash that selects a flow's queues. It is kube-apiserver's, so that a flow has the same queues there.
fn hash(schema: &str, distinguisher: &str) -> u64 {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    context.update(schema.as_bytes());
    context.update(&[0]);
    context.update(distinguisher.as_bytes());
    let sum = context.finish();
    sum.as_ref().first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Sorts schemas into the order in which they are matched: by precedence, then by name.
pub(crate) fn sort(schemas: &mut [SchemaObject]) {
    schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
}

#[cfg(test)]
mod tests;
