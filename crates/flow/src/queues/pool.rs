//! The requests and queues of a level, in slots that are reused: no memory is allocated for a request once a level
//! has seen its busiest moment. The waiting requests of a queue are a doubly linked list, so that one can leave in
//! constant time.

use crate::{SeatSeconds, Work};
use std::time::Duration;

/// Identifies a request until it is finished or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    serial: u64,
    slot: usize,
}

impl Ticket {
    pub(super) fn slot(self) -> usize {
        self.slot
    }
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The request is in a queue.
    Waiting,
    /// The request executes.
    Executing,
    /// The request is answered, but its seats are still taken.
    Lingering,
}

/// A request of a level.
pub struct Request<P> {
    serial: u64,
    /// The data that the caller stores with it.
    pub payload: P,
    /// The seats that the request takes, and for how long.
    pub work: Work,
    /// The time at which the request arrived.
    pub arrived: Duration,
    /// The time at which the request began to execute.
    pub began: Duration,
    /// The request's state.
    pub phase: Phase,
    pub(super) total: SeatSeconds,
    pub(super) flow: u64,
    pub(super) on_reserved_seats: bool,
    pub(super) queue: Option<usize>,
    arrival_r: SeatSeconds,
    previous: Option<usize>,
    next: Option<usize>,
}

impl<P> Request<P> {
    pub(super) fn ticket(&self, slot: usize) -> Ticket {
        Ticket { serial: self.serial, slot }
    }
}

/// One queue; the sums are over its waiting requests.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) index: usize,
    pub(super) head: Option<usize>,
    tail: Option<usize>,
    pub(super) length: usize,
    pub(super) executing: usize,
    pub(super) seats_in_use: u64,
    pub(super) next_dispatch_r: SeatSeconds,
    pub(super) initial_seats: u64,
    pub(super) max_seats: u64,
    pub(super) work: SeatSeconds,
    /// The seats of the queue's executing requests, and the time up to which the queue has been charged for them.
    pub(super) executing_seats: u64,
    charged: Duration,
}

impl Queue {
    /// The work of executing requests that the queue has not been charged for yet.
    pub(super) fn uncharged(&self, now: Duration) -> SeatSeconds {
        super::as_work(self.executing_seats, now.saturating_sub(self.charged))
    }

    /// Charges the queue for executing requests while they execute. kube-apiserver charges it when they end: until
    /// then a flood of long requests seems cheap, and afterwards a flow without executing requests waits until all of
    /// that work is paid for.
    pub(super) fn charge(&mut self, now: Duration) {
        self.next_dispatch_r += self.uncharged(now);
        self.charged = now;
    }
}

pub(super) struct Pool<P> {
    requests: Vec<Option<Request<P>>>,
    free_requests: Vec<usize>,
    /// The first slot represents missing places and is never used.
    queues: Vec<Queue>,
    free_queues: Vec<usize>,
    next_serial: u64,
}

impl<P> Default for Pool<P> {
    fn default() -> Self {
        Pool {
            requests: Vec::new(),
            free_requests: Vec::new(),
            queues: vec![Queue::default()],
            free_queues: Vec::new(),
            next_serial: 0,
        }
    }
}

