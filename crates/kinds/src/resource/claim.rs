//! ResourceClaim and ResourceClaimTemplate: their specs never change.

use super::{request, shown, status};
use crate::core::podspec::volume_sources;
use crate::shown::Internal;
use crate::{Hooks, Scope, check, fill, hooks, metadata};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

pub(crate) struct ResourceClaim;

impl Hooks for ResourceClaim {
    fn default(&self, _version: &str, object: &mut Value) {
        request::default(object.at_mut(&["spec", "devices"]));
        if let Some(devices) = object.at_mut(&["status", "allocation", "devices"]) {
            fill::items(devices, "results").iter_mut().for_each(request::default_tolerations);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object.set_at(&["status"], Value::object());
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        hooks::keep_other_side(scope, object, old);
        if scope != Scope::Main {
            status::drop_deallocated(object, old);
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        metadata::validate_core(object, errors);
        let devices = object.at(&["spec", "devices"]).unwrap_or(&Value::Null);
        request::validate(devices, &Path::of("spec").field("devices"), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            return status::validate(object, old, errors);
        }
        metadata::validate_core_as_new(self, true, object, errors);
        if object.get("spec") != old.get("spec") {
            let spec = Internal(object.get("spec"), shown::CLAIM_SPEC);
            errors.invalid(&Path::of("spec"), spec, check::IMMUTABLE);
        }
    }

    fn reset_fields(&self, scope: Scope<'_>) -> &'static [&'static [&'static str]] {
        match scope {
            Scope::Main => &[&["status"]],
            Scope::Sub(_) => &[&["metadata"], &["spec"]],
        }
    }
}

pub(crate) struct ResourceClaimTemplate;

impl Hooks for ResourceClaimTemplate {
    fn default(&self, _version: &str, object: &mut Value) {
        request::default(object.at_mut(&["spec", "spec", "devices"]));
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        metadata::validate_core(object, errors);
        let spec = Path::of("spec");
        volume_sources::template_metadata(object.at(&["spec", "metadata"]), &spec.field("metadata"), errors);
        let devices = object.at(&["spec", "spec", "devices"]).unwrap_or(&Value::Null);
        request::validate(devices, &spec.field("spec").field("devices"), errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        metadata::validate_as_new(self, true, object, errors);
        self.validate_create(object, errors);
        if object.get("spec") != old.get("spec") {
            let spec = Internal(object.get("spec"), shown::TEMPLATE_SPEC);
            errors.invalid(&Path::of("spec"), spec, check::IMMUTABLE);
        }
    }

    fn reset_fields(&self, _scope: Scope<'_>) -> &'static [&'static [&'static str]] {
        &[]
    }
}
