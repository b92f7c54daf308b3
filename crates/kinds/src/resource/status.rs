//! The status of a claim: its allocation, reservations, and the drivers' device status.

use super::names::{self, each_limited, each_unique};
use super::request;
use crate::core::podspec::affinity;
use crate::error_text::Internal;
use crate::{check, facts, fields};
use pintle_meta::field::{ErrorText, Named, Plain};
use pintle_meta::{FieldErrors, conditions, net};
use pintle_value::{Path, Value};
use std::collections::HashSet;

const RESERVED_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONFIG_MAX: usize = 64;
const ADDRESSES_MAX: usize = 16;
const RESULT: &str = "resource/v1.DeviceRequestAllocationResult";
const DEVICE: &str = "resource/v1.AllocatedDeviceStatus";

/// Identifies a device, or a share of one.
fn device_id(device: &Value) -> String {
    let text = |key: &str| fields::text(device, key);
    let id = format!("{}/{}/{}", text("driver"), text("pool"), text("device"));
    if text("shareID").is_empty() { id } else { format!("{id}/{}", text("shareID")) }
}

/// The same identity as errors quote it.
fn id_text(device: &Value) -> String {
    let [driver, pool, name, share] =
        ["driver", "pool", "device", "shareID"].map(|key| fields::text(device, key).error_text());
    format!(r#"{{"Driver":{driver},"Pool":{pool},"Device":{name},"ShareID":{share}}}"#)
}

fn allocated(object: &Value) -> HashSet<String> {
    object.items_at(&["status", "allocation", "devices", "results"]).iter().map(device_id).collect()
}

/// Drops the status of devices that are no longer allocated.
pub(super) fn drop_deallocated(object: &mut Value, old: &Value) {
    let (now, before) = (allocated(object), allocated(old));
    let Some(devices) = object.at_mut(&["status", "devices"]).and_then(Value::as_array_mut) else { return };
    devices.retain(|device| {
        let id = device_id(device);
        now.contains(&id) || !before.contains(&id)
    });
    if devices.is_empty() {
        object.remove_at(&["status", "devices"]);
    }
}

/// Validates a status update.
pub(super) fn validate(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status");
    let status = object.get("status").unwrap_or(&Value::Null);
    let before = old.get("status").unwrap_or(&Value::Null);
    validate_reserved(status, &path, errors);
    validate_devices(object, status, &path.field("devices"), errors);
    validate_reservation(object, status, before, &path.field("reservedFor"), errors);
    let at = path.field("allocation");
    match (fields::member(status, "allocation"), fields::member(before, "allocation")) {
        (Some(new), Some(old)) if new != old => {
            errors.invalid(&at, Internal(Some(new), "resource/v1.AllocationResult"), check::IMMUTABLE);
        }
        (Some(new), None) => validate_allocation(new, object, &at, errors),
        _ => {}
    }
}

fn validate_reserved(status: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let validate = |consumer: &Value, path: &Path<'_>, errors: &mut FieldErrors| {
        facts::check(consumer, "resource/v1.ResourceClaimConsumerReference", path, errors);
    };
    each_unique(status, "reservedFor", RESERVED_MAX, path, errors, validate, |consumer| {
        Named(fields::text(consumer, "uid"))
    });
}

/// Only an allocated claim can be reserved, and no new reservation is allowed during deallocation.
fn validate_reservation(
    object: &Value,
    status: &Value,
    before: &Value,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let list = fields::list(status, "reservedFor");
    if list.is_empty() {
        return;
    }
    let consumer = |each| ["apiGroup", "resource", "name", "uid"].map(|key| fields::opt_text(each, key));
    let known: HashSet<_> = fields::list(before, "reservedFor").iter().map(consumer).collect();
    if fields::member(status, "allocation").is_none() {
        errors.forbidden(path, "may not be specified when `allocated` is not set");
    } else if object.at(&["metadata", "deletionTimestamp"]).is_some()
        && list.iter().any(|each| !known.contains(&consumer(each)))
    {
        let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.forbidden(path, why);
    }
}

fn validate_allocation(allocation: &Value, object: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let requested = object.at(&["spec", "devices"]).unwrap_or(&Value::Null);
    let devices = allocation.get("devices").unwrap_or(&Value::Null);
    let at = path.field("devices");
    each_limited(devices, "results", RESULTS_MAX, &at, errors, |result, path, errors| {
        let reference = fields::text(result, "request");
        request::validate_reference(reference, requested, &path.field("request"), errors);
        facts::check_fields(result, RESULT, &["driver", "pool", "device"], path, errors);
        names::validate_binding(result, path, errors);
        facts::check_fields(result, RESULT, &["shareID"], path, errors);
    });
    each_limited(devices, "config", CONFIG_MAX, &at, errors, |config, path, errors| {
        facts::check(config, "resource/v1.DeviceAllocationConfiguration", path, errors);
        request::validate_references(config, requested, path, errors);
        names::validate_configuration(config, false, path, errors);
    });
    if let Some(selector) = fields::member(allocation, "nodeSelector") {
        affinity::validate_node_selector(selector, false, &path.field("nodeSelector"), errors);
    }
}

fn validate_devices(object: &Value, status: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let devices = fields::list(status, "devices");
    let allocated = allocated(object);
    let ids: Vec<String> = devices.iter().map(device_id).collect();
    for (index, (device, id)) in devices.iter().zip(&ids).enumerate() {
        let at = path.index(index);
        facts::check_fields(device, DEVICE, &["driver", "pool", "device", "shareID"], &at, errors);
        if !allocated.contains(id) {
            errors.invalid(&at, Plain(&id_text(device)), "must be an allocated device in the claim");
        }
        facts::check_fields(device, DEVICE, &["conditions"], &at, errors);
        let given = fields::list(device, "conditions");
        conditions::validate_conditions(given, &at.field("conditions"), errors);
        if let Some(data) = fields::member(device, "data") {
            names::validate_raw_object(Some(data), false, &at.field("data"), errors);
        }
        if let Some(network) = fields::member(device, "networkData") {
            validate_network(network, &at.field("networkData"), errors);
        }
    }
    let mut seen = check::Unique::default();
    for (index, (device, id)) in devices.iter().zip(&ids).enumerate() {
        seen.check(id, &path.index(index), Plain(&id_text(device)), errors);
    }
}

fn validate_network(network: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(network, "resource/v1.NetworkDeviceData", path, errors);
    let validate = |address: &Value, path: &Path<'_>, errors: &mut FieldErrors| {
        net::validate_interface_address(path, address.as_str().unwrap_or(""), errors);
    };
    each_unique(network, "ips", ADDRESSES_MAX, path, errors, validate, |address| {
        address.as_str().unwrap_or("")
    });
}
