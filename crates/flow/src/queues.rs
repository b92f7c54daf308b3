//! Fair queuing within one priority level: each queue gets the same part of the seats, whatever its requests cost.
//!
//! Time is virtual: a queue's clock advances by the seat-seconds of what is dispatched from it, and the queue whose next
//! request would finish first, virtually, is next. A request that turns out cheaper than guessed is credited to its queue.

use crate::{Work, shuffle};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long a request is guessed to execute before it is known; kube-apiserver's guess.
const EXECUTION_GUESS: f64 = 0.003;

/// How many queues a level has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Queues; 0: what cannot execute at once is refused.
    pub queues: usize,
    /// Queues that one flow may use.
    pub hand_size: usize,
    /// Most requests that wait in a queue.
    pub queue_length_max: usize,
}

/// Names a request until it is finished or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What becomes of a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It executes at once.
    Execute(Ticket),
    /// It waits until [`FairQueues::finish`] or [`FairQueues::set_seats`] names it.
    Queued(Ticket),
    /// There is no room for it.
    Rejected,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Ticket, Work)>,
    waiting_work: f64,
    executing_seats: u64,
    /// Virtual time at which its next request would begin.
    next_begin: f64,
}

struct Executing {
    queue: Option<usize>,
    work: Work,
    began: Duration,
}

/// The queues of a priority level.
pub struct FairQueues {
    options: QueueOptions,
    seats: u64,
    seats_in_use: u64,
    queues: Vec<Queue>,
    executing: BTreeMap<Ticket, Executing>,
    next_ticket: u64,
    virtual_now: f64,
    updated: Duration,
    /// The queue that was served last: ties go to the next one.
    last: usize,
}

