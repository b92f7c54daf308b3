//! Failures of the store and of apply, as the `Status` a client sees.

use crate::Target;
use pintle_apply::managed::ApplyError;
use pintle_meta::{Reason, Status};
use pintle_store::WriteError;

/// What a client is told when the store does not take a write.
pub(crate) fn write_error(error: WriteError) -> Status {
    match error {
        WriteError::TooLarge { .. } => Status::new(500, Reason::Unknown, "etcdserver: request is too large"),
        other => Status::internal(&other.to_string()),
    }
}

/// What a client is told when an apply does not go through.
pub(crate) fn apply_error(target: &Target, error: ApplyError) -> Status {
    error.into_status(&target.kind.group_resource(), &target.name)
}
