//! VolumeAttributesClass: a driver and immutable parameters.

use super::parameters::{validate_parameters, validate_provisioner};
use crate::check::differs_exactly;
use crate::fields::text;
use crate::metadata::ResourceScope;
use crate::{Hooks, Scope, metadata};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

pub(crate) struct VolumeAttributesClass;

impl Hooks for VolumeAttributesClass {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_provisioner(text(object, "driverName"), &Path::of("driverName"), errors);
        validate_parameters(object, false, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        for field in ["driverName", "parameters"] {
            if differs_exactly(object.get(field), old.get(field)) {
                errors.forbidden(&Path::of(field), &format!("updates to {field} are forbidden."));
            }
        }
        metadata::validate_core_as_new(self, ResourceScope::Cluster, object, errors);
        self.validate_create(object, errors);
    }
}
