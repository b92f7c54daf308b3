//! Turns failures of the store and of apply into a `Status`.

use pintle_meta::Status;
use pintle_store::WriteError;

/// The `Status` for a write that the store did not accept.
pub(crate) fn write_error(error: WriteError) -> Status {
    match error {
        WriteError::TooLarge { .. } => Status::unclassified("etcdserver: request is too large"),
        WriteError::Refused { message } => Status::unclassified(message),
        // In both cases the outcome is unknown: the client must read the object before it retries.
        WriteError::Unknown { reason } => Status::unclassified(reason),
        WriteError::TimedOut => {
            Status::timeout(&format!("request did not complete within requested timeout - {error}"), 0)
        }
        other => Status::internal(&other.to_string()),
    }
}
