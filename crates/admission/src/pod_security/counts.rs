//! Metrics of pod security.

use super::policy::{Level, LevelVersion, Version};
use crate::{Attributes, Operation};
use pintle_metrics::families;

/// The minor version of the API; policies for later ones count as `future`.
const API_MINOR: i64 = 36;

#[derive(Clone, Copy)]
pub(super) enum Mode {
    Enforce,
    Audit,
    Warn,
}

/// Makes the series that kube-apiserver has from the start.
pub(super) fn prepare() {
    for operation in ["create", "update"] {
        let privileged = ["allow", "enforce", "privileged", "latest", operation, "pod", ""];
        _ = families::POD_SECURITY_EVALUATIONS.with(&privileged);
        for resource in ["pod", "controller"] {
            _ = families::POD_SECURITY_EXEMPTIONS.with(&[operation, resource, ""]);
        }
    }
}

/// Counts a decision about a pod, or about the template of a controller.
pub(super) fn count_evaluation(request: &Attributes<'_>, policy: LevelVersion, mode: Mode, is_allowed: bool) {
    let version = match policy.version {
        Version::Minor(minor) if policy.level != Level::Privileged => {
            if minor <= API_MINOR {
                format!("v1.{minor}")
            } else {
                "future".to_string()
            }
        }
        _ => "latest".to_string(),
    };
    let decision = if is_allowed { "allow" } else { "deny" };
    let mode = match mode {
        Mode::Enforce => "enforce",
        Mode::Audit => "audit",
        Mode::Warn => "warn",
    };
    let [operation, resource, subresource] = labels(request);
    let level = policy.level.name();
    families::POD_SECURITY_EVALUATIONS.inc(&[
        decision,
        mode,
        level,
        &version,
        operation,
        resource,
        subresource,
    ]);
}

/// Counts a request that is exempt.
pub(super) fn count_exemption(request: &Attributes<'_>) {
    families::POD_SECURITY_EXEMPTIONS.inc(&labels(request));
}

/// Counts an error; a fatal one means that nothing was evaluated.
pub(super) fn count_error(request: &Attributes<'_>, is_fatal: bool) {
    let [operation, resource, subresource] = labels(request);
    let fatal = if is_fatal { "true" } else { "false" };
    families::POD_SECURITY_ERRORS.inc(&[fatal, operation, resource, subresource]);
}

fn labels<'a>(request: &Attributes<'a>) -> [&'a str; 3] {
    let operation = if request.operation == Operation::Create { "create" } else { "update" };
    let resource = if request.kind.plural == "pods" { "pod" } else { "controller" };
    [operation, resource, request.subresource]
}
