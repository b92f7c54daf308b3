//! ReplicationController: selector and labels come from its template where they are left out.

use crate::core::podspec;
use crate::fill::{absent, map_at};
use crate::hooks::take;
use crate::{Hooks, Scope};
use pintle_value::Value;

pub(crate) struct ReplicationController;

impl Hooks for ReplicationController {
    fn default(&self, _version: &str, object: &mut Value) {
        if let Some(labels) = map_at(object, &["spec", "template", "metadata", "labels"]).cloned() {
            for at in [["spec", "selector"], ["metadata", "labels"]] {
                if map_at(object, &at).is_none_or(|m| m.is_empty()) {
                    object.set_at(&at, labels.clone().into());
                }
            }
        }
        if let Some(spec) = object.get_mut("spec") {
            absent(spec, "replicas", 1);
            if let Some(template) = spec.get_mut("template") {
                podspec::defaults::template(template);
            }
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        let mut status = Value::object();
        status.set_at(&["replicas"], 0.into());
        object.set_at(&["status"], status);
        podspec::disabled::drop_fields(object.at_mut(&["spec", "template", "spec"]), None);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        match scope {
            Scope::Main => {
                take(object, old, &["status"]);
                let path = ["spec", "template", "spec"];
                podspec::disabled::drop_fields(object.at_mut(&path), old.at(&path));
            }
            Scope::Sub("status") => take(object, old, &["spec"]),
            Scope::Sub(_) => {}
        }
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }
}
