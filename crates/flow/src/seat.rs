//! The seat of an executing request, and the place of a waiting one in its queue. Both are released on drop, however
//! the request ends.

use crate::level::Level;
use crate::queues::Ticket;
use crate::{Controller, Flow};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A seat that a request holds while it executes.
pub struct Seat<D> {
    place: Place<D>,
}

impl<D> Drop for Seat<D> {
    fn drop(&mut self) {
        self.place.controller.finish(&self.place.level, self.place.ticket, self.place.mutating);
    }
}

impl<D> Seat<D> {
    /// `now` is the time of the controller's clock.
    pub(crate) fn new(place: Place<D>, now: Duration) -> Self {
        place.controller.count_executing(place.mutating, 1, now);
        Seat { place }
    }
}

pub(crate) struct Place<D> {
    pub(crate) controller: Arc<Controller<D>>,
    pub(crate) level: Arc<Level<D>>,
    pub(crate) ticket: Ticket,
    pub(crate) mutating: bool,
}

/// A request in a queue. It resolves to a seat; if it is dropped earlier, it leaves the queue.
pub struct Waiting<D> {
    place: Option<Place<D>>,
    /// The flow that the request was classified into.
    pub flow: Arc<Flow>,
}

impl<D> Waiting<D> {
    pub(crate) fn new(place: Place<D>, flow: Arc<Flow>) -> Self {
        place.controller.count_waiting(place.mutating, 1);
        Waiting { place: Some(place), flow }
    }

    /// Leaves the queue. Returns after how many seconds the client should retry, or the seat if one has just become
    /// free.
    pub fn leave_queue(mut self) -> Result<Seat<D>, u64> {
        let Some(place) = self.place.take() else { return Err(1) };
        place.controller.count_waiting(place.mutating, -1);
        match place.controller.cancel_waiting(&place.level, place.ticket) {
            Some(retry_after) => Err(retry_after),
            None => {
                let now = place.controller.now();
                Ok(Seat::new(place, now))
            }
        }
    }
}

impl<D> Future for Waiting<D> {
    type Output = Seat<D>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Seat<D>> {
        let this = &mut *self;
        let is_dispatched = |place: &Place<D>| place.level.state().is_dispatched(place.ticket, cx.waker());
        match this.place.take_if(|place| is_dispatched(place)) {
            Some(place) => {
                place.controller.count_waiting(place.mutating, -1);
                let now = place.controller.now();
                Poll::Ready(Seat::new(place, now))
            }
            None => Poll::Pending,
        }
    }
}

impl<D> Unpin for Waiting<D> {}

impl<D> Drop for Waiting<D> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            place.controller.count_waiting(place.mutating, -1);
            if place.controller.cancel_waiting(&place.level, place.ticket).is_none() {
                // The request has just been dispatched, but its caller is gone.
                let now = place.controller.now();
                drop(Seat::new(place, now));
            }
        }
    }
}
