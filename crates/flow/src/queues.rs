//! Fair queuing within one priority level: each queue gets the same part of the seats, however much its requests
//! cost.
//!
//! Time is virtual: R counts the seat-seconds that each busy queue has received so far. Dispatching a request
//! advances the virtual time of its queue by the request's work, and the queue whose next request would finish first
//! in virtual time is served next. If a request turns out cheaper than estimated, its queue is credited with the
//! difference. The rules are those of kube-apiserver, so that its metrics and dumps mean the same here. `flows.rs`
//! adds one rule: some seats are reserved for flows that hold none.

mod dispatch;
mod flows;
mod pool;

use crate::estimate::as_work;
use crate::{SeatSeconds, Work};
use flows::{RecentFlows, SeatedFlows};
use pool::{Pool, Queue};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

pub use pool::{Phase, Request, Ticket};

/// The estimated execution time of a request, before it is known; the same as in kube-apiserver.
const EXECUTION_GUESS: Duration = Duration::from_millis(3);
/// The maximum number of queues of a level, whatever its object specifies: more would only take memory.
pub const QUEUES_MAX: usize = 16_384;

/// What happens to requests for which no seat is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queuing {
    /// There is always a seat.
    Exempt,
    /// The request is rejected.
    Reject,
    /// The request waits in a queue.
    Queue(QueueOptions),
}

/// The number and length of a level's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// The number of queues.
    pub queues: usize,
    /// The number of queues that one flow may use.
    pub hand_size: usize,
    /// The maximum number of requests that wait in a queue while all seats are taken.
    pub queue_length_max: usize,
}

/// The outcome of the arrival of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The request executes at once. If it passed through a queue, this is the queue's length with it.
    Execute(Ticket, Option<usize>),
    /// The request waits until [`FairQueues::next_dispatched`] returns it; the number is the length of its queue.
    Queued(Ticket, usize),
    /// No seat is free, and the level has no queues.
    NoSeat,
    /// No seat is free, and the request's queue is full.
    QueueFull,
}

/// The state of a queue in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the dump's columns")]
pub struct QueueState {
    pub waiting: usize,
    pub executing: usize,
    pub seats_in_use: u64,
    pub next_dispatch_r: SeatSeconds,
    pub initial_seats_sum: u64,
    pub max_seats_sum: u64,
    pub total_work_sum: SeatSeconds,
}

/// Virtual times at the last dispatch from a queue: R, the start of the request, and the bounds over all queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the metrics")]
pub struct LastDispatch {
    pub r: SeatSeconds,
    pub s: SeatSeconds,
    pub s_min: SeatSeconds,
    pub s_max: SeatSeconds,
    pub discounted_min: SeatSeconds,
    pub discounted_max: SeatSeconds,
}

impl LastDispatch {
    /// The times if only one queue has requests: the bounds are its own times.
    fn of_one(r: SeatSeconds, start: SeatSeconds, discounted: SeatSeconds) -> Self {
        LastDispatch {
            r,
            s: start,
            s_min: start,
            s_max: start,
            discounted_min: discounted,
            discounted_max: discounted,
        }
    }
}

/// The number of requests since the level was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the dump's columns")]
pub struct Totals {
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

/// The queues and seats of a priority level. `P` is the data that the caller stores with each request.
pub struct FairQueues<P> {
    queuing: Queuing,
    seats: u64,
    pool: Pool<P>,
    /// The queues' places in the pool, in the order of their indexes. While queues drain, there may be more than
    /// configured.
    order: Vec<usize>,
    r: SeatSeconds,
    updated: Duration,
    /// The index of the queue that was served last; ties are resolved in favour of the next one.
    robin: usize,
    /// The number of queues with requests.
    active_queues: usize,
    waiting: usize,
    waiting_seats: u64,
    executing: usize,
    seats_in_use: u64,
    /// The number of reserved seats in use.
    reserved_in_use: u64,
    flows: SeatedFlows,
    recent_flows: RecentFlows,
    enqueued: usize,
    totals: Totals,
    last: Option<LastDispatch>,
    dispatched: VecDeque<Ticket>,
    /// The callers' data of requests whose seats were freed, and the number of those seats.
    released: Vec<(P, u64)>,
    blocked: Option<Ticket>,
    /// Requests that are answered but still hold their seats.
    lingering: BinaryHeap<Reverse<(Duration, Ticket)>>,
}

impl<P> FairQueues<P> {
    /// A level with this many seats.
    pub fn new(now: Duration, queuing: Queuing, seats: u64) -> Self {
        let mut level = FairQueues {
            queuing: Queuing::Reject,
            seats: 0,
            pool: Pool::default(),
            order: Vec::new(),
            r: SeatSeconds::ZERO,
            updated: now,
            robin: 0,
            active_queues: 0,
            waiting: 0,
            waiting_seats: 0,
            executing: 0,
            seats_in_use: 0,
            reserved_in_use: 0,
            flows: SeatedFlows::default(),
            recent_flows: RecentFlows::default(),
            enqueued: 0,
            totals: Totals::default(),
            last: None,
            dispatched: VecDeque::new(),
            released: Vec::new(),
            blocked: None,
            lingering: BinaryHeap::new(),
        };
        level.configure(now, queuing, seats);
        level
    }

