//! ResourceSlice: the devices that a driver offers, on one node or several.

use super::names::{self, each_unique};
use super::slice_device::{self, PlacementRules};
use super::v1beta1::{self, Direction};
use crate::{Hooks, KindVersion, Scope, facts, fields, fill};
use pintle_meta::field::quoted;
use pintle_meta::{FieldErrors, objectmeta};
use pintle_value::{Path, Value};

const DEVICES_MAX: usize = 128;
/// With taints or counters, the limit of devices is lower.
const ADVANCED_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;

const PLACEMENT: PlacementRules<'static> = PlacementRules {
    flags: &["allNodes", "perDeviceNodeSelection"],
    needs_one_term: true,
    empty_name: "must be either unset or set to a non-empty string",
    none_set: "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
    several_set: "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
};

pub(crate) struct ResourceSlice;

impl Hooks for ResourceSlice {
    fn convert(&self, object: &mut Value, from: &KindVersion, to: &KindVersion) {
        if let Some(direction) = Direction::of(from, to) {
            v1beta1::convert_devices(object, direction);
        }
    }

    fn stamp(&self, _scope: Scope<'_>, object: &mut Value, _old: Option<&Value>, now: &str) {
        let Some(spec) = object.get_mut("spec") else { return };
        for device in fill::items(spec, "devices") {
            for taint in fill::items(device, "taints") {
                fill::absent(taint, "timeAdded", now);
            }
        }
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let driver = object.str_at(&["spec", "driver"]);
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        vec![format!(
            "spec.driver: driver names should be lowercase; {} contains uppercase characters",
            quoted(driver)
        )]
    }

    fn counts_dropped_fields(&self) -> bool {
        true
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(object, None, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate_spec(object, Some(old), errors);
    }
}

fn validate_spec(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = Path::of("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    names::validate_driver(spec, &path, errors);
    let pool = spec.get("pool").unwrap_or(&Value::Null);
    facts::check(pool, "resource/v1.ResourcePool", &path.field("pool"), errors);
    if let Some(old) = old.and_then(|old| old.get("spec")) {
        let immutable: [(&[&str], Path<'_>); 3] = [
            (&["pool", "name"], path.field("pool.name")),
            (&["driver"], path.field("driver")),
            (&["nodeName"], path.field("nodeName")),
        ];
        for (keys, at) in immutable {
            objectmeta::validate_immutable(spec.at(keys), old.at(keys), &at, errors);
        }
    }
    PLACEMENT.validate(spec, &path, errors);
    if fields::member(spec, "sharedCounters").is_some() && fields::member(spec, "devices").is_some() {
        errors.invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    validate_devices(spec, old, &path, errors);
    let validate = |set: &Value, path: &Path<'_>, errors: &mut FieldErrors| {
        slice_device::validate_counters(set, "name", path, errors);
    };
    each_unique(spec, "sharedCounters", COUNTER_SETS_MAX, &path, errors, validate, |set| {
        fields::text(set, "name")
    });
}

fn validate_devices(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    let devices = fields::list(spec, "devices");
    let advanced = |device: &Value| {
        ["taints", "consumesCounters"].iter().any(|key| !fields::list(device, key).is_empty())
    };
    let max = if devices.iter().any(advanced) { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    let per_device = fields::flag(spec, "perDeviceNodeSelection");
    let before = old.map(|old| old.items_at(&["spec", "devices"])).unwrap_or_default();
    let validate = |device: &Value, path: &Path<'_>, errors: &mut FieldErrors| {
        let old = before.iter().find(|old| old.get("name") == device.get("name"));
        slice_device::validate(device, old, per_device, path, errors);
    };
    each_unique(spec, "devices", max, path, errors, validate, |device| fields::text(device, "name"));
}
