//! Audit logging. A policy decides how much of a request is recorded; events are sent to sinks (a log, a webhook).
//! Without a policy or without a sink, nothing is recorded.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod event;
mod notes;
mod policy;
mod record;
pub mod sink;

use pintle_meta::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

pub use event::{Event, ObjectRef, ResponseStatus};
pub use notes::{
    Notes, annotate, annotate_with_objects, note_request_document, note_request_object,
    note_response_document, with_notes,
};
pub use policy::{Level, Policy, PolicyError, RequestAttributes, Rules, Stage};
pub use record::{Auditor, Received, Record};

/// The current time in the format of events.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp { seconds, nanos: since.subsec_nanos() }.rfc3339_micro().to_string()
}
