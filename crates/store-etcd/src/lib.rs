//! The [`pintle_store::Store`] on etcd v3: keys and bytes as they lie there, revisions as etcd counts them.
//!
//! One connection carries all calls and one watch of all keys. A write is a transaction on mod revisions and is
//! acknowledged once the watch has brought it, so that the sink is never behind an acknowledged write. A barrier is
//! one linearizable read for everyone who waits, and then a wait for the watch to get there. Values are opaque: what
//! they mean is decided above.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod barrier;
mod channel;
mod compaction;
mod engine;
mod follow;
mod grpc;
mod http2;
mod lease;
mod message;
mod options;
mod pending;
mod progress;
mod raise;
mod tls;

pub use engine::Etcd;
pub use options::{Dial, Endpoint, Options, OptionsError, Stream};
pub use tls::Tls;
