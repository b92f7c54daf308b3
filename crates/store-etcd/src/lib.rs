//! The [`pintle_store::Store`] on etcd v3: the same keys and bytes, with etcd's revisions.
//!
//! One connection carries all calls and one watch of all keys. A write is a transaction on mod revisions and is
//! acknowledged once the watch has delivered it, so that the sink is never behind an acknowledged write. A barrier is
//! one linearizable read for all concurrent callers, and then a wait until the watch reaches its revision. Values are
//! opaque to this crate.

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
