//! A priority level in operation: its queues and seats behind one short lock, and its statistics.

use crate::demand::{Demand, Integrator};
use crate::dropped::RetryAfter;
use crate::histogram::TimingRatio;
use crate::objects::LevelObject;
use crate::queues::{Arrival, FairQueues, LastDispatch, Phase, QueueState, Queuing, Ticket, Totals};
use crate::schema::Distinguisher;
use crate::shares::{Claim, Limits};
use crate::{Flow, RejectReason, SeatSeconds, TimingReport, Work};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

const SEAT_RATIOS: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const REQUEST_RATIOS: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const DEMAND_RATIOS: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];
/// The part of a level's seats that one request may take.
const REQUEST_SEATS_PART: f64 = 0.15;
/// The waiting time that is recorded for a request that did not wait.
const NO_WAIT_SECONDS: f64 = 1e-6;

/// A request that arrives at a level.
pub(crate) struct Arriving<D> {
    pub(crate) flow: Arc<Flow>,
    pub(crate) hash: u64,
    pub(crate) work: Work,
    pub(crate) watches: Option<u64>,
    pub(crate) distinguisher: Distinguisher,
    pub(crate) is_watch: bool,
    pub(crate) detail: D,
}

/// The data that a level stores with a request.
pub(crate) struct Payload<D> {
    flow: Arc<Flow>,
    detail: D,
    distinguisher: Distinguisher,
    is_watch: bool,
    waker: Option<Waker>,
}

/// The outcome of the arrival of a request.
pub(crate) enum Arrived {
    Execute(Ticket),
    Wait(Ticket),
    Reject { retry_after: u64 },
}

/// A priority level.
pub struct Level<D> {
    state: Mutex<State<D>>,
}

/// The mutable state of a level.
pub(crate) struct State<D> {
    pub(crate) object: LevelObject,
    /// Whether the level's object was deleted; the level is removed after its last request.
    pub(crate) quiescing: bool,
    pub(crate) limits: Limits,
    pub(crate) current: u64,
    pub(crate) demand: Demand,
    pub(crate) target: f64,
    /// The maximum number of seats of one request; 0 where a level never had queues.
    pub(crate) request_seats_max: u64,
    queues: FairQueues<Payload<D>>,
    integrator: Integrator,
    waiting_ratio: TimingRatio,
    executing_ratio: TimingRatio,
    seat_ratio: TimingRatio,
    demand_ratio: TimingRatio,
    retry_after: RetryAfter,
}

/// A row of the dump of levels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the dump's columns")]
pub struct LevelRow {
    pub name: Arc<str>,
    pub active_queues: usize,
    pub is_idle: bool,
    pub is_quiescing: bool,
    pub waiting: usize,
    pub executing: usize,
    pub totals: Totals,
}

/// A row of the dump of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the dump's columns")]
pub struct QueueRow {
    pub level: Arc<str>,
    pub index: usize,
    pub state: QueueState,
}

/// A row of the dump of requests.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are those of the dump's columns")]
pub struct RequestRow<D> {
    pub level: Arc<str>,
    pub schema: Arc<str>,
    pub queue: Option<usize>,
    pub position: Option<usize>,
    pub by_user: bool,
    pub by_namespace: bool,
    pub arrived: Duration,
    pub began: Option<Duration>,
    pub work: Work,
    pub detail: D,
}

/// The counters of a level; timings are since the last report.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are those of the metrics")]
pub struct LevelReport {
    pub name: Arc<str>,
    pub limits: Limits,
    pub current: u64,
    pub demand: Demand,
    pub target: f64,
    pub r: SeatSeconds,
    pub last_dispatch: Option<LastDispatch>,
    pub waiting: TimingReport,
    pub executing: TimingReport,
    pub seats: TimingReport,
    pub demand_seats: TimingReport,
}

