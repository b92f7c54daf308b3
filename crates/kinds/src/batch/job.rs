//! Job: the selector that it gives itself.

use crate::core::podspec;
use crate::fill::{absent, items, map_at, zero};
use crate::hooks::take;
use crate::{Hooks, Scope};
use pintle_value::Value;

const POD_SPEC: [&str; 3] = ["spec", "template", "spec"];
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID_LABELS: [&str; 2] = ["controller-uid", CONTROLLER_UID];

pub(crate) struct Job;

impl Hooks for Job {
    fn default(&self, _version: &str, object: &mut Value) {
        labels_from_template(object);
        if let Some(spec) = object.get_mut("spec") {
            default_spec(spec);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        if object.at(&["spec", "manualSelector"]).and_then(Value::as_bool) != Some(true) {
            generate_selector(object);
        }
        object.set_at(&["status"], Value::object());
        podspec::disabled::drop_fields(object.at_mut(&POD_SPEC), None);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        match scope {
            Scope::Main => {
                take(object, old, &["status"]);
                podspec::disabled::drop_fields(object.at_mut(&POD_SPEC), old.at(&POD_SPEC));
            }
            Scope::Sub("status") => take(object, old, &["spec"]),
            Scope::Sub(_) => {}
        }
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }
}

fn labels_from_template(object: &mut Value) {
    let own = map_at(object, &["metadata", "labels"]).is_some_and(|m| !m.is_empty());
    let labels = object.at(&["spec", "template", "metadata", "labels"]).cloned();
    if let (false, Some(labels)) = (own, labels) {
        object.set_at(&["metadata", "labels"], labels);
    }
}

fn default_spec(spec: &mut Value) {
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        spec.set_at(&["completions"], 1.into());
    }
    absent(spec, "parallelism", 1);
    let per_index = spec.get("backoffLimitPerIndex").is_some();
    absent(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
    absent(spec, "completionMode", "NonIndexed");
    absent(spec, "suspend", false);
    let has_failure_policy = spec.get("podFailurePolicy").is_some();
    absent(spec, "podReplacementPolicy", if has_failure_policy { "Failed" } else { "TerminatingOrFailed" });
    absent(spec, "manualSelector", false);
    nested_defaults(spec);
}

/// Defaults that the spec of a job has wherever it is, also inside a CronJob.
pub(super) fn nested_defaults(spec: &mut Value) {
    if let Some(policy) = spec.get_mut("podFailurePolicy") {
        for rule in items(policy, "rules") {
            for pattern in items(rule, "onPodConditions") {
                zero(pattern, "status", "True");
            }
        }
    }
    if let Some(template) = spec.get_mut("template") {
        podspec::defaults::template(template);
    }
}

/// Labels of name and uid for the pods, and a selector for the uid. What the user has set stays, for validation
/// to judge.
fn generate_selector(object: &mut Value) {
    let name = Value::from(object.str_at(&["metadata", "name"]));
    let uid = Value::from(object.str_at(&["metadata", "uid"]));
    let labels = NAME_LABELS.map(|l| (l, &name)).into_iter().chain(UID_LABELS.map(|l| (l, &uid)));
    for (label, value) in labels {
        let path = ["spec", "template", "metadata", "labels", label];
        if object.at(&path).is_none() {
            object.set_at(&path, value.clone());
        }
    }
    let path = ["spec", "selector", "matchLabels", CONTROLLER_UID];
    if object.at(&path).is_none() {
        object.set_at(&path, uid);
    }
}
