//! Priority and fairness as kube-apiserver has it: how many seats a priority level has, which of its requests is next, and
//! which is refused. Pure: no I/O, no clock (every call says what time it is), no threads.

pub mod queues;
pub mod shares;
pub mod shuffle;

pub use queues::{Arrival, FairQueues, QueueOptions, Ticket};
pub use shares::{Level, allocate, seats_of};
pub use shuffle::hand;

use std::time::Duration;

/// What a request costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Seats while it executes.
    pub initial_seats: u64,
    /// Seats after that, for what it causes elsewhere (watchers that are notified of a write).
    pub final_seats: u64,
    /// How long those are held.
    pub additional_latency: Duration,
}

impl Work {
    /// A request that takes one seat while it executes.
    pub const ONE: Work = Work { initial_seats: 1, final_seats: 0, additional_latency: Duration::ZERO };

    /// Most seats at any time.
    pub fn max_seats(&self) -> u64 {
        self.initial_seats.max(self.final_seats)
    }

    /// Seat-seconds, with a guess of how long the request executes.
    fn seat_seconds(&self, execution_guess: f64) -> f64 {
        self.initial_seats as f64 * execution_guess
            + self.final_seats as f64 * self.additional_latency.as_secs_f64()
    }
}
