//! Converts metrics between v1 and v2, in spec and status.

use crate::fields::{member, text};
use pintle_meta::Quantity;
use pintle_value::Value;

/// Copies the value at `from` to `to`, if it is present.
fn copy(source: &Value, from: &[&str], target: &mut Value, to: &[&str]) {
    if let Some(value) = source.at(from) {
        target.set_at(to, value.clone());
    }
}

/// Copies a quantity that v1 always has.
fn copy_or_zero(source: &Value, from: &[&str], target: &mut Value, to: &[&str]) {
    target.set_at(to, source.at(from).cloned().unwrap_or_else(|| "0".into()));
}

/// The member that a metric is in, by the names of its sources.
const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

fn each_source(metric: &Value, turn: impl Fn(&str, &Value, &mut Value)) -> Value {
    let mut out = Value::object();
    copy(metric, &["type"], &mut out, &["type"]);
    for key in SOURCES {
        if let Some(source) = member(metric, key) {
            let mut turned = Value::object();
            turn(key, source, &mut turned);
            out.set_at(&[key], turned);
        }
    }
    out
}

/// A wanted metric of v2 in v1.
pub(super) fn spec_from_v2(metric: &Value) -> Value {
    each_source(metric, |key, source, out| match key {
        "object" => {
            copy(source, &["describedObject"], out, &["target"]);
            copy(source, &["metric", "name"], out, &["metricName"]);
            copy_or_zero(source, &["target", "value"], out, &["targetValue"]);
            copy(source, &["metric", "selector"], out, &["selector"]);
            copy(source, &["target", "averageValue"], out, &["averageValue"]);
        }
        "pods" => {
            copy(source, &["metric", "name"], out, &["metricName"]);
            copy_or_zero(source, &["target", "averageValue"], out, &["targetAverageValue"]);
            copy(source, &["metric", "selector"], out, &["selector"]);
        }
        "external" => {
            copy(source, &["metric", "name"], out, &["metricName"]);
            copy(source, &["metric", "selector"], out, &["metricSelector"]);
            copy(source, &["target", "value"], out, &["targetValue"]);
            copy(source, &["target", "averageValue"], out, &["targetAverageValue"]);
        }
        _ => {
            copy(source, &["name"], out, &["name"]);
            copy(source, &["container"], out, &["container"]);
            copy(source, &["target", "averageUtilization"], out, &["targetAverageUtilization"]);
            copy(source, &["target", "averageValue"], out, &["targetAverageValue"]);
        }
    })
}

/// A wanted metric of v1 in v2.
pub(super) fn spec_to_v2(metric: &Value) -> Value {
    each_source(metric, |key, source, out| match key {
        "object" => {
            copy(source, &["target"], out, &["describedObject"]);
            copy(source, &["metricName"], out, &["metric", "name"]);
            copy(source, &["selector"], out, &["metric", "selector"]);
            copy(source, &["averageValue"], out, &["target", "averageValue"]);
            let average = member(source, "averageValue").is_some();
            let zero =
                source.get("targetValue").is_none_or(|v| Quantity::from_value(v).is_ok_and(|q| q.is_zero()));
            out.set_at(&["target", "type"], if average { "AverageValue" } else { "Value" }.into());
            // v1 cannot omit the value, and zero is not a target.
            if !average || !zero {
                copy_or_zero(source, &["targetValue"], out, &["target", "value"]);
            }
        }
        "pods" => {
            copy(source, &["metricName"], out, &["metric", "name"]);
            copy(source, &["selector"], out, &["metric", "selector"]);
            out.set_at(&["target", "type"], "AverageValue".into());
            copy_or_zero(source, &["targetAverageValue"], out, &["target", "averageValue"]);
        }
        "external" => {
            copy(source, &["metricName"], out, &["metric", "name"]);
            copy(source, &["metricSelector"], out, &["metric", "selector"]);
            let kind = if member(source, "targetValue").is_some() { "Value" } else { "AverageValue" };
            out.set_at(&["target", "type"], kind.into());
            copy(source, &["targetValue"], out, &["target", "value"]);
            copy(source, &["targetAverageValue"], out, &["target", "averageValue"]);
        }
        _ => {
            copy(source, &["name"], out, &["name"]);
            copy(source, &["container"], out, &["container"]);
            let utilization = member(source, "targetAverageUtilization").is_some();
            out.set_at(&["target", "type"], if utilization { "Utilization" } else { "AverageValue" }.into());
            copy(source, &["targetAverageUtilization"], out, &["target", "averageUtilization"]);
            copy(source, &["targetAverageValue"], out, &["target", "averageValue"]);
        }
    })
}

