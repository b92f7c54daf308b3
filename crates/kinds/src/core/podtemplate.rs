//! PodTemplate: a template on its own.

use crate::core::podspec;
use crate::{Hooks, Scope};
use pintle_value::Value;

pub(crate) struct PodTemplate;

impl Hooks for PodTemplate {
    fn default(&self, _version: &str, object: &mut Value) {
        if let Some(template) = object.get_mut("template") {
            podspec::defaults::template(template);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        podspec::disabled::drop_fields(object.at_mut(&["template", "spec"]), None);
    }

    fn prepare_update(&self, _scope: Scope<'_>, object: &mut Value, old: &Value) {
        let path = ["template", "spec"];
        podspec::disabled::drop_fields(object.at_mut(&path), old.at(&path));
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("template") != old.get("template")
    }
}
