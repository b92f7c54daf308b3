//! PodTemplate: a standalone template.

use crate::core::podspec::{self, options::Options, warnings};
use crate::{Hooks, Scope};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

pub(crate) struct PodTemplate;

impl Hooks for PodTemplate {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate(object, &Options::of_template(None), errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate(object, &Options::of_template(old.get("template")), errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| podspec::options::generation(old) == podspec::options::generation(object)) {
            return Vec::new();
        }
        warnings::template(object.get("template"), &Path::of("template"))
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("template") != old.get("template")
    }
}

fn validate(object: &Value, options: &Options, errors: &mut FieldErrors) {
    let empty = Value::object();
    let template = object.get("template").unwrap_or(&empty);
    podspec::spec::validate_template(template, &Path::of("template"), options, errors);
}
