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
use pintle_value::{Path, Value};

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
                workload::complain_of_labels(spec, &path, errors);
            }
            workload::running_template(spec, "ReplicaSet", &path, options, errors);
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
    workload::counters(status, &counters, &path, errors);
    for key in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        workload::not_above(status, key, "replicas", "status.replicas", &path, errors);
    }
    workload::not_above(status, "availableReplicas", "readyReplicas", "readyReplicas", &path, errors);
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
