//! Turns failures of the store and of apply into a `Status`.

use pintle_meta::Status;
use pintle_store::WriteError;

/// The `Status` for a write that the store did not accept.
pub(crate) fn write_error(error: WriteError) -> Status {
    match error {
        WriteError::TooLarge { .. } => Status::unclassified("etcdserver: request is too large"),
        WriteError::Refused { message } => Status::unclassified(message),
        // The outcome of the write is unknown: the client must read the object before it retries.
        WriteError::Unknown { reason } => {
            Status::timeout(&format!("request did not complete within requested timeout - {reason}"), 0)
        }
        other => Status::internal(&other.to_string()),
    }
}
