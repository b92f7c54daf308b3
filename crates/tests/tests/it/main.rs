//! Tests of a real server process: transcripts, crashes, kubectl, the Python client.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

mod access;
mod admission;
mod check;
mod clients;
mod conversion;
mod converted_watches;
mod crash;
mod definitions;
mod dry_run;
mod edge;
mod egress;
mod encodings;
mod encryption;
mod envtest;
mod examples;
mod external_signer;
mod fight;
mod flow_schemas;
mod following;
mod history;
mod informers;
mod kubectl;
mod maintenance;
mod memory;
mod metrics;
mod migration;
mod object_history;
mod overload;
mod overrides;
mod process;
mod proxy;
mod random;
mod random_requests;
mod several_servers;
mod tools;
mod transcripts;
mod unread;
mod unreadable;
mod watchers;
