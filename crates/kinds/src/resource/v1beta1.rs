//! Conversion between `resource.k8s.io/v1beta1` and v1. In v1beta1 a request itself has the fields that v1 has under
//! `exactly`, and a device has its fields under `basic`.
//!
//! Writes work in v1, which v1beta2 equals.

use crate::{KindVersion, fields, fill};
use pintle_value::{Map, Value};

const NAME: &str = "v1beta1";
/// The request fields that v1 has under `exactly`.
const EXACTLY: [&str; 7] =
    ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];

/// The direction of a conversion that changes anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToBeta,
    FromBeta,
}

impl Direction {
    /// The direction of a conversion between two versions of a kind.
    pub(super) fn of(from: &KindVersion, to: &KindVersion) -> Option<Direction> {
        match (from.name == NAME, to.name == NAME) {
            (true, false) => Some(Direction::FromBeta),
            (false, true) => Some(Direction::ToBeta),
            _ => None,
        }
    }
}

/// Converts the device requests of a claim.
pub(super) fn convert_requests(devices: Option<&mut Value>, direction: Direction) {
    let Some(devices) = devices else { return };
    for request in fill::items(devices, "requests") {
        match direction {
            Direction::FromBeta => gather(request),
            Direction::ToBeta => spread_exactly(request),
        }
    }
}

/// Moves the fields into `exactly` if any of them is set.
fn gather(request: &mut Value) {
    let Some(map) = request.as_object_mut() else { return };
    let mut exactly = Map::new();
    for key in EXACTLY {
        if let Some(value) = map.remove(key) {
            exactly.insert(key, value);
        }
    }
    if exactly.values().any(is_set) {
        map.insert("exactly", Value::Object(exactly));
    }
}

fn is_set(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Int(0)) && value.as_str() != Some("")
}

fn spread_exactly(request: &mut Value) {
    let Some(map) = request.as_object_mut() else { return };
    if let Some(Value::Object(exactly)) = map.remove("exactly") {
        for (key, value) in exactly {
            map.insert(key, value);
        }
    }
}

/// Converts the devices of a slice.
pub(super) fn convert_devices(object: &mut Value, direction: Direction) {
    let Some(spec) = object.get_mut("spec") else { return };
    for device in fill::items(spec, "devices") {
        let Some(map) = device.as_object_mut() else { continue };
        match direction {
            Direction::FromBeta => {
                if let Some(Value::Object(basic)) = map.remove("basic") {
                    for (key, value) in basic {
                        map.insert(key, value);
                    }
                }
            }
            Direction::ToBeta => {
                let name = map.remove("name");
                let basic = std::mem::take(map);
                map.insert("basic", Value::Object(basic));
                if let Some(name) = name {
                    map.insert("name", name);
                }
            }
        }
    }
    // v1beta1 does not distinguish unset from zero; in v1 it is unset.
    if direction == Direction::FromBeta {
        for (key, zero) in [("nodeName", Value::from("")), ("allNodes", Value::Bool(false))] {
            if fields::member(spec, key) == Some(&zero) {
                spec.remove_at(&[key]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn tree(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap().value
    }

    #[test]
    fn requests_go_both_ways() {
        let beta =
            r#"{"requests":[{"count":1,"deviceClassName":"c","name":"a"},{"firstAvailable":[],"name":"b"}]}"#;
        let v1 = r#"{"requests":[{"exactly":{"count":1,"deviceClassName":"c"},"name":"a"},{"firstAvailable":[],"name":"b"}]}"#;
        let mut devices = tree(beta);
        convert_requests(Some(&mut devices), Direction::FromBeta);
        assert_eq!(devices, tree(v1));
        convert_requests(Some(&mut devices), Direction::ToBeta);
        assert_eq!(devices, tree(beta));
    }

    #[test]
    fn devices_go_both_ways() {
        let beta = r#"{"spec":{"devices":[{"basic":{"attributes":{}},"name":"d"}],"nodeName":"n"}}"#;
        let v1 = r#"{"spec":{"devices":[{"attributes":{},"name":"d"}],"nodeName":"n"}}"#;
        let mut slice = tree(beta);
        convert_devices(&mut slice, Direction::FromBeta);
        assert_eq!(slice, tree(v1));
        convert_devices(&mut slice, Direction::ToBeta);
        assert_eq!(slice, tree(beta));
    }
}
