//! The shared parts of tests and benches: a server to start, a client for it, transcripts to replay.
//!
//! Nothing here depends on the server's own crates: everything uses the network.

pub mod backend;
pub mod cbor;
pub mod certificate;
pub mod client;
pub mod envtest;
pub mod etcd;
pub mod grpc;
pub mod konnectivity;
pub mod server;
mod skip;
pub mod transcript;
pub mod webhook;
pub mod wire;

pub use certificate::Certificate;
pub use client::{Answer, Client, Request};
pub use etcd::Etcd;
pub use grpc::{GrpcAnswer, GrpcServer};
pub use konnectivity::Konnectivity;
pub use server::{Options, Server};
pub use skip::skip;
pub use webhook::{Webhook, json_patch};
