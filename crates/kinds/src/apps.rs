//! Kinds of the group `apps`.

pub(crate) mod daemonset;
pub(crate) mod deployment;
pub(crate) mod replicaset;
pub(crate) mod statefulset;

use crate::Scope;
use crate::core::podspec;
use crate::hooks::take;
use pintle_value::Value;

/// Where the pod spec of a workload is.
const POD_SPEC: [&str; 3] = ["spec", "template", "spec"];

/// The first state of a workload: an empty status of the given counters, no fields of disabled features.
fn first_state(object: &mut Value, counters: &[&str]) {
    let mut status = Value::object();
    for counter in counters {
        status.set_at(&[counter], 0.into());
    }
    object.set_at(&["status"], status);
    podspec::disabled::drop_fields(object.at_mut(&POD_SPEC), None);
}

/// What a write of each scope leaves alone.
fn keep(scope: Scope<'_>, object: &mut Value, old: &Value) {
    match scope {
        Scope::Main => {
            take(object, old, &["status"]);
            podspec::disabled::drop_fields(object.at_mut(&POD_SPEC), old.at(&POD_SPEC));
        }
        Scope::Sub("status") => take(object, old, &["spec"]),
        Scope::Sub(_) => {}
    }
}
