//! Rows of autoscalers and of the `scale` subresource.

use super::cell::{quantity, scalar, text};
use pintle_value::Value;

/// How many metrics a cell contains.
const METRICS_SHOWN: usize = 2;

fn metrics_text(specs: &[Value], statuses: &[Value]) -> String {
    if specs.is_empty() {
        return "<none>".to_string();
    }
    let metrics =
        specs.iter().enumerate().take(METRICS_SHOWN).map(|(at, spec)| metric_text(spec, statuses.get(at)));
    let metrics = metrics.collect::<Vec<_>>().join(", ");
    match specs.len() {
        count if count > METRICS_SHOWN => {
            format!("{metrics} + {} more...", count.saturating_sub(METRICS_SHOWN))
        }
        _ => metrics,
    }
}

fn metric_text(spec: &Value, status: Option<&Value>) -> String {
    let source = match spec.str_at(&["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_string(),
    };
    let current = status.and_then(|status| status.get(source)).filter(|source| !source.is_null());
    let target = |key: &str| spec.at(&[source, "target", key]).filter(|value| !value.is_null());
    let now = |key: &str| current.map(|current| current.at(&["current", key]));
    // An empty source counts as 0; only some require a value.
    let or_unknown = |value: Option<Option<&Value>>| value.map_or_else(|| "<unknown>".into(), quantity);
    let demanded = |value: Option<Option<&Value>>| or_unknown(value.filter(Option::is_some));
    let average = target("averageValue");
    match (source, average) {
        ("pods", _) => format!("{}/{}", or_unknown(now("averageValue")), quantity(average)),
        ("external" | "object", Some(_)) => {
            format!("{}/{} (avg)", demanded(now("averageValue")), quantity(average))
        }
        ("external" | "object", None) => {
            format!("{}/{}", or_unknown(now("value")), quantity(target("value")))
        }
        (_, Some(_)) => {
            let name = spec.str_at(&[source, "name"]);
            format!("{name}: {}/{}", or_unknown(now("averageValue")), quantity(average))
        }
        (_, None) => {
            let percent = |value: Option<&Value>| scalar(value).map(|number| format!("{number}%"));
            let current =
                percent(now("averageUtilization").flatten()).unwrap_or_else(|| "<unknown>".to_string());
            let target = percent(target("averageUtilization")).unwrap_or_else(|| "<auto>".to_string());
            format!("{}: {current}/{target}", spec.str_at(&[source, "name"]))
        }
    }
}

pub(super) fn scale_metrics(object: &Value) -> Value {
    text(metrics_text(object.items_at(&["spec", "metrics"]), object.items_at(&["status", "currentMetrics"])))
}
