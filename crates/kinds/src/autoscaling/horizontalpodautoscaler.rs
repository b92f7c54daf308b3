//! HorizontalPodAutoscaler.

use crate::fill::absent;
use crate::hooks::take;
use crate::{Hooks, Scope};
use pintle_value::Value;

pub(crate) struct HorizontalPodAutoscaler;

impl Hooks for HorizontalPodAutoscaler {
    fn default(&self, version: &str, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        absent(spec, "minReplicas", 1);
        if version != "v2" {
            return;
        }
        if spec.items_at(&["metrics"]).is_empty() {
            spec.set_at(&["metrics"], Value::Array(vec![cpu_utilization(DEFAULT_CPU_PERCENT)]));
        }
        if let Some(behavior) = spec.get_mut("behavior") {
            default_rules(behavior, "scaleUp");
            default_rules(behavior, "scaleDown");
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        let mut status = Value::object();
        status.set_at(&["currentMetrics"], Value::Null);
        status.set_at(&["desiredReplicas"], 0.into());
        object.set_at(&["status"], status);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        match scope {
            Scope::Main => take(object, old, &["status"]),
            Scope::Sub("status") => take(object, old, &["spec"]),
            Scope::Sub(_) => {}
        }
    }
}

/// Target of an autoscaler that names none.
const DEFAULT_CPU_PERCENT: i64 = 80;
/// How long the default policies look back.
const PERIOD_SECONDS: i64 = 15;

fn cpu_utilization(percent: i64) -> Value {
    let mut metric = Value::object();
    metric.set_at(&["type"], "Resource".into());
    metric.set_at(&["resource", "name"], "cpu".into());
    metric.set_at(&["resource", "target", "type"], "Utilization".into());
    metric.set_at(&["resource", "target", "averageUtilization"], percent.into());
    metric
}

fn default_rules(behavior: &mut Value, which: &str) {
    absent(behavior, which, Value::object());
    let Some(rules) = behavior.get_mut(which) else { return };
    absent(rules, "selectPolicy", "Max");
    let mut policies = vec![policy("Percent", 100)];
    if which == "scaleUp" {
        absent(rules, "stabilizationWindowSeconds", 0);
        policies.insert(0, policy("Pods", 4));
    }
    absent(rules, "policies", Value::Array(policies));
}

fn policy(kind: &str, value: i64) -> Value {
    let mut policy = Value::object();
    policy.set_at(&["type"], kind.into());
    policy.set_at(&["value"], value.into());
    policy.set_at(&["periodSeconds"], PERIOD_SECONDS.into());
    policy
}