impl<D> Level<D> {
    pub(crate) fn new(now: Duration, object: LevelObject) -> Self {
        let state = State {
            quiescing: false,
            limits: Limits::default(),
            current: 0,
            demand: Demand::default(),
            target: 0.0,
            request_seats_max: 0,
            queues: FairQueues::new(now, object.queuing, 0),
            integrator: Integrator::new(now),
            waiting_ratio: TimingRatio::new(REQUEST_RATIOS, now),
            executing_ratio: TimingRatio::new(REQUEST_RATIOS, now),
            seat_ratio: TimingRatio::new(SEAT_RATIOS, now),
            demand_ratio: TimingRatio::new(DEMAND_RATIOS, now),
            retry_after: RetryAfter::default(),
            object,
        };
        Level { state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> State<D> {
    pub(crate) fn is_exempt(&self) -> bool {
        self.object.queuing == Queuing::Exempt
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queues.is_idle()
    }

    pub(crate) fn arrive(&mut self, now: Duration, arriving: Arriving<D>) -> Arrived {
        let Arriving { flow, hash, work, watches, distinguisher, is_watch, detail } = arriving;
        let payload = Payload { flow: Arc::clone(&flow), detail, distinguisher, is_watch, waker: None };
        let arrival = self.queues.arrive(now, hash, work, payload);
        let mut stats = flow.stats();
        #[expect(clippy::cast_precision_loss, reason = "to be put in a bucket")]
        {
            stats.estimated_seats.observe(work.max_seats() as f64);
            if let Some(watches) = watches {
                stats.watch_count.observe(watches as f64);
            }
            if let Arrival::Execute(_, Some(length)) | Arrival::Queued(_, length) = arrival {
                stats.was_queued = true;
                stats.queue_length.observe(length as f64);
            }
        }
        let arrived = match arrival {
            Arrival::Execute(ticket, _) => {
                if !self.is_exempt() {
                    stats.wait_executed.observe(NO_WAIT_SECONDS);
                }
                stats.was_executed = true;
                stats.dispatched = stats.dispatched.saturating_add(1);
                stats.executing_requests = stats.executing_requests.saturating_add(1);
                let seats = self.queues.get(ticket).map_or(0, |request| request.work.max_seats());
                stats.shift_seats(1, seats);
                Arrived::Execute(ticket)
            }
            Arrival::Queued(ticket, _) => {
                stats.shift_queued(1, work.max_seats());
                Arrived::Wait(ticket)
            }
            Arrival::NoSeat | Arrival::QueueFull => {
                let full = arrival == Arrival::QueueFull;
                stats.count_rejection(if full {
                    RejectReason::QueueFull
                } else {
                    RejectReason::ConcurrencyLimit
                });
                stats.wait_rejected.observe(NO_WAIT_SECONDS);
                Arrived::Reject { retry_after: self.retry_after.rejected(now.as_secs()) }
            }
        };
        drop(stats);
        self.note_changes(now);
        arrived
    }

    /// Whether a request executes by now; if not, `waker` is woken when it does.
    pub(crate) fn is_dispatched(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        match self.queues.get(ticket).map(|request| request.phase) {
            Some(Phase::Waiting) => {
                if let Some(payload) = self.queues.payload_mut(ticket) {
                    match &mut payload.waker {
                        Some(known) => known.clone_from(waker),
                        none => *none = Some(waker.clone()),
                    }
                }
                false
            }
            _ => true,
        }
    }

    /// Ends the execution of a request. Returns when its seats become free, if that is later.
    pub(crate) fn finish(&mut self, now: Duration, ticket: Ticket) -> Option<Duration> {
        if let Some(request) = self.queues.get(ticket) {
            let took = now.saturating_sub(request.began).as_secs_f64();
            let mut stats = request.payload.flow.stats();
            stats.executing_requests = stats.executing_requests.saturating_sub(1);
            if request.payload.is_watch {
                stats.execution_watch.observe(took)
            } else {
                stats.execution_regular.observe(took)
            }
        }
        let due = self.queues.finish(now, ticket);
        self.note_changes(now);
        due
    }

    /// Removes a waiting request. Returns after how many seconds its client should retry; `None` if the request no
    /// longer waits.
    pub(crate) fn cancel(&mut self, now: Duration, ticket: Ticket) -> Option<u64> {
        let request = self.queues.get(ticket).filter(|request| request.phase == Phase::Waiting)?;
        let mut stats = request.payload.flow.stats();
        stats.shift_queued(-1, request.work.max_seats());
        stats.count_rejection(RejectReason::TimeOut);
        // kube-apiserver counts it among those that were executed.
        stats.wait_executed.observe(now.saturating_sub(request.arrived).as_secs_f64());
        drop(stats);
        self.queues.cancel(now, ticket);
        self.note_changes(now);
        Some(self.retry_after.rejected(now.as_secs()))
    }

    /// Frees the seats whose time has passed. Returns when the next seats become free.
    pub(crate) fn expire(&mut self, now: Duration) -> Option<Duration> {
        let due = self.queues.expire(now);
        self.note_changes(now);
        due
    }

    /// Notifies the requests that the last change of the queues dispatched, and updates the statistics.
    #[expect(clippy::cast_precision_loss, reason = "small numbers of requests and seats")]
    fn note_changes(&mut self, now: Duration) {
        while let Some(ticket) = self.queues.next_dispatched() {
            let Some(request) = self.queues.get(ticket) else { continue };
            let (seats, waited) =
                (request.work.max_seats(), now.saturating_sub(request.arrived).as_secs_f64());
            let mut stats = request.payload.flow.stats();
            stats.shift_queued(-1, seats);
            stats.was_executed = true;
            stats.dispatched = stats.dispatched.saturating_add(1);
            stats.executing_requests = stats.executing_requests.saturating_add(1);
            stats.shift_seats(1, seats);
            stats.wait_executed.observe(waited);
            drop(stats);
            if let Some(waker) = self.queues.payload_mut(ticket).and_then(|payload| payload.waker.take()) {
                waker.wake();
            }
        }
        while let Some((payload, seats)) = self.queues.next_released() {
            payload.flow.stats().shift_seats(-1, seats);
        }
        if let Some(ticket) = self.queues.take_blocked()
            && let Some(request) = self.queues.get(ticket)
        {
            let mut stats = request.payload.flow.stats();
            stats.no_accommodation = stats.no_accommodation.saturating_add(1);
        }
        self.waiting_ratio.set(now, self.queues.waiting() as f64);
        self.executing_ratio.set(now, self.queues.executing() as f64);
        self.seat_ratio.set(now, self.queues.seats_in_use() as f64);
        let demand = self.queues.demand() as f64;
        self.integrator.set(now, demand);
        self.demand_ratio.set(now, demand);
    }

    /// Applies the settings of the level's object. Its seats are set by [`State::set_seats`].
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as Go computes it"
    )]
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        if let Queuing::Queue(options) = self.object.queuing {
            let part = (limits.nominal as f64 * REQUEST_SEATS_PART).ceil() as u64;
            let of_hand =
                u64::try_from(options.hand_size).ok().and_then(|size| limits.nominal.checked_div(size));
            self.request_seats_max = part.min(of_hand.unwrap_or(limits.nominal)).max(1);
        }
    }