impl<P> Pool<P> {
    pub(super) fn insert(
        &mut self,
        work: Work,
        payload: P,
        now: Duration,
        r: SeatSeconds,
        flow: u64,
        queue: Option<usize>,
    ) -> Ticket {
        let serial = self.next_serial;
        self.next_serial = self.next_serial.wrapping_add(1);
        let request = Request {
            serial,
            payload,
            work,
            arrived: now,
            began: Duration::ZERO,
            phase: Phase::Waiting,
            total: work.total(super::EXECUTION_GUESS),
            flow,
            on_reserved_seats: false,
            queue,
            arrival_r: r,
            previous: None,
            next: None,
        };
        let slot = self.free_requests.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len().saturating_sub(1)
        });
        if let Some(place) = self.requests.get_mut(slot) {
            *place = Some(request);
        }
        Ticket { serial, slot }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Request<P>> {
        self.get(ticket)?;
        self.free_requests.push(ticket.slot);
        self.requests.get_mut(ticket.slot)?.take()
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Request<P>> {
        self.at(ticket.slot).filter(|request| request.serial == ticket.serial)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Request<P>> {
        self.at_mut(ticket.slot).filter(|request| request.serial == ticket.serial)
    }

    pub(super) fn at(&self, slot: usize) -> Option<&Request<P>> {
        self.requests.get(slot)?.as_ref()
    }

    pub(super) fn at_mut(&mut self, slot: usize) -> Option<&mut Request<P>> {
        self.requests.get_mut(slot)?.as_mut()
    }

    pub(super) fn executing(&self) -> impl Iterator<Item = &Request<P>> {
        self.requests.iter().flatten().filter(|request| request.phase == Phase::Executing)
    }

    pub(super) fn add_queue(&mut self, index: usize) -> usize {
        let queue = Queue { index, ..Queue::default() };
        match self.free_queues.pop() {
            Some(place) => {
                *self.queue_mut(place) = queue;
                place
            }
            None => {
                self.queues.push(queue);
                self.queues.len().saturating_sub(1)
            }
        }
    }

    pub(super) fn remove_queue(&mut self, place: usize) {
        self.free_queues.push(place);
    }

    pub(super) fn queue(&self, place: usize) -> &Queue {
        self.queues.get(place).unwrap_or_else(|| unreachable!("places come from add_queue"))
    }

    pub(super) fn queue_mut(&mut self, place: usize) -> &mut Queue {
        self.queues.get_mut(place).unwrap_or_else(|| unreachable!("places come from add_queue"))
    }

    /// The requests that wait in a queue, the oldest first.
    pub(super) fn waiting_in(&self, place: usize) -> impl Iterator<Item = &Request<P>> {
        let first = self.queue(place).head.and_then(|slot| self.at(slot));
        std::iter::successors(first, |request| request.next.and_then(|slot| self.at(slot)))
    }

    /// Appends a request to its queue.
    pub(super) fn link(&mut self, slot: usize) {
        let Some(request) = self.at(slot) else { return };
        let Some(place) = request.queue else { return };
        let (work, total) = (request.work, request.total);
        let queue = self.queue_mut(place);
        let before = queue.tail.replace(slot);
        if before.is_none() {
            queue.head = Some(slot);
        }
        queue.length = queue.length.saturating_add(1);
        queue.initial_seats = queue.initial_seats.saturating_add(work.initial_seats);
        queue.max_seats = queue.max_seats.saturating_add(work.max_seats());
        queue.work += total;
        if let Some(request) = before.and_then(|slot| self.at_mut(slot)) {
            request.next = Some(slot);
        }
        if let Some(request) = self.at_mut(slot) {
            request.previous = before;
        }
    }

    /// Removes a request from its queue.
    pub(super) fn unlink(&mut self, slot: usize) {
        let Some(request) = self.at_mut(slot) else { return };
        let Some(place) = request.queue else { return };
        let (previous, next) = (request.previous.take(), request.next.take());
        let (work, total) = (request.work, request.total);
        if let Some(request) = previous.and_then(|slot| self.at_mut(slot)) {
            request.next = next;
        }
        if let Some(request) = next.and_then(|slot| self.at_mut(slot)) {
            request.previous = previous;
        }
        let queue = self.queue_mut(place);
        if previous.is_none() {
            queue.head = next;
        }
        if next.is_none() {
            queue.tail = previous;
        }
        queue.length = queue.length.saturating_sub(1);
        queue.initial_seats = queue.initial_seats.saturating_sub(work.initial_seats);
        queue.max_seats = queue.max_seats.saturating_sub(work.max_seats());
        queue.work -= total;
    }

    /// A queue that cannot use all its seats must not accumulate them, so its virtual start is not before its request
    /// arrived.
    pub(super) fn bound_next_dispatch(&mut self, place: usize) {
        let oldest = self.queue(place).head.and_then(|slot| self.at(slot));
        if let Some(arrival) = oldest.map(|request| request.arrival_r) {
            let queue = self.queue_mut(place);
            queue.next_dispatch_r = queue.next_dispatch_r.max(arrival);
        }
    }
}
