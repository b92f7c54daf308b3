//! ResourcePoolStatusRequest: a one-time request for the usage of a driver's pools.

use super::names;
use crate::{Hooks, Scope, check, fields, hooks, metadata};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

const LIMIT_DEFAULT: i64 = 100;
const LIMIT_MAX: i64 = 1000;

pub(crate) struct ResourcePoolStatusRequest;

impl Hooks for ResourcePoolStatusRequest {
    fn default(&self, _version: &str, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec") {
            crate::fill::absent(spec, "limit", LIMIT_DEFAULT);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object.remove_at(&["status"]);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        hooks::keep_named_metadata(scope, object, old);
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        metadata::validate_core(object, errors);
        let path = Path::of("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let driver = fields::text(spec, "driver");
        match driver.is_empty() {
            true => errors.required(&path.field("driver"), ""),
            false => check::each(
                pintle_meta::names::is_dns1123_subdomain_caseless(driver),
                &path.field("driver"),
                driver,
                errors,
            ),
        }
        if let Some(pool) = fields::opt_text(spec, "poolName") {
            names::pool(pool, &path.field("poolName"), errors);
        }
        match spec.get("limit").and_then(Value::as_int) {
            Some(limit) if limit > LIMIT_MAX => {
                errors.invalid(&path.field("limit"), limit, "must be less than or equal to 1000");
            }
            Some(limit) if limit < 1 => {
                errors.invalid(&path.field("limit"), limit, "must be greater than or equal to 1");
            }
            _ => {}
        }
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Main {
            return check::immutable(object.get("spec"), old.get("spec"), &Path::of("spec"), errors);
        }
        let Some(status) = object.get("status").filter(|status| !status.is_null()) else { return };
        let path = Path::of("status");
        let at = path.field("poolCount");
        match status.get("poolCount").and_then(Value::as_int) {
            None => errors.required(&at, ""),
            Some(count) if count < 0 => errors.invalid(&at, count, "must be greater than or equal to 0"),
            Some(_) => {}
        }
    }
}
