//! Dispatching: which waiting request executes next, on which seats, and the virtual time that decides it.

use super::pool::{Phase, Request, Ticket};
use super::{EXECUTION_GUESS, FairQueues, LastDispatch, QueueOptions, Queuing, flows};
use crate::estimate::as_work;
use crate::shuffle::Hand;
use crate::{SeatSeconds, Work};
use std::time::Duration;

impl<P> FairQueues<P> {
    /// Virtual time runs as fast as a busy queue gets seats. kube-apiserver computes with the requested seats instead
    /// of those in use; here, some of the requested seats may be left free.
    #[expect(clippy::cast_precision_loss, reason = "small numbers of seats and queues")]
    pub(super) fn advance(&mut self, now: Duration) {
        let real = now.saturating_sub(self.updated);
        self.updated = self.updated.max(now);
        if self.active_queues > 0 {
            let rate = self.seats_in_use.min(self.seats) as f64 / self.active_queues as f64;
            self.r += SeatSeconds::new(rate, real);
        }
    }

    /// The number of seats reserved for flows that hold none. A level with one queue does not distinguish flows.
    pub(super) fn reserved(&self) -> u64 {
        if self.queues_wanted() > 1 && self.recent_flows.are_several(self.updated) {
            flows::reserved_of(self.seats)
        } else {
            0
        }
    }

    /// The number of seats that are not reserved, and how many of them are in use.
    pub(super) fn common_seats(&self) -> (u64, u64) {
        let reserved = self.reserved();
        (
            self.seats.saturating_sub(reserved),
            self.seats_in_use.saturating_sub(self.reserved_in_use.min(reserved)),
        )
    }

    pub(super) fn has_common_seat(&self) -> bool {
        let (seats, in_use) = self.common_seats();
        in_use < seats
    }

    /// Whether a request that needs so many seats fits into those that are not reserved.
    pub(super) fn fits(&self, wanted: u64) -> bool {
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
    pub(super) fn fits_reserved(&self, request: &Request<P>) -> bool {
        let wanted = request.work.max_seats();
        self.flows.holds_none(request.flow)
            && self.reserved_in_use.saturating_add(wanted) <= self.reserved()
            && self.seats_in_use.saturating_add(wanted) <= self.seats
    }

    /// The queue of the flow's hand with the least work. The search starts at a different queue each time, so that
    /// flows with overlapping hands are not biased.
    pub(super) fn shortest_of_hand(&mut self, flow: u64, options: QueueOptions) -> usize {
        let hand = Hand::deal(flow, options.queues, options.hand_size.max(1));
        let queues = hand.queues();
        let offset = self.enqueued.checked_rem(queues.len()).unwrap_or(0);
        self.enqueued = self.enqueued.wrapping_add(1);
        let (before, from) = queues.split_at(offset);
        let places = from.iter().chain(before).filter_map(|index| self.order.get(*index).copied());
        places.min_by_key(|place| self.pool.queue(*place).work).unwrap_or(0)
    }

    pub(super) fn enqueue(
        &mut self,
        now: Duration,
        place: usize,
        work: Work,
        flow: u64,
        payload: P,
    ) -> Ticket {
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
    pub(super) fn dispatch(&mut self, now: Duration) {
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
    pub(super) fn next_queue(
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
            let known = bounds.unwrap_or(LastDispatch::of_one(self.r, start, discounted));
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
    pub(super) fn dispatch_first(&mut self, now: Duration, place: usize, reserved: bool) {
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

    pub(super) fn execute(&mut self, now: Duration, slot: usize) {
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
    pub(super) fn release(&mut self, ticket: Ticket) {
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
