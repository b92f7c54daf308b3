//! ControllerRevision: immutable data.

use crate::{Hooks, Scope, check};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

pub(crate) struct ControllerRevision;

impl Hooks for ControllerRevision {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        check::nonnegative_field(object, "revision", &Path::ROOT, errors);
        match object.get("data").map(Value::without_text) {
            None | Some(Value::Null) => errors.required(&Path::of("data"), "data is mandatory"),
            Some(Value::Object(_)) => {}
            Some(_) => errors.required(&Path::of("data"), "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        check::nonnegative_field(object, "revision", &Path::ROOT, errors);
    }
}
