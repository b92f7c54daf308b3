//! A real server process under test: recorded conversations, crashes, kubectl, the Python client.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod clients;
mod crash;
mod informers;
mod kubectl;
mod process;
mod transcripts;
mod watchers;