impl FairQueues {
    /// A level with this many seats.
    pub fn new(options: QueueOptions, seats: u64) -> Self {
        FairQueues {
            options,
            seats,
            seats_in_use: 0,
            queues: (0..options.queues).map(|_| Queue::default()).collect(),
            executing: BTreeMap::new(),
            next_ticket: 0,
            virtual_now: 0.0,
            updated: Duration::ZERO,
            last: 0,
        }
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.waiting.len()).sum()
    }

    /// Seats that are taken.
    pub fn seats_in_use(&self) -> u64 {
        self.seats_in_use
    }

    /// A request arrives. `flow` is the hash of its flow schema and its distinguisher.
    pub fn arrive(&mut self, now: Duration, flow: u64, work: Work) -> Arrival {
        self.advance(now);
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        if self.queues.is_empty() {
            if !self.fits(work) {
                return Arrival::Rejected;
            }
            self.execute(now, ticket, None, work);
            return Arrival::Execute(ticket);
        }
        let Some(index) = self.shortest_of_hand(flow) else { return Arrival::Rejected };
        let limit = self.options.queue_length_max;
        let virtual_now = self.virtual_now;
        let Some(queue) = self.queues.get_mut(index) else { return Arrival::Rejected };
        if queue.waiting.len() >= limit {
            return Arrival::Rejected;
        }
        if queue.waiting.is_empty() && queue.executing_seats == 0 {
            queue.next_begin = queue.next_begin.max(virtual_now);
        }
        queue.waiting.push_back((ticket, work));
        queue.waiting_work += work.seat_seconds(EXECUTION_GUESS);
        match self.dispatch(now).contains(&ticket) {
            true => Arrival::Execute(ticket),
            false => Arrival::Queued(ticket),
        }
    }

    /// A request has ended, its additional latency included. Returns those that execute now.
    pub fn finish(&mut self, now: Duration, ticket: Ticket) -> Vec<Ticket> {
        self.advance(now);
        if let Some(done) = self.executing.remove(&ticket) {
            self.seats_in_use -= done.work.max_seats();
            let took = now.saturating_sub(done.began).as_secs_f64();
            if let Some(queue) = done.queue.and_then(|index| self.queues.get_mut(index)) {
                queue.executing_seats -= done.work.max_seats();
                // The guess is made good.
                queue.next_begin += done.work.initial_seats as f64 * (took - EXECUTION_GUESS);
            }
        }
        self.dispatch(now)
    }

    /// A request that waits is given up: its client is gone or its time is over. False where it does not wait.
    pub fn cancel(&mut self, now: Duration, ticket: Ticket) -> bool {
        self.advance(now);
        for queue in &mut self.queues {
            if let Some(at) = queue.waiting.iter().position(|(waiting, _)| *waiting == ticket) {
                if let Some((_, work)) = queue.waiting.remove(at) {
                    queue.waiting_work -= work.seat_seconds(EXECUTION_GUESS);
                }
                return true;
            }
        }
        false
    }

    /// The level has more or fewer seats from now on. Returns the requests that execute now.
    pub fn set_seats(&mut self, now: Duration, seats: u64) -> Vec<Ticket> {
        self.advance(now);
        self.seats = seats;
        self.dispatch(now)
    }

    /// Virtual time runs as fast as a busy queue gets seats.
    fn advance(&mut self, now: Duration) {
        let real = now.saturating_sub(self.updated).as_secs_f64();
        self.updated = self.updated.max(now);
        let mut busy = 0u64;
        let mut wanted = 0u64;
        for queue in &self.queues {
            let waiting: u64 = queue.waiting.iter().map(|(_, work)| work.initial_seats).sum();
            if waiting + queue.executing_seats > 0 {
                busy += 1;
                wanted += waiting + queue.executing_seats;
            }
        }
        if busy > 0 {
            self.virtual_now += real * wanted.min(self.seats) as f64 / busy as f64;
        }
    }

    fn fits(&self, work: Work) -> bool {
        // A request wider than the level executes when it is alone.
        self.seats_in_use == 0 && self.seats > 0 || self.seats_in_use + work.max_seats() <= self.seats
    }

    /// The queue of the flow's hand with the least work.
    fn shortest_of_hand(&self, flow: u64) -> Option<usize> {
        let work = |index: &usize| {
            self.queues.get(*index).map_or(f64::INFINITY, |queue| {
                queue.waiting_work + queue.executing_seats as f64 * EXECUTION_GUESS
            })
        };
        let hand = shuffle::hand(flow, self.queues.len(), self.options.hand_size);
        hand.into_iter().min_by(|a, b| work(a).total_cmp(&work(b)))
    }

    /// Executes waiting requests while there are seats.
    fn dispatch(&mut self, now: Duration) -> Vec<Ticket> {
        let mut dispatched = Vec::new();
        while let Some(index) = self.next_queue() {
            let Some(queue) = self.queues.get_mut(index) else { break };
            let Some((ticket, work)) = queue.waiting.front().copied() else { break };
            if !self.fits(work) {
                break;
            }
            let Some(queue) = self.queues.get_mut(index) else { break };
            queue.waiting.pop_front();
            let cost = work.seat_seconds(EXECUTION_GUESS);
            queue.waiting_work -= cost;
            queue.next_begin += cost;
            queue.executing_seats += work.max_seats();
            self.last = index;
            self.execute(now, ticket, Some(index), work);
            dispatched.push(ticket);
        }
        dispatched
    }

    fn execute(&mut self, now: Duration, ticket: Ticket, queue: Option<usize>, work: Work) {
        self.seats_in_use += work.max_seats();
        self.executing.insert(ticket, Executing { queue, work, began: now });
    }

    /// The queue whose first request would finish first in virtual time; from the one served last on, round robin.
    fn next_queue(&self) -> Option<usize> {
        let count = self.queues.len();
        let mut best: Option<(f64, usize)> = None;
        for step in 1..=count {
            let index = (self.last + step) % count;
            let Some(queue) = self.queues.get(index) else { continue };
            let Some((_, work)) = queue.waiting.front() else { continue };
            let finish = queue.next_begin + work.seat_seconds(EXECUTION_GUESS);
            if best.is_none_or(|(least, _)| finish < least) {
                best = Some((finish, index));
            }
        }
        best.map(|(_, index)| index)
    }
}

#[cfg(test)]
mod tests;