    /// Ends the period over which demand is measured.
    pub(crate) fn measure(&mut self, now: Duration) {
        self.demand.update(&mut self.integrator, now);
    }

    /// The minimum number of seats of the level: as many of its own as it needs.
    pub(crate) fn least_seats(&self) -> u64 {
        if self.is_exempt() {
            self.limits.lower.max(self.demand.high_watermark)
        } else {
            self.limits.lower.max(self.limits.nominal.min(self.demand.high_watermark))
        }
    }

    /// The number of seats that the level claims when seats are divided.
    #[expect(clippy::cast_precision_loss, reason = "a small number of seats")]
    pub(crate) fn claim(&self) -> Claim {
        let lower = self.least_seats() as f64;
        Claim { lower, upper: self.limits.upper as f64, target: lower.max(self.demand.smoothed) }
    }

    /// Sets the number of seats. `idle_denominator` replaces it in ratios if it is zero.
    #[expect(clippy::cast_precision_loss, reason = "a small number of seats")]
    pub(crate) fn set_seats(&mut self, now: Duration, seats: u64, idle_denominator: f64) {
        self.current = seats;
        let denominator = if seats > 0 { seats as f64 } else { idle_denominator };
        let room = match self.object.queuing {
            Queuing::Queue(options) => options.queues.saturating_mul(options.queue_length_max.max(1)),
            Queuing::Exempt | Queuing::Reject => 1,
        };
        self.demand_ratio.set_denominator(now, denominator);
        self.waiting_ratio.set_denominator(now, room as f64);
        self.executing_ratio.set_denominator(now, denominator);
        self.seat_ratio.set_denominator(now, denominator);
        self.queues.configure(now, self.object.queuing, seats);
        self.note_changes(now);
    }

    pub(crate) fn level_row(&self) -> LevelRow {
        LevelRow {
            name: Arc::clone(&self.object.name),
            active_queues: self.queues.queues().filter(|queue| queue.waiting > 0).count(),
            is_idle: self.is_idle(),
            is_quiescing: self.quiescing,
            waiting: self.queues.waiting(),
            executing: self.queues.executing(),
            totals: self.queues.totals(),
        }
    }

    pub(crate) fn queue_rows(&self) -> impl Iterator<Item = QueueRow> + '_ {
        let queues = self.queues.queues().enumerate();
        queues.map(|(index, state)| QueueRow { level: Arc::clone(&self.object.name), index, state })
    }

    pub(crate) fn report(&mut self, now: Duration) -> LevelReport {
        LevelReport {
            name: Arc::clone(&self.object.name),
            limits: self.limits,
            current: self.current,
            demand: self.demand,
            target: self.target,
            r: self.queues.r(),
            last_dispatch: self.queues.last_dispatch(),
            waiting: self.waiting_ratio.take(now),
            executing: self.executing_ratio.take(now),
            seats: self.seat_ratio.take(now),
            demand_seats: self.demand_ratio.take(now),
        }
    }
}

impl<D: Clone> State<D> {
    pub(crate) fn request_rows(&self) -> Vec<RequestRow<D>> {
        let rows = self.queues.requests().into_iter();
        rows.map(|(queue, position, request)| RequestRow {
            level: Arc::clone(&self.object.name),
            schema: Arc::clone(&request.payload.flow.schema),
            queue,
            position,
            by_user: request.payload.distinguisher == Distinguisher::User,
            by_namespace: request.payload.distinguisher == Distinguisher::Namespace,
            arrived: request.arrived,
            began: (request.phase == Phase::Executing).then_some(request.began),
            work: request.work,
            detail: request.payload.detail.clone(),
        })
        .collect()
    }
}
