//! Fair queuing within one priority level: each queue gets the same part of the seats, however much its requests
//! cost.
//!
//! Time is virtual: R counts the seat-seconds that each busy queue has received so far. Dispatching a request
//! advances the virtual time of its queue by the request's work, and the queue whose next request would finish first
//! in virtual time is served next. If a request turns out cheaper than estimated, its queue is credited with the
//! difference. The rules are those of kube-apiserver, so that its metrics and dumps mean the same here. `flows.rs`
//! adds one rule: some seats are reserved for flows that hold none.

mod flows;
mod pool;

use crate::estimate::as_work;
use crate::shuffle::Hand;
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
            self.last = Some(LastDispatch {
                r: self.r,
                s: start,
                s_min: start,
                s_max: start,
                discounted_min: discounted,
                discounted_max: discounted,
            });
            self.dispatch_first(now, place, false);
        } else {
            self.dispatch(now);
        }
        match self.pool.get(ticket).is_some_and(|request| request.phase == Phase::Waiting) {
            true => Arrival::Queued(ticket, length),
            false => {
                self.dispatched.retain(|other| *other != ticket);
                Arrival::Execute(ticket, Some(length))
            }
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

    /// Virtual time runs as fast as a busy queue gets seats. kube-apiserver computes with the requested seats instead
    /// of those in use; here, some of the requested seats may be left free.
    #[expect(clippy::cast_precision_loss, reason = "small numbers of seats and queues")]
    fn advance(&mut self, now: Duration) {
        let real = now.saturating_sub(self.updated);
        self.updated = self.updated.max(now);
        if self.active_queues > 0 {
            let rate = self.seats_in_use.min(self.seats) as f64 / self.active_queues as f64;
            self.r += SeatSeconds::new(rate, real);
        }
    }

    /// The number of seats reserved for flows that hold none. A level with one queue does not distinguish flows.
    fn reserved(&self) -> u64 {
        match self.queues_wanted() > 1 && self.recent_flows.are_several(self.updated) {
            true => flows::reserved_of(self.seats),
            false => 0,
        }
    }

    /// The number of seats that are not reserved, and how many of them are in use.
    fn common_seats(&self) -> (u64, u64) {
        let reserved = self.reserved();
        (
            self.seats.saturating_sub(reserved),
            self.seats_in_use.saturating_sub(self.reserved_in_use.min(reserved)),
        )
    }

    fn has_common_seat(&self) -> bool {
        let (seats, in_use) = self.common_seats();
        in_use < seats
    }

    /// Whether a request that needs so many seats fits into those that are not reserved.
    fn fits(&self, wanted: u64) -> bool {
        let (seats, in_use) = self.common_seats();
        match self.queuing {
            Queuing::Exempt => true,
            // A request wider than the level executes when it is alone.
            _ if wanted > seats => self.executing == 0,
            _ => in_use.saturating_add(wanted) <= seats,
        }
    }

    /// Returns whether a waiting request may take reserved seats. A flow that was alone before may still hold some of
    /// them.
    fn fits_reserved(&self, request: &Request<P>) -> bool {
        let wanted = request.work.max_seats();
        self.flows.holds_none(request.flow)
            && self.reserved_in_use.saturating_add(wanted) <= self.reserved()
            && self.seats_in_use.saturating_add(wanted) <= self.seats
    }

    /// The queue of the flow's hand with the least work. The search starts at a different queue each time, so that
    /// flows with overlapping hands are not biased.
    fn shortest_of_hand(&mut self, flow: u64, options: QueueOptions) -> usize {
        let hand = Hand::deal(flow, options.queues, options.hand_size.max(1));
        let queues = hand.queues();
        let offset = self.enqueued.checked_rem(queues.len()).unwrap_or(0);
        self.enqueued = self.enqueued.wrapping_add(1);
        let (before, from) = queues.split_at(offset);
        let places = from.iter().chain(before).filter_map(|index| self.order.get(*index).copied());
        places.min_by_key(|place| self.pool.queue(*place).work).unwrap_or(0)
    }

    fn enqueue(&mut self, now: Duration, place: usize, work: Work, flow: u64, payload: P) -> Ticket {
        let r = self.r;
        let ticket = self.pool.insert(work, payload, now, r, flow, Some(place));
        let queue = self.pool.queue_mut(place);
        if queue.is_idle() {
            queue.next_dispatch_r = r;
            self.active_queues = self.active_queues.saturating_add(1);
        }
        self.pool.link(ticket.slot());
        self.pool.bound_next_dispatch(place);
        self.waiting = self.waiting.saturating_add(1);
        self.waiting_seats = self.waiting_seats.saturating_add(work.max_seats());
        ticket
    }

    /// Executes waiting requests while there are seats.
    fn dispatch(&mut self, now: Duration) {
        while self.waiting > 0 && self.has_common_seat() {
            let Some((place, last)) = self.next_queue(now, |_| true) else { break };
            let queue = self.pool.queue(place);
            let Some(slot) = queue.head else { break };
            let Some(first) = self.pool.at(slot) else { break };
            if !self.fits(first.work.max_seats()) {
                self.blocked = Some(first.ticket(slot));
                break;
            }
            self.robin = queue.index;
            self.last = Some(last);
            self.dispatch_first(now, place, false);
        }
        while self.waiting > 0 && self.reserved_in_use < self.reserved() {
            let Some((place, last)) = self.next_queue(now, |first| self.fits_reserved(first)) else { break };
            self.last = Some(last);
            self.dispatch_first(now, place, true);
        }
    }

    /// The queue that would finish its first request first in virtual time, among the queues whose first request
    /// fits. The search starts after the queue served last, round robin.
    fn next_queue(
        &self,
        now: Duration,
        is_allowed: impl Fn(&Request<P>) -> bool,
    ) -> Option<(usize, LastDispatch)> {
        let count = self.order.len();
        let mut best: Option<(SeatSeconds, usize)> = None;
        let mut bounds: Option<LastDispatch> = None;
        for step in 1..=count {
            let place = *self.order.get(self.robin.saturating_add(step).checked_rem(count)?)?;
            let queue = self.pool.queue(place);
            let Some(first) = queue.head.and_then(|slot| self.pool.at(slot)) else { continue };
            if !is_allowed(first) {
                continue;
            }
            let start = queue.next_dispatch_r + queue.uncharged(now);
            let discounted = start - as_work(queue.seats_in_use, EXECUTION_GUESS);
            let known = bounds.unwrap_or(LastDispatch {
                r: self.r,
                s: start,
                s_min: start,
                s_max: start,
                discounted_min: discounted,
                discounted_max: discounted,
            });
            let mut wider = LastDispatch {
                s_min: known.s_min.min(start),
                s_max: known.s_max.max(start),
                discounted_min: known.discounted_min.min(discounted),
                discounted_max: known.discounted_max.max(discounted),
                ..known
            };
            let finish = start + first.total;
            if best.is_none_or(|(least, _)| finish < least) {
                best = Some((finish, place));
                wider.s = start;
            }
            bounds = Some(wider);
        }
        best.map(|(_, place)| place).zip(bounds)
    }

    /// Executes the first request of a queue, on reserved or on other seats.
    fn dispatch_first(&mut self, now: Duration, place: usize, reserved: bool) {
        let Some(slot) = self.pool.queue(place).head else { return };
        self.pool.unlink(slot);
        let seats = self.seats;
        let Some(request) = self.pool.at_mut(slot) else { return };
        let before = request.work.max_seats();
        if request.work.final_seats > seats {
            // The request gets fewer seats for a longer time, which is the same work.
            request.work.additional_latency = request.work.final_work().per_seat(seats);
            request.work.final_seats = seats;
        }
        request.on_reserved_seats = reserved;
        let (total, initial_seats, after) =
            (request.total, request.work.initial_seats, request.work.max_seats());
        let ticket = request.ticket(slot);
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting_seats = self.waiting_seats.saturating_sub(before);
        let queue = self.pool.queue_mut(place);
        queue.charge(now);
        queue.executing = queue.executing.saturating_add(1);
        queue.executing_seats = queue.executing_seats.saturating_add(initial_seats);
        queue.seats_in_use = queue.seats_in_use.saturating_add(after);
        queue.next_dispatch_r += total;
        self.pool.bound_next_dispatch(place);
        self.execute(now, slot);
        self.dispatched.push_back(ticket);
    }

    fn execute(&mut self, now: Duration, slot: usize) {
        if let Some(request) = self.pool.at_mut(slot) {
            request.phase = Phase::Executing;
            request.began = now;
            self.executing = self.executing.saturating_add(1);
            self.seats_in_use = self.seats_in_use.saturating_add(request.work.max_seats());
            if request.on_reserved_seats {
                self.reserved_in_use = self.reserved_in_use.saturating_add(request.work.max_seats());
            }
            if request.queue.is_some() {
                self.flows.add(request.flow);
            }
            self.totals.dispatched = self.totals.dispatched.saturating_add(1);
        }
    }

    /// Frees the seats of an answered request.
    fn release(&mut self, ticket: Ticket) {
        let Some(request) = self.pool.remove(ticket) else { return };
        let (seats, place) = (request.work.max_seats(), request.queue);
        if request.on_reserved_seats {
            self.reserved_in_use = self.reserved_in_use.saturating_sub(seats);
        }
        if place.is_some() {
            self.flows.remove(request.flow);
        }
        self.released.push((request.payload, seats));
        self.seats_in_use = self.seats_in_use.saturating_sub(seats);
        let Some(place) = place else { return };
        let queue = self.pool.queue_mut(place);
        queue.seats_in_use = queue.seats_in_use.saturating_sub(seats);
        let (index, is_unused) = (queue.index, queue.is_idle() && queue.seats_in_use == 0);
        if self.order.len() > self.queues_wanted() && is_unused {
            self.order.remove(index);
            self.pool.remove_queue(place);
            for (index, place) in self.order.iter().enumerate().skip(index) {
                self.pool.queue_mut(*place).index = index;
            }
            if self.robin >= index {
                self.robin = self.robin.saturating_sub(1);
            }
        }
    }
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.length == 0 && self.executing == 0
    }
}

#[cfg(test)]
mod tests;
