//! Failures of the store and of apply, as the `Status` a client sees.

use pintle_meta::Status;
use pintle_store::WriteError;

/// What a client is told when the store does not take a write.
pub(crate) fn write_error(error: WriteError) -> Status {
    match error {
        WriteError::TooLarge { .. } => Status::unclassified("etcdserver: request is too large"),
        WriteError::Refused { message } => Status::unclassified(message),
        // Nobody knows whether the write took place: a client must look before it tries again.
        WriteError::Unknown { reason } => {
            Status::timeout(&format!("request did not complete within requested timeout - {reason}"), 0)
        }
        other => Status::internal(&other.to_string()),
    }
}
