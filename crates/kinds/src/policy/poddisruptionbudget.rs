//! PodDisruptionBudget.

use crate::hooks::take;
use crate::{Hooks, Scope};
use pintle_value::Value;

pub(crate) struct PodDisruptionBudget;

impl Hooks for PodDisruptionBudget {
    fn prepare_create(&self, object: &mut Value) {
        let mut status = Value::object();
        for counter in ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"] {
            status.set_at(&[counter], 0.into());
        }
        object.set_at(&["status"], status);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        match scope {
            Scope::Main => take(object, old, &["status"]),
            Scope::Sub("status") => take(object, old, &["spec"]),
            Scope::Sub(_) => {}
        }
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }
}
