//! Kinds of the group `apps`.

pub(crate) mod controllerrevision;
pub(crate) mod daemonset;
pub(crate) mod deployment;
pub(crate) mod replicaset;
pub(crate) mod statefulset;

use crate::core::podspec::{self, options::Options, warnings};
use crate::fields::member;
use crate::workload;
use pintle_meta::FieldErrors;
use pintle_meta::field::quoted;
use pintle_value::{Path, Value};
use std::num::IntErrorKind;

/// Go's error if a text is no 64-bit number.
fn parse_int_error(text: &str) -> Option<String> {
    let why = match text.parse::<i64>().err()?.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    Some(format!("strconv.ParseInt: parsing {}: {why}", quoted(text)))
}

/// Validates that selector and template of a ReplicaSet or Deployment match.
fn validate_replicated_template(spec: &Value, options: &Options, errors: &mut FieldErrors) {
    let path = Path::of("spec");
    match workload::selects_template(spec) {
        None => errors.invalid(
            &path.field("selector"),
            workload::selector_error_text(spec),
            "invalid label selector",
        ),
        Some(selects) => {
            let empty = member(spec, "selector").is_some_and(workload::is_empty_selector);
            if !empty && !selects {
                workload::report_unselected_template(spec, &path, errors);
            }
            workload::validate_running_template(spec, "ReplicaSet", &path, options, errors);
        }
    }
}

/// Validates the status of a ReplicaSet or ReplicationController.
pub(crate) fn validate_replica_status(status: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status");
    let counters = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    workload::validate_counters(status, &counters, &path, errors);
    for key in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        workload::validate_not_above(status, key, "replicas", "status.replicas", &path, errors);
    }
    workload::validate_not_above(
        status,
        "availableReplicas",
        "readyReplicas",
        "readyReplicas",
        &path,
        errors,
    );
}

/// Warnings about a workload's template; on updates only if the generation changes.
fn template_warnings(object: &Value, old: Option<&Value>, names_pods: bool) -> Vec<String> {
    let mut found = Vec::new();
    if old.is_none() && names_pods {
        found.extend(workload::name_warning(object, workload::POD_NAMES));
    }
    if old.is_none_or(|old| podspec::options::generation(old) != podspec::options::generation(object)) {
        found.extend(warnings::template(object.at(&["spec", "template"]), &Path::of("spec.template")));
    }
    found
}
