//! DeviceTaintRule: taints all devices that it selects.

use super::slice_device;
use crate::{Hooks, Scope, facts, fields, fill};
use pintle_meta::FieldErrors;
use pintle_meta::conditions::validate_conditions;
use pintle_value::{Path, Value};

const SELECTOR: &str = "resource/v1beta2.DeviceTaintSelector";
const TAINT: [&str; 2] = ["spec", "taint"];

pub(crate) struct DeviceTaintRule;

impl Hooks for DeviceTaintRule {
    /// Sets the time of a taint without one, and of a taint whose effect changed but not its time.
    fn stamp(&self, scope: Scope<'_>, object: &mut Value, old: Option<&Value>, now: &str) {
        let Some(taint) = object.at_mut(&TAINT).filter(|_| scope == Scope::Main) else { return };
        let same = |old: &Value, key: &str| old.at(&TAINT).and_then(|t| t.get(key)) == taint.get(key);
        if old.is_some_and(|old| !same(old, "effect") && same(old, "timeAdded")) {
            taint.remove_at(&["timeAdded"]);
        }
        fill::absent(taint, "timeAdded", now);
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = Path::of("spec");
        if let Some(selector) = object.at(&["spec", "deviceSelector"]) {
            facts::check(selector, SELECTOR, &spec.field("deviceSelector"), errors);
        }
        let taint = object.at(&TAINT).unwrap_or(&Value::Null);
        slice_device::validate_taint(taint, &spec.field("taint"), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Main {
            return self.validate_create(object, errors);
        }
        let path = Path::of("status");
        let status = object.get("status").unwrap_or(&Value::Null);
        validate_conditions(fields::list(status, "conditions"), &path.field("conditions"), errors);
        facts::check(status, "resource/v1beta2.DeviceTaintRuleStatus", &path, errors);
    }
}
