//! Converts metrics between v1 and v2, in spec and status.

use crate::fields::{member, text};
use pintle_meta::Quantity;
use pintle_value::Value;

/// A field of a metric's source in both versions.
struct Field {
    /// The metric sources that have the field.
    sources: &'static [&'static str],
    v1: &'static str,
    v2: [&'static str; 2],
    /// Both versions always have it, as a quantity; absent ones are zero.
    always: bool,
}

const fn field(sources: &'static [&'static str], v1: &'static str, v2: [&'static str; 2]) -> Field {
    Field { sources, v1, v2, always: false }
}

const fn quantity(sources: &'static [&'static str], v1: &'static str, v2: [&'static str; 2]) -> Field {
    Field { sources, v1, v2, always: true }
}

const RESOURCES: [&str; 2] = ["resource", "containerResource"];

/// The fields that wanted and current metrics share. Fields of a resource have the same names in both versions.
const SHARED: [Field; 4] = [
    field(&["object"], "target", ["describedObject", ""]),
    field(&["object", "pods", "external"], "metricName", ["metric", "name"]),
    field(&["object", "pods"], "selector", ["metric", "selector"]),
    field(&["external"], "metricSelector", ["metric", "selector"]),
];

const SPEC: [Field; 7] = [
    quantity(&["object"], "targetValue", ["target", "value"]),
    field(&["object"], "averageValue", ["target", "averageValue"]),
    quantity(&["pods"], "targetAverageValue", ["target", "averageValue"]),
    field(&["external"], "targetValue", ["target", "value"]),
    field(&["external"], "targetAverageValue", ["target", "averageValue"]),
    field(&RESOURCES, "targetAverageUtilization", ["target", "averageUtilization"]),
    field(&RESOURCES, "targetAverageValue", ["target", "averageValue"]),
];

const STATUS: [Field; 7] = [
    quantity(&["object"], "currentValue", ["current", "value"]),
    field(&["object"], "averageValue", ["current", "averageValue"]),
    quantity(&["pods"], "currentAverageValue", ["current", "averageValue"]),
    quantity(&["external"], "currentValue", ["current", "value"]),
    field(&["external"], "currentAverageValue", ["current", "averageValue"]),
    field(&RESOURCES, "currentAverageUtilization", ["current", "averageUtilization"]),
    quantity(&RESOURCES, "currentAverageValue", ["current", "averageValue"]),
];

/// The members of a metric that hold its source.
const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

#[derive(Clone, Copy, PartialEq)]
enum TargetVersion {
    V1,
    V2,
}

fn convert_metric(metric: &Value, fields: &[Field], to: TargetVersion) -> Value {
    let mut out = Value::object();
    let copy = |from: &Value, key: &str, out: &mut Value| {
        if let Some(value) = from.get(key) {
            out.set_at(&[key], value.clone());
        }
    };
    copy(metric, "type", &mut out);
    for key in SOURCES {
        let Some(source) = member(metric, key) else { continue };
        let mut converted = Value::object();
        if RESOURCES.contains(&key) {
            copy(source, "name", &mut converted);
            copy(source, "container", &mut converted);
        }
        for field in SHARED.iter().chain(fields).filter(|field| field.sources.contains(&key)) {
            field.convert_metric(source, to, &mut converted);
        }
        out.set_at(&[key], converted);
    }
    out
}

impl Field {
    fn convert_metric(&self, source: &Value, to: TargetVersion, out: &mut Value) {
        let v1 = [self.v1];
        let v2 = self.v2.strip_suffix(&[""]).unwrap_or(&self.v2);
        let (from, to) = if to == TargetVersion::V1 { (v2, &v1[..]) } else { (&v1[..], v2) };
        match source.at(from) {
            Some(value) => out.set_at(to, value.clone()),
            None if self.always => out.set_at(to, "0".into()),
            None => {}
        }
    }
}

/// Converts a metric of the spec from v2 to v1.
pub(super) fn spec_from_v2(metric: &Value) -> Value {
    convert_metric(metric, &SPEC, TargetVersion::V1)
}

/// Converts a metric of the status from v2 to v1.
pub(super) fn status_from_v2(metric: &Value) -> Value {
    convert_metric(metric, &STATUS, TargetVersion::V1)
}

/// Converts a metric of the status from v1 to v2.
pub(super) fn status_to_v2(metric: &Value) -> Value {
    convert_metric(metric, &STATUS, TargetVersion::V2)
}

/// Converts a metric of the spec from v1 to v2, whose targets have a type.
pub(super) fn spec_to_v2(metric: &Value) -> Value {
    let mut out = convert_metric(metric, &SPEC, TargetVersion::V2);
    for key in SOURCES {
        let Some(source) = member(metric, key) else { continue };
        let has = |field: &str| member(source, field).is_some();
        let kind = match key {
            "object" if !has("averageValue") => "Value",
            "external" if has("targetValue") => "Value",
            "resource" | "containerResource" if has("targetAverageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        out.set_at(&[key, "target", "type"], kind.into());
        // v1 cannot omit the value of an object, and zero is not a target.
        let is_zero =
            || source.get("targetValue").is_none_or(|v| Quantity::from_value(v).is_ok_and(|q| q.is_zero()));
        if key == "object" && has("averageValue") && is_zero() {
            out.remove_at(&[key, "target", "value"]);
        }
    }
    out
}

/// The CPU utilization target of a v2 metric, if it is one.
pub(super) fn cpu_target(metric: &Value) -> Option<i64> {
    let cpu = text(metric, "type") == "Resource" && metric.str_at(&["resource", "name"]) == "cpu";
    metric.at(&["resource", "target", "averageUtilization"]).and_then(Value::as_int).filter(|_| cpu)
}
