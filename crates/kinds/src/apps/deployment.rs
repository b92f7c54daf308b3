//! Deployment.

use crate::core::podspec;
use crate::fill::{absent, zero};
use crate::hooks::take;
use crate::{Hooks, Scope};
use pintle_value::Value;

pub(crate) struct Deployment;

impl Hooks for Deployment {
    fn default(&self, _version: &str, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        absent(spec, "replicas", 1);
        absent(spec, "strategy", Value::object());
        if let Some(strategy) = spec.get_mut("strategy") {
            zero(strategy, "type", "RollingUpdate");
            if strategy.str_at(&["type"]) == "RollingUpdate" {
                absent(strategy, "rollingUpdate", Value::object());
                if let Some(rolling) = strategy.get_mut("rollingUpdate") {
                    absent(rolling, "maxUnavailable", "25%");
                    absent(rolling, "maxSurge", "25%");
                }
            }
        }
        absent(spec, "revisionHistoryLimit", 10);
        absent(spec, "progressDeadlineSeconds", 600);
        if let Some(template) = spec.get_mut("template") {
            podspec::defaults::template(template);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        super::first_state(object, &[]);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        super::keep(scope, object, old);
        if scope == Scope::Sub("status") {
            take(object, old, &["metadata", "labels"]);
        }
    }

    /// Annotations count too, since they are copied to replica sets.
    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        let annotations = |v: &Value| v.at(&["metadata", "annotations"]).filter(|a| **a != Value::object()).cloned();
        object.get("spec") != old.get("spec") || annotations(object) != annotations(old)
    }
}
