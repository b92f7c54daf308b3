//! Metrics of rules. Like kube-apiserver, count the nodes of a schema that are visited, whether or not they have rules
//! themselves.

use super::scope::{DEPTH_MAX, element, properties, property_shape};
use pintle_cel::shape::Shape;
use pintle_metrics::{Handle, families};
use pintle_value::Value;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Counts the compilation of the rules of one node.
pub(super) fn compiled(took: Duration) {
    static SERIES: LazyLock<Handle> = LazyLock::new(|| families::CEL_COMPILATION.with(&[]));
    SERIES.observe(families::CEL_COMPILATION.buckets(), took.as_secs_f64());
}

/// Counts that the rules of a whole schema were prepared. They are compiled later, one by one, so all nodes get the
/// same share of the time.
pub(super) fn prepared(schema: &Value, shape: Option<&Shape>, took: Duration) {
    let nodes = nodes_visited(schema, schema, shape, 0);
    let each = took.checked_div(nodes).unwrap_or_default();
    (0..nodes).for_each(|_| compiled(each));
}

/// Counts the evaluation of one node's rules and of all below it.
pub(super) fn evaluated(began: Instant) {
    static SERIES: LazyLock<Handle> = LazyLock::new(|| families::CEL_EVALUATION.with(&[]));
    SERIES.observe(families::CEL_EVALUATION.buckets(), began.elapsed().as_secs_f64());
}

/// The number of nodes that kube-apiserver compiles for `node`. `validation` is the node itself or an entry of
/// its `allOf`, whose parts are only visited where the node has them too.
fn nodes_visited(validation: &Value, node: &Value, shape: Option<&Shape>, depth: usize) -> u32 {
    if depth > DEPTH_MAX {
        return 0;
    }
    let deeper = depth.saturating_add(1);
    let element = element(shape);
    let elements = ["items", "additionalProperties"].into_iter().map(|key| {
        let both = validation.get(key).zip(node.get(key));
        let both =
            both.filter(|(validation, node)| [validation, node].iter().all(|v| v.as_object().is_some()));
        both.map_or(0, |(validation, node)| nodes_visited(validation, node, element.as_deref(), deeper))
    });
    let fields = properties(validation).map(|(name, validation)| {
        let visit = || {
            let node = node.at(&["properties", name])?;
            let shape: Arc<Shape> = property_shape(shape?, name, node)?;
            Some(nodes_visited(validation, node, Some(&shape), deeper))
        };
        visit().unwrap_or(0)
    });
    let all_of = validation.items_at(&["allOf"]).iter().map(|more| nodes_visited(more, node, shape, deeper));
    elements.chain(fields).chain(all_of).fold(1, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::super::shape::shape;
    use super::*;

    #[test]
    fn each_node_counts_and_those_of_all_of_again() {
        let cases = [
            (r#"{"type":"object"}"#, 1),
            (r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#, 3),
            (r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}"#, 3),
            (r#"{"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}}"#, 3),
            // Expressions cannot access a field without a type.
            (r#"{"type":"object","properties":{"a":{"x-kubernetes-preserve-unknown-fields":true}}}"#, 1),
            (
                r#"{"type":"object","properties":{"a":{"type":"string"}},
                    "allOf":[{"required":["a"]},{"properties":{"a":{"minLength":1},"b":{"minLength":1}}}],
                    "anyOf":[{"required":["a"]}]}"#,
                5,
            ),
        ];
        for (text, want) in cases {
            let schema = pintle_value::json::parse(text.as_bytes()).unwrap().value;
            let shape = shape(&schema, false);
            assert_eq!(nodes_visited(&schema, &schema, shape.as_deref(), 0), want, "{text}");
        }
    }
}
