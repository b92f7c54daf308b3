//! ControllerRevision: immutable data.

use crate::check;
use crate::{Hooks, Scope};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

pub(crate) struct ControllerRevision;

impl Hooks for ControllerRevision {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate(object, errors);
        match object.get("data").map(Value::without_text) {
            None | Some(Value::Null) => errors.required(&Path::of("data"), "data is mandatory"),
            Some(Value::Object(_)) => {}
            Some(_) => errors.required(&Path::of("data"), "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate(object, errors);
        check::immutable(object.get("data"), old.get("data"), &Path::of("data"), errors);
    }
}

fn validate(object: &Value, errors: &mut FieldErrors) {
    check::nonnegative_field(object, "revision", &Path::ROOT, errors);
}
