//! Priority and fairness, as in kube-apiserver: which flow schema matches a request, how many seats its priority
//! level has, which request is next, and which is rejected. There is no I/O, no thread and no clock: every call
//! receives the current time.
//!
//! The filter chain uses [`Controller`]; the other modules are pure.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod controller;
mod demand;
mod digest;
mod dropped;
pub mod estimate;
mod flow;
mod histogram;
mod level;
mod objects;
pub mod queues;
mod schema;
mod seat;
mod seat_seconds;
pub mod shares;
pub mod shuffle;
mod turns;
mod watches;

pub use controller::{Clock, Controller, Entry, Estimate, ReadWrite};
pub use demand::Demand;
pub use digest::Digest;
pub use dropped::RetryAfter;
pub use estimate::Work;
pub use flow::{Flow, FlowReport, RejectReason};
pub use histogram::{Histogram, TimingReport};
pub use level::{Level, LevelReport, LevelRow, QueueRow, RequestRow};
pub use objects::{LevelObject, SchemaObject};
pub use seat::{Seat, Waiting};
pub use seat_seconds::SeatSeconds;
pub use turns::Turns;
pub use watches::{WatchCounts, WatchRegistration};

/// The name of the level and of the schema that are never limited.
pub const EXEMPT: &str = "exempt";
/// The name of the level and of the schema that take whatever no other schema takes.
pub const CATCH_ALL: &str = "catch-all";
