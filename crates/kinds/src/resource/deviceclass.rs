//! DeviceClass: named criteria for devices.

use super::names::{self, each_limited};
use super::request;
use crate::core::podspec::resources;
use crate::{Hooks, Scope, fields, metadata};
use pintle_meta::{FieldErrors, objectmeta};
use pintle_value::{Path, Value};

const CONFIG_MAX: usize = 32;

pub(crate) struct DeviceClass;

impl Hooks for DeviceClass {
    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        pintle_meta::names::long_name(name, prefix)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(object, None, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let own_rule = |name: &str, prefix: bool| self.name_errors(name, prefix);
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        objectmeta::validate_create(metadata, false, &own_rule, &Path::of("metadata"), errors);
        metadata::validate_core(object, errors);
        validate_spec(object, Some(old), errors);
    }
}

fn validate_spec(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = Path::of("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    request::validate_selectors(spec, &path, errors);
    let stored = old.is_some_and(|old| old.at(&["spec", "config"]) == spec.get("config"));
    each_limited(spec, "config", CONFIG_MAX, &path, errors, |config, path, errors| {
        names::validate_configuration(config, stored, path, errors);
    });
    if let Some(name) =
        fields::opt_text(spec, "extendedResourceName").filter(|name| !resources::is_extended(name))
    {
        errors.invalid(&path.field("extendedResourceName"), name, "must be a valid extended resource name");
    }
}
