//! ResourcePoolStatusRequest: a one-time request for the usage of a driver's pools.

use crate::{Hooks, Scope, check, facts, fields};
use pintle_meta::FieldErrors;
use pintle_meta::conditions::validate_conditions;
use pintle_value::{Path, Value};

pub(crate) struct ResourcePoolStatusRequest;

impl Hooks for ResourcePoolStatusRequest {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        facts::check(spec, "resource/v1alpha3.ResourcePoolStatusRequestSpec", &Path::of("spec"), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Main {
            if object.get("spec") != old.get("spec") {
                errors.invalid(&Path::of("spec"), None::<&Value>, check::IMMUTABLE);
            }
            return;
        }
        let path = Path::of("status");
        if old.get("status").is_some() {
            return check::immutable(object.get("status"), old.get("status"), &path, errors);
        }
        let Some(status) = object.get("status").filter(|status| !status.is_null()) else { return };
        validate_conditions(fields::list(status, "conditions"), &path.field("conditions"), errors);
        facts::check(status, "resource/v1alpha3.ResourcePoolStatusRequestStatus", &path, errors);
    }
}
