//! Validates file paths: for mounts, projections and references.

use pintle_meta::FieldErrors;
use pintle_value::Path;

/// Requires an absolute path.
pub(crate) fn absolute(path: &Path<'_>, target: &str, errors: &mut FieldErrors) {
    if !target.starts_with('/') {
        errors.invalid(path, target, "must be an absolute path");
    }
}

/// No `..` between slashes.
pub(crate) fn no_backsteps(path: &Path<'_>, target: &str, errors: &mut FieldErrors) {
    if has_backstep(target) {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// Returns whether a path contains `..`.
pub(crate) fn has_backstep(target: &str) -> bool {
    target.split('/').any(|part| part == "..")
}

/// Requires a relative path without `..`.
pub(crate) fn local_descending(path: &Path<'_>, target: &str, errors: &mut FieldErrors) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    no_backsteps(path, target, errors);
}

/// Requires a relative path without `..` that does not start with a name reserved for the kubelet.
pub(crate) fn local_non_reserved(path: &Path<'_>, target: &str, errors: &mut FieldErrors) {
    local_descending(path, target, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}
