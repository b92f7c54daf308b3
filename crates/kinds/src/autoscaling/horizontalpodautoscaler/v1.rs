//! The v1 autoscaler: a CPU target, and everything else in annotations.

use super::ordered::{self, CONDITION, METRIC};
use super::{DEFAULT_CPU_PERCENT, cpu_utilization, v1_metrics};
use crate::error_text::{Internal, from_go_names};
use crate::fields::text;
use pintle_meta::field::ErrorText;
use pintle_value::{Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// The annotations that represent v2 fields.
pub(super) const ANNOTATIONS: [&str; 6] = [
    METRICS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
    CURRENT_METRICS,
    CONDITIONS,
];

/// The annotation of a behavior has Go's field names.
const BEHAVIOR_TYPE: &str = "autoscaling/v2.HorizontalPodAutoscalerBehavior";

/// Removes the annotations that represent v2 fields.
pub(crate) fn drop_annotations(object: &mut Value) {
    let path = ["metadata", "annotations"];
    if let Some(Value::Object(annotations)) = object.at_mut(&path) {
        annotations.retain(|key, _| !ANNOTATIONS.contains(&key));
        if annotations.is_empty() {
            object.remove_at(&path);
        }
    }
}

/// v2 becomes v1.
pub(super) fn from_v2(object: &mut Value) {
    drop_annotations(object);
    let mut added: Vec<(&str, String)> = Vec::new();
    let metrics = object.items_at(&["spec", "metrics"]);
    let others: Vec<Value> = metrics
        .iter()
        .filter(|m| v1_metrics::cpu_target(m).is_none())
        .map(v1_metrics::spec_from_v2)
        .collect();
    let cpu = metrics.iter().find_map(v1_metrics::cpu_target);
    if !others.is_empty() {
        added.push((METRICS, ordered::text(&Value::Array(others), METRIC)));
    }
    let current = object.items_at(&["status", "currentMetrics"]);
    let current_cpu = current.iter().rev().find_map(current_cpu);
    if !current.is_empty() {
        let turned = current.iter().map(v1_metrics::status_from_v2).collect();
        added.push((CURRENT_METRICS, ordered::text(&Value::Array(turned), METRIC)));
    }
    if let Some(behavior) = object.at(&["spec", "behavior"]) {
        added.push((BEHAVIOR, Internal(Some(behavior), BEHAVIOR_TYPE).error_text()));
    }
    let conditions = object.items_at(&["status", "conditions"]);
    if !conditions.is_empty() {
        added.push((CONDITIONS, ordered::text(&Value::Array(conditions.to_vec()), CONDITION)));
    }
    for (key, text) in added {
        object.set_at(&["metadata", "annotations", key], text.into());
    }
    object.remove_at(&["spec", "metrics"]);
    object.remove_at(&["spec", "behavior"]);
    object.remove_at(&["status", "currentMetrics"]);
    object.remove_at(&["status", "conditions"]);
    if let Some(percent) = cpu {
        object.set_at(&["spec", "targetCPUUtilizationPercentage"], percent.into());
    }
    if let Some(percent) = current_cpu {
        object.set_at(&["status", "currentCPUUtilizationPercentage"], percent.into());
    }
    // v1 always has both counters.
    for key in ["currentReplicas", "desiredReplicas"] {
        let path = ["status", key];
        if object.at(&path).is_none() {
            object.set_at(&path, 0.into());
        }
    }
}

fn current_cpu(metric: &Value) -> Option<i64> {
    let cpu = text(metric, "type") == "Resource" && metric.str_at(&["resource", "name"]) == "cpu";
    metric.at(&["resource", "current", "averageUtilization"]).and_then(Value::as_int).filter(|_| cpu)
}

/// An autoscaler without metrics gets the default CPU target by conversion to v2, and its writer owns it.
pub(crate) fn default_target(object: &mut Value) {
    const TARGET: [&str; 2] = ["spec", "targetCPUUtilizationPercentage"];
    let has_others = !annotated_list(object, METRICS).unwrap_or_default().is_empty();
    if object.at(&TARGET).is_none() && !has_others {
        object.set_at(&TARGET, DEFAULT_CPU_PERCENT.into());
    }
}

/// The value of an annotation, if it is JSON.
fn annotated(object: &Value, key: &str) -> Option<Value> {
    let text = object.at(&["metadata", "annotations", key])?.as_str()?;
    json::parse(text.as_bytes()).ok().map(|parsed| parsed.value)
}

fn annotated_list(object: &Value, key: &str) -> Option<Vec<Value>> {
    annotated(object, key).and_then(|v| v.as_array().map(<[Value]>::to_vec))
}

/// v1 becomes v2.
pub(super) fn to_v2(object: &mut Value) {
    let list = |key: &str| annotated_list(object, key);
    let (others, current) = (list(METRICS), list(CURRENT_METRICS));
    let (behavior, conditions) = (annotated(object, BEHAVIOR), list(CONDITIONS));
    let cpu = object.at(&["spec", "targetCPUUtilizationPercentage"]).and_then(Value::as_int);
    let mut metrics: Vec<Value> = others.iter().flatten().map(v1_metrics::spec_to_v2).collect();
    metrics.extend(cpu.map(cpu_utilization));
    if metrics.is_empty() {
        metrics.push(cpu_utilization(DEFAULT_CPU_PERCENT));
    }
    object.set_at(&["spec", "metrics"], Value::Array(metrics));
    object.remove_at(&["spec", "targetCPUUtilizationPercentage"]);
    if let Some(behavior) =
        behavior.map(|b| from_go_names(&b, BEHAVIOR_TYPE)).filter(|b| *b != Value::object())
    {
        object.set_at(&["spec", "behavior"], behavior);
    }
    let own_cpu = object.remove_at(&["status", "currentCPUUtilizationPercentage"]);
    let current = match (current, own_cpu) {
        (Some(current), _) => Value::Array(current.iter().map(v1_metrics::status_to_v2).collect()),
        (None, Some(percent)) => {
            let mut metric = Value::object();
            metric.set_at(&["type"], "Resource".into());
            metric.set_at(&["resource", "name"], "cpu".into());
            metric.set_at(&["resource", "current", "averageUtilization"], percent);
            Value::Array(vec![metric])
        }
        (None, None) => Value::Null,
    };
    object.set_at(&["status", "currentMetrics"], current);
    if let Some(conditions) = conditions {
        object.set_at(&["status", "conditions"], Value::Array(conditions));
    }
    drop_annotations(object);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap().value
    }

    #[test]
    fn fields_that_v1_lacks_are_stored_in_annotations() {
        let v2 = value(
            r#"{"spec":{"maxReplicas":3,
                "metrics":[{"type":"Pods","pods":{"metric":{"name":"q"},"target":{"type":"AverageValue","averageValue":"1"}}}],
                "behavior":{"scaleUp":{"stabilizationWindowSeconds":5,"policies":[{"type":"Pods","value":4,"periodSeconds":15}]}}},
              "status":{"currentMetrics":null,"desiredReplicas":0}}"#,
        );
        let mut object = v2.clone();
        from_v2(&mut object);
        let annotation = |key: &str| object.str_at(&["metadata", "annotations", key]).to_string();
        assert_eq!(
            annotation(METRICS),
            r#"[{"type":"Pods","pods":{"metricName":"q","targetAverageValue":"1"}}]"#
        );
        assert_eq!(
            annotation(BEHAVIOR),
            r#"{"ScaleUp":{"StabilizationWindowSeconds":5,"SelectPolicy":null,"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":null}"#
        );
        to_v2(&mut object);
        object.remove_at(&["status", "currentReplicas"]);
        object.remove_at(&["metadata"]);
        assert_eq!(object, v2);
    }

    #[test]
    fn no_target_at_all_is_eighty_percent() {
        let mut object = value(r#"{"spec":{"maxReplicas":1}}"#);
        to_v2(&mut object);
        assert_eq!(object.items_at(&["spec", "metrics"]), [cpu_utilization(80)]);
        assert!(object.get("metadata").is_none());
    }
}
