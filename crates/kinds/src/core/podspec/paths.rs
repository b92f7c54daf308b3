//! Paths of files: which may be mounted, projected and referred to.

use pintle_meta::FieldErrors;
use pintle_value::Path;

/// No `..` between slashes.
pub(crate) fn no_backsteps(path: &Path<'_>, target: &str, errors: &mut FieldErrors) {
    if has_backstep(target) {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// Whether a path goes up somewhere.
pub(crate) fn has_backstep(target: &str) -> bool {
    target.split('/').any(|part| part == "..")
}

/// Relative, and going down only.
pub(crate) fn local_descending(path: &Path<'_>, target: &str, errors: &mut FieldErrors) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    no_backsteps(path, target, errors);
}

/// Relative, going down only, and none of the names that the kubelet keeps for itself.
pub(crate) fn local_non_reserved(path: &Path<'_>, target: &str, errors: &mut FieldErrors) {
    local_descending(path, target, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}
