//! Who owns which field: managedFields of updates, and server-side apply.

use crate::Target;
use pintle_meta::Status;
use pintle_value::Value;

/// Who writes, as managedFields name it.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) manager: &'a str,
    pub(crate) now: &'a str,
}

/// Records on `object` that its writer owns what differs from `live`. Both are in the version of the request.
pub(crate) fn record(_target: &Target, _owner: Owner<'_>, _live: Option<&Value>, _object: &mut Value) {}

/// Merges an applied configuration into the live object; `None` when nothing changes.
pub(crate) fn apply(
    _target: &Target,
    _owner: Owner<'_>,
    _live: Option<&Value>,
    _config: Value,
    _force: bool,
) -> Result<Option<Value>, Status> {
    Err(Status::internal("server-side apply is not there yet"))
}

/// Takes back changes that are only in the times of managedFields.
pub(crate) fn keep_times(_object: &mut Value, _old: &Value) {}