    /// Changes the number of queues and seats. Excess queues are removed once they are empty.
    pub fn configure(&mut self, now: Duration, queuing: Queuing, seats: u64) {
        self.advance(now);
        self.queuing = match queuing {
            Queuing::Queue(options) => {
                Queuing::Queue(QueueOptions { queues: options.queues.clamp(1, QUEUES_MAX), ..options })
            }
            other => other,
        };
        while self.order.len() < self.queues_wanted() {
            self.order.push(self.pool.add_queue(self.order.len()));
        }
        self.seats = seats;
        self.dispatch(now);
    }

    fn queues_wanted(&self) -> usize {
        match self.queuing {
            Queuing::Queue(options) => options.queues,
            Queuing::Exempt | Queuing::Reject => 0,
        }
    }

    /// Handles the arrival of a request. `flow` is the hash of its flow schema and its distinguisher.
    pub fn arrive(&mut self, now: Duration, flow: u64, work: Work, payload: P) -> Arrival {
        self.advance(now);
        let Queuing::Queue(options) = self.queuing else {
            if !self.fits(work.max_seats()) {
                self.totals.rejected = self.totals.rejected.saturating_add(1);
                return Arrival::NoSeat;
            }
            let ticket = self.pool.insert(work, payload, now, self.r, flow, None);
            self.execute(now, ticket.slot());
            return Arrival::Execute(ticket, None);
        };
        self.recent_flows.add(flow, now);
        let place = self.shortest_of_hand(flow, options);
        let length = self.pool.queue(place).length;
        if !self.has_common_seat() && length >= options.queue_length_max {
            self.totals.rejected = self.totals.rejected.saturating_add(1);
            return Arrival::QueueFull;
        }
        let ticket = self.enqueue(now, place, work, flow, payload);
        let length = length.saturating_add(1);
        if self.waiting == 1 && self.has_common_seat() && self.fits(work.max_seats()) {
            // No other request waits, so no other queue needs to be considered.
            let queue = self.pool.queue(place);
            let start = queue.next_dispatch_r + queue.uncharged(now);
            let discounted = start - as_work(queue.seats_in_use, EXECUTION_GUESS);
            self.robin = queue.index;
            self.last = Some(LastDispatch::of_one(self.r, start, discounted));
            self.dispatch_first(now, place, false);
        } else {
            self.dispatch(now);
        }
        if self.pool.get(ticket).is_some_and(|request| request.phase == Phase::Waiting) {
            Arrival::Queued(ticket, length)
        } else {
            self.dispatched.retain(|other| *other != ticket);
            Arrival::Execute(ticket, Some(length))
        }
    }

    /// Ends the execution of a request. Returns when its seats become free, if that is later; [`FairQueues::expire`]
    /// must be called then.
    pub fn finish(&mut self, now: Duration, ticket: Ticket) -> Option<Duration> {
        self.advance(now);
        let request = self.pool.get_mut(ticket).filter(|request| request.phase == Phase::Executing)?;
        let (place, work) = (request.queue, request.work);
        request.phase = Phase::Lingering;
        self.executing = self.executing.saturating_sub(1);
        if let Some(place) = place {
            let queue = self.pool.queue_mut(place);
            queue.executing = queue.executing.saturating_sub(1);
            queue.charge(now);
            queue.executing_seats = queue.executing_seats.saturating_sub(work.initial_seats);
            // The queue has been charged for the actual time, so refund the estimate.
            queue.next_dispatch_r -= as_work(work.initial_seats, EXECUTION_GUESS);
            let became_idle = queue.is_idle();
            self.active_queues = self.active_queues.saturating_sub(usize::from(became_idle));
            self.pool.bound_next_dispatch(place);
        }
        let due = now.saturating_add(work.additional_latency);
        let lingers = !work.additional_latency.is_zero();
        if lingers {
            self.lingering.push(Reverse((due, ticket)));
        } else {
            self.release(ticket);
        }
        self.dispatch(now);
        lingers.then_some(due)
    }

