//! DaemonSet. The generation of its template is kept in an annotation.

use crate::core::podspec;
use crate::fill::{absent, zero};
use crate::{Hooks, Scope};
use pintle_value::Value;

/// Where the generation of the template is.
const TEMPLATE_GENERATION: [&str; 3] = ["metadata", "annotations", "deprecated.daemonset.template.generation"];

pub(crate) struct DaemonSet;

impl Hooks for DaemonSet {
    fn default(&self, _version: &str, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        absent(spec, "updateStrategy", Value::object());
        if let Some(strategy) = spec.get_mut("updateStrategy") {
            zero(strategy, "type", "RollingUpdate");
            if strategy.str_at(&["type"]) == "RollingUpdate" {
                absent(strategy, "rollingUpdate", Value::object());
                if let Some(rolling) = strategy.get_mut("rollingUpdate") {
                    absent(rolling, "maxUnavailable", 1);
                    absent(rolling, "maxSurge", 0);
                }
            }
        }
        absent(spec, "revisionHistoryLimit", 10);
        if let Some(template) = spec.get_mut("template") {
            podspec::defaults::template(template);
        }
        set_template_generation(object, template_generation(object));
    }

    fn prepare_create(&self, object: &mut Value) {
        let counters = ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"];
        super::first_state(object, &counters);
        set_template_generation(object, template_generation(object).max(1));
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        super::keep(scope, object, old);
        // Annotations of a status write pass, this one is part of the spec.
        let mut generation = template_generation(old);
        if scope == Scope::Main && object.at(&["spec", "template"]) != old.at(&["spec", "template"]) {
            generation = generation.wrapping_add(1);
        }
        set_template_generation(object, generation);
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }
}

fn template_generation(object: &Value) -> i64 {
    object.str_at(&TEMPLATE_GENERATION).parse().unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    object.set_at(&TEMPLATE_GENERATION, generation.to_string().into());
}
