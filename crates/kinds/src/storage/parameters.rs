//! Validation shared by StorageClass and VolumeAttributesClass: driver name and parameters.

use crate::check;
use crate::fields::entries;
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;

/// Checks the name of a provisioner.
pub(super) fn validate_provisioner(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    check::qualified_name(path, &name.to_lowercase(), errors);
}

/// Checks parameters.
pub(super) fn validate_parameters(object: &Value, may_be_empty: bool, errors: &mut FieldErrors) {
    let path = Path::of("parameters");
    let parameters = || entries(object.get("parameters"));
    if parameters().count() > PARAMETERS_MAX {
        return errors.too_long(&path, PARAMETERS_MAX);
    }
    let mut size = 0_usize;
    for (key, value) in parameters() {
        if key.is_empty() {
            errors.invalid(&path, key, "field can not be empty.");
        }
        size = size.saturating_add(key.len()).saturating_add(value.as_str().map_or(0, str::len));
    }
    if size > PARAMETERS_BYTES_MAX {
        errors.too_long(&path, PARAMETERS_BYTES_MAX);
    }
    if !may_be_empty && parameters().next().is_none() {
        errors.required(&path, "must contain at least one key/value pair");
    }
}