/// Converts a status metric from v2 to v1.
pub(super) fn status_from_v2(metric: &Value) -> Value {
    each_source(metric, |key, source, out| match key {
        "object" => {
            copy(source, &["describedObject"], out, &["target"]);
            copy(source, &["metric", "name"], out, &["metricName"]);
            copy_or_zero(source, &["current", "value"], out, &["currentValue"]);
            copy(source, &["metric", "selector"], out, &["selector"]);
            copy(source, &["current", "averageValue"], out, &["averageValue"]);
        }
        "pods" => {
            copy(source, &["metric", "name"], out, &["metricName"]);
            copy_or_zero(source, &["current", "averageValue"], out, &["currentAverageValue"]);
            copy(source, &["metric", "selector"], out, &["selector"]);
        }
        "external" => {
            copy(source, &["metric", "name"], out, &["metricName"]);
            copy(source, &["metric", "selector"], out, &["metricSelector"]);
            copy_or_zero(source, &["current", "value"], out, &["currentValue"]);
            copy(source, &["current", "averageValue"], out, &["currentAverageValue"]);
        }
        _ => {
            copy(source, &["name"], out, &["name"]);
            copy(source, &["container"], out, &["container"]);
            copy(source, &["current", "averageUtilization"], out, &["currentAverageUtilization"]);
            copy_or_zero(source, &["current", "averageValue"], out, &["currentAverageValue"]);
        }
    })
}

/// Converts a status metric from v1 to v2.
pub(super) fn status_to_v2(metric: &Value) -> Value {
    each_source(metric, |key, source, out| match key {
        "object" => {
            copy(source, &["target"], out, &["describedObject"]);
            copy(source, &["metricName"], out, &["metric", "name"]);
            copy(source, &["selector"], out, &["metric", "selector"]);
            copy_or_zero(source, &["currentValue"], out, &["current", "value"]);
            copy(source, &["averageValue"], out, &["current", "averageValue"]);
        }
        "pods" => {
            copy(source, &["metricName"], out, &["metric", "name"]);
            copy(source, &["selector"], out, &["metric", "selector"]);
            copy_or_zero(source, &["currentAverageValue"], out, &["current", "averageValue"]);
        }
        "external" => {
            copy(source, &["metricName"], out, &["metric", "name"]);
            copy(source, &["metricSelector"], out, &["metric", "selector"]);
            copy_or_zero(source, &["currentValue"], out, &["current", "value"]);
            copy(source, &["currentAverageValue"], out, &["current", "averageValue"]);
        }
        _ => {
            copy(source, &["name"], out, &["name"]);
            copy(source, &["container"], out, &["container"]);
            copy(source, &["currentAverageUtilization"], out, &["current", "averageUtilization"]);
            copy_or_zero(source, &["currentAverageValue"], out, &["current", "averageValue"]);
        }
    })
}

/// The CPU utilization target of a v2 metric, if it is one.
pub(super) fn cpu_target(metric: &Value) -> Option<i64> {
    let cpu = text(metric, "type") == "Resource" && metric.str_at(&["resource", "name"]) == "cpu";
    metric.at(&["resource", "target", "averageUtilization"]).and_then(Value::as_int).filter(|_| cpu)
}
