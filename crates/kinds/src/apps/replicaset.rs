//! ReplicaSet.

use crate::core::podspec;
use crate::fill::absent;
use crate::{Hooks, Scope};
use pintle_value::Value;

pub(crate) struct ReplicaSet;

impl Hooks for ReplicaSet {
    fn default(&self, _version: &str, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        absent(spec, "replicas", 1);
        if let Some(template) = spec.get_mut("template") {
            podspec::defaults::template(template);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        super::first_state(object, &["replicas"]);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        super::keep(scope, object, old);
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }
}
