//! Failures of the store and of apply, as the `Status` a client sees.

use pintle_meta::Status;
use pintle_store::WriteError;

/// What a client is told when the store does not take a write.
pub(crate) fn write_error(error: WriteError) -> Status {
    match error {
        WriteError::TooLarge { .. } => Status::unclassified("etcdserver: request is too large"),
        other => Status::internal(&other.to_string()),
    }
}