    /// Frees the seats whose time has passed. Returns when the next seats become free.
    pub fn expire(&mut self, now: Duration) -> Option<Duration> {
        self.advance(now);
        let mut released = false;
        while let Some(Reverse((due, ticket))) = self.lingering.peek().copied() {
            if due > now {
                break;
            }
            self.lingering.pop();
            self.release(ticket);
            released = true;
        }
        if released {
            self.dispatch(now);
        }
        self.lingering.peek().map(|Reverse((due, _))| *due)
    }

    /// Removes a waiting request because its client is gone or its time is over. Returns false if it does not wait.
    pub fn cancel(&mut self, now: Duration, ticket: Ticket) -> bool {
        self.advance(now);
        let Some(request) = self.pool.get(ticket).filter(|request| request.phase == Phase::Waiting) else {
            return false;
        };
        let (place, seats) = (request.queue, request.work.max_seats());
        self.pool.unlink(ticket.slot());
        self.pool.remove(ticket);
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting_seats = self.waiting_seats.saturating_sub(seats);
        self.totals.rejected = self.totals.rejected.saturating_add(1);
        self.totals.cancelled = self.totals.cancelled.saturating_add(1);
        if let Some(place) = place {
            self.active_queues =
                self.active_queues.saturating_sub(usize::from(self.pool.queue(place).is_idle()));
            self.pool.bound_next_dispatch(place);
        }
        // The removed request may have blocked others because it needed many seats.
        self.dispatch(now);
        true
    }

    /// The next request that was dispatched from a queue and whose caller has not been notified yet.
    pub fn next_dispatched(&mut self) -> Option<Ticket> {
        self.dispatched.pop_front()
    }

    /// The caller's data of a request whose seats were freed, and the number of those seats.
    pub fn next_released(&mut self) -> Option<(P, u64)> {
        self.released.pop()
    }

    /// The request that was next at the last attempt to dispatch, if it needed more seats than were free.
    pub fn take_blocked(&mut self) -> Option<Ticket> {
        self.blocked.take()
    }

    /// A request that has neither finished nor been removed.
    pub fn get(&self, ticket: Ticket) -> Option<&Request<P>> {
        self.pool.get(ticket)
    }

    /// The caller's data of a request, mutable.
    pub fn payload_mut(&mut self, ticket: Ticket) -> Option<&mut P> {
        self.pool.get_mut(ticket).map(|request| &mut request.payload)
    }

    /// The number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The number of executing requests.
    pub fn executing(&self) -> usize {
        self.executing
    }

    /// The number of seats in use.
    pub fn seats_in_use(&self) -> u64 {
        self.seats_in_use
    }

    /// The number of seats that are in use or waited for.
    pub fn demand(&self) -> u64 {
        self.seats_in_use.saturating_add(self.waiting_seats)
    }

    /// Whether nothing waits or executes.
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.executing == 0
    }

    /// The number of requests since the level was created.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The seat-seconds that each busy queue has received so far.
    pub fn r(&self) -> SeatSeconds {
        self.r
    }

    /// The virtual times of the last dispatch from a queue.
    pub fn last_dispatch(&self) -> Option<LastDispatch> {
        self.last
    }

    /// The queues by index.
    pub fn queues(&self) -> impl Iterator<Item = QueueState> + '_ {
        self.order.iter().map(|place| {
            let queue = self.pool.queue(*place);
            QueueState {
                waiting: queue.length,
                executing: queue.executing,
                seats_in_use: queue.seats_in_use,
                next_dispatch_r: queue.next_dispatch_r,
                initial_seats_sum: queue.initial_seats,
                max_seats_sum: queue.max_seats,
                total_work_sum: queue.work,
            }
        })
    }

    /// The requests that wait or execute, by queue, waiting ones first and in order. Each has the index of its queue
    /// and its position in the queue; `None` for executing ones.
    pub fn requests(&self) -> Vec<(Option<usize>, Option<usize>, &Request<P>)> {
        let mut rows = Vec::new();
        for (index, place) in self.order.iter().enumerate() {
            let waiting = self.pool.waiting_in(*place).enumerate();
            rows.extend(waiting.map(|(at, request)| (Some(index), Some(at), request)));
            let executing = self.pool.executing().filter(|request| request.queue == Some(*place));
            rows.extend(executing.map(|request| (Some(index), None, request)));
        }
        let queueless = self.pool.executing().filter(|request| request.queue.is_none());
        rows.extend(queueless.map(|request| (None, None, request)));
        rows
    }
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.length == 0 && self.executing == 0
    }
}

#[cfg(test)]
mod tests;
