//! JSON with members in the order of Go's structs: annotations contain the text, so the order is visible.

use pintle_value::{Value, json};

/// The members of a struct in order, each with the order of its own struct.
pub(super) struct Order(pub(super) &'static [(&'static str, &'static Order)]);

/// A value without an order of its own.
const PLAIN: &Order = &Order(&[]);
const EXPRESSION: &Order = &Order(&[("key", PLAIN), ("operator", PLAIN), ("values", PLAIN)]);
const SELECTOR: &Order = &Order(&[("matchLabels", PLAIN), ("matchExpressions", EXPRESSION)]);
const REFERENCE: &Order = &Order(&[("kind", PLAIN), ("name", PLAIN), ("apiVersion", PLAIN)]);
const OBJECT: &Order = &Order(&[
    ("target", REFERENCE),
    ("metricName", PLAIN),
    ("targetValue", PLAIN),
    ("currentValue", PLAIN),
    ("selector", SELECTOR),
    ("averageValue", PLAIN),
]);
const PODS: &Order = &Order(&[
    ("metricName", PLAIN),
    ("targetAverageValue", PLAIN),
    ("currentAverageValue", PLAIN),
    ("selector", SELECTOR),
]);
const RESOURCE: &Order = &Order(&[
    ("name", PLAIN),
    ("targetAverageUtilization", PLAIN),
    ("targetAverageValue", PLAIN),
    ("currentAverageUtilization", PLAIN),
    ("currentAverageValue", PLAIN),
    ("container", PLAIN),
]);
const EXTERNAL: &Order = &Order(&[
    ("metricName", PLAIN),
    ("metricSelector", SELECTOR),
    ("targetValue", PLAIN),
    ("currentValue", PLAIN),
    ("targetAverageValue", PLAIN),
    ("currentAverageValue", PLAIN),
]);
/// A metric of v1, in spec or status.
pub(super) const METRIC: &Order = &Order(&[
    ("type", PLAIN),
    ("object", OBJECT),
    ("pods", PODS),
    ("resource", RESOURCE),
    ("containerResource", RESOURCE),
    ("external", EXTERNAL),
]);
/// A condition.
pub(super) const CONDITION: &Order = &Order(&[
    ("type", PLAIN),
    ("status", PLAIN),
    ("lastTransitionTime", PLAIN),
    ("reason", PLAIN),
    ("message", PLAIN),
]);

/// The text of a value whose structs have this order.
pub(super) fn text(value: &Value, order: &Order) -> String {
    let mut out = String::new();
    write(value, order, &mut out);
    out
}

fn write(value: &Value, order: &Order, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, order, out);
            }
            out.push(']');
        }
        Value::Object(map) if !order.0.is_empty() => {
            out.push('{');
            let mut first = true;
            for (key, inner) in order.0 {
                let Some(member) = map.get(key) else { continue };
                if !first {
                    out.push(',');
                }
                first = false;
                out.push_str(&format!("\"{key}\":"));
                write(member, inner, out);
            }
            out.push('}');
        }
        plain => {
            out.push_str(&json::text(plain));
        }
    }
}
