//! `Turns`: decides which request runs next when more are ready than there are processors. Flows (here the requests
//! of one user) take turns, and a flow that did not wait before goes first: a client that sends few requests does not
//! wait for clients that flood the server.
//!
//! Seats limit requests that take long. Short requests that only need the processor hardly ever fill the seats, so
//! without turns they would run in the order in which they arrive.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Requests that wait for their turns. `P` is the data that the caller stores with each of them.
pub struct Turns<P> {
    /// Flows that have just begun to wait. They go before all other flows, once.
    fresh: VecDeque<u64>,
    /// Flows that had a turn recently. A flow stays here for one round after its last request; otherwise its next
    /// request would make it fresh again and it would get more than its part.
    steady: VecDeque<u64>,
    flows: HashMap<u64, BTreeMap<u64, P>>,
    waiting: usize,
}

impl<P> Default for Turns<P> {
    fn default() -> Self {
        Turns { fresh: VecDeque::new(), steady: VecDeque::new(), flows: HashMap::new(), waiting: 0 }
    }
}

impl<P> Turns<P> {
    /// Takes the turn of a flow that had none recently and does not wait: it need not wait for others. Returns false
    /// for other flows.
    pub fn take_first(&mut self, flow: u64) -> bool {
        let is_first = !self.flows.contains_key(&flow);
        if is_first {
            self.flows.insert(flow, BTreeMap::new());
            self.steady.push_back(flow);
        }
        is_first
    }

    /// Adds a waiting request of a flow. Within a flow the lowest number is next: a request that began earlier is
    /// finished before a later one begins. Returns the data stored with the same request, if it waits already.
    pub fn wait(&mut self, flow: u64, number: u64, payload: P) -> Option<P> {
        let requests = self.flows.entry(flow).or_insert_with(|| {
            self.fresh.push_back(flow);
            BTreeMap::new()
        });
        let earlier = requests.insert(number, payload);
        self.waiting = self.waiting.saturating_add(usize::from(earlier.is_none()));
        earlier
    }

    /// Whether a request waits.
    pub fn waits(&self, flow: u64, number: u64) -> bool {
        self.flows.get(&flow).is_some_and(|requests| requests.contains_key(&number))
    }

    /// Removes a waiting request whose client is gone.
    pub fn leave(&mut self, flow: u64, number: u64) {
        let left = self.flows.get_mut(&flow).and_then(|requests| requests.remove(&number));
        self.waiting = self.waiting.saturating_sub(usize::from(left.is_some()));
    }

    /// The request whose turn it is.
    pub fn take_next(&mut self) -> Option<P> {
        loop {
            let fresh = self.fresh.pop_front();
            let is_fresh = fresh.is_some();
            let flow = fresh.or_else(|| self.steady.pop_front())?;
            let next = self.flows.get_mut(&flow).and_then(BTreeMap::pop_first);
            if next.is_some() || is_fresh {
                self.steady.push_back(flow);
            } else {
                self.flows.remove(&flow);
            }
            if let Some((_, payload)) = next {
                self.waiting = self.waiting.saturating_sub(1);
                return Some(payload);
            }
        }
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets requests wait, given as flow and number, and returns the order of their turns.
    fn order(waiting: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut turns = Turns::default();
        for (flow, number) in waiting {
            turns.wait(*flow, *number, (*flow, *number));
        }
        assert_eq!(turns.len(), waiting.len());
        std::iter::from_fn(|| turns.take_next()).collect()
    }

    #[test]
    fn flows_take_turns_and_earlier_requests_go_first() {
        assert_eq!(order(&[(1, 12), (1, 10), (1, 11), (2, 20)]), [(1, 10), (2, 20), (1, 11), (1, 12)]);
        assert_eq!(order(&[(1, 1), (2, 2), (3, 3), (2, 4)]), [(1, 1), (2, 2), (3, 3), (2, 4)]);
    }

    #[test]
    fn a_quiet_flow_is_next_whenever_it_asks() {
        let mut turns = Turns::default();
        (0..1000).for_each(|number| _ = turns.wait(number % 100, number, number));
        // All of them have had a turn.
        (0..200).for_each(|_| _ = turns.take_next());
        for number in 5000..5010 {
            turns.wait(777, number, number);
            assert_eq!(turns.take_next(), Some(number));
            // The flow had the last turn, and is only forgotten after a round of the other flows.
            (0..101).for_each(|_| _ = turns.take_next());
        }
    }

    #[test]
    fn a_flow_that_leaves_and_returns_gets_no_more_than_its_share() {
        let mut turns = Turns::default();
        let mut had = [0; 2];
        (0..1000).for_each(|number| _ = turns.wait(0, number, 0));
        for number in 0..100 {
            // The flow sends one request at a time, the next as soon as it had its turn.
            if !turns.waits(1, number) {
                turns.wait(1, number, 1);
            }
            had[turns.take_next().unwrap()] += 1;
            had[turns.take_next().unwrap()] += 1;
        }
        assert_eq!(had, [100, 100]);
    }

    #[test]
    fn the_first_turn_of_a_flow_comes_at_once_and_the_next_after_a_round() {
        let mut turns = Turns::default();
        (0..10).for_each(|number| _ = turns.wait(1, number, number));
        assert!(!turns.take_first(1) && turns.take_first(2) && !turns.take_first(2));
        turns.wait(2, 20, 20);
        assert_eq!([turns.take_next(), turns.take_next(), turns.take_next()], [Some(0), Some(20), Some(1)]);
        // None of its requests waited for a round.
        (0..2).for_each(|_| _ = turns.take_next());
        assert!(turns.take_first(2));
        (0..6).for_each(|_| _ = turns.take_next());
        assert!(turns.take_next().is_none() && turns.flows.is_empty());
    }

    #[test]
    fn those_that_leave_have_no_turn_and_nothing_is_retained() {
        let mut turns = Turns::default();
        for flow in 0..10 {
            turns.wait(flow, flow, flow);
            turns.wait(flow, flow + 100, flow);
        }
        (0..10).for_each(|flow| turns.leave(flow, flow));
        turns.leave(3, 4711);
        turns.leave(4711, 3);
        assert_eq!((turns.len(), std::iter::from_fn(|| turns.take_next()).count()), (10, 10));
        assert!(
            turns.is_empty() && turns.flows.is_empty() && turns.fresh.is_empty() && turns.steady.is_empty()
        );
    }
}
