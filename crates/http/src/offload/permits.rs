//! `Permits`: limits how many offloaded futures are polled at once, and chooses the next. Users take turns, so that a user with
//! many heavy requests delays the others by the request that is running, not by all that wait.

use pintle_flow::Turns;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A limited number of permits, and the futures that wait for one.
pub(super) struct Permits {
    state: Mutex<State>,
}

struct State {
    free: usize,
    numbers: u64,
    waiting: Turns<Waker>,
}

impl Permits {
    pub(super) fn new(count: usize) -> Self {
        Permits { state: Mutex::new(State { free: count, numbers: 0, waiting: Turns::default() }) }
    }

    /// A place in the queue of a user, for any number of permits one after another.
    pub(super) fn queue(self: &Arc<Self>, key: u64) -> Queued {
        let mut state = self.state();
        state.numbers = state.numbers.wrapping_add(1);
        Queued { permits: Arc::clone(self), key, number: state.numbers, waits: false }
    }

    /// Gives a permit to the next in turn.
    fn release(&self) {
        let next = {
            let mut state = self.state();
            let next = state.waiting.take_next();
            state.free = state.free.saturating_add(usize::from(next.is_none()));
            next
        };
        if let Some(next) = next {
            next.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Permits::queue`].
pub(super) struct Queued {
    permits: Arc<Permits>,
    key: u64,
    number: u64,
    waits: bool,
}

impl Queued {
    /// Is ready with a permit.
    pub(super) fn poll_permit(&mut self, cx: &Context<'_>) -> Poll<Permit> {
        let mut state = self.permits.state();
        let is_granted =
            if self.waits { !state.waiting.waits(self.key, self.number) } else { state.free > 0 };
        if !is_granted {
            state.waiting.wait(self.key, self.number, cx.waker().clone());
            self.waits = true;
            return Poll::Pending;
        }
        if !self.waits {
            state.free = state.free.saturating_sub(1);
        }
        self.waits = false;
        Poll::Ready(Permit(Arc::clone(&self.permits)))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if !self.waits {
            return;
        }
        let mut state = self.permits.state();
        if state.waiting.waits(self.key, self.number) {
            state.waiting.leave(self.key, self.number);
        } else {
            // The permit was granted, and nobody will use it.
            drop(state);
            self.permits.release();
        }
    }
}

/// A permit, which is released when it is dropped.
pub(super) struct Permit(Arc<Permits>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(queued: &mut Queued) -> Option<Permit> {
        match queued.poll_permit(&Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn users_take_turns() {
        let permits = Arc::new(Permits::new(1));
        let running = poll(&mut permits.queue(1)).unwrap();
        let mut flood: Vec<Queued> = (0..3).map(|_| permits.queue(1)).collect();
        assert!(flood.iter_mut().all(|queued| poll(queued).is_none()));
        let mut other = permits.queue(2);
        assert!(poll(&mut other).is_none());
        drop(running);
        assert!(poll(&mut other).is_none());
        let first = poll(&mut flood[0]).unwrap();
        drop(first);
        assert!(flood.iter_mut().skip(1).all(|queued| poll(queued).is_none()));
        assert!(poll(&mut other).is_some());
    }

    #[test]
    fn a_permit_that_nobody_takes_is_passed_on() {
        let permits = Arc::new(Permits::new(1));
        let running = poll(&mut permits.queue(1)).unwrap();
        let (mut granted, mut left, mut last) = (permits.queue(1), permits.queue(2), permits.queue(3));
        assert!([&mut granted, &mut left, &mut last].into_iter().all(|queued| poll(queued).is_none()));
        drop(left);
        drop(running);
        drop(granted);
        drop(poll(&mut last).unwrap());
        assert!(poll(&mut permits.queue(4)).is_some());
    }
}
