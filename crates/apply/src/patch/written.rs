//! Prints the document after a JSON patch or merge patch: untouched parts as before, in the order of their type, all
//! else with sorted keys.

use pintle_schema::{NodeId, Schema, Shape, typed};
use pintle_value::{Value, json};

/// The JSON of `patched`, which a patch made from `live`. `merged` is the patch if it is a merge patch: that touches
/// what it names, even if the value is unchanged.
pub fn written(schema: &Schema, live: &Value, patched: &Value, merged: Option<&Value>) -> String {
    let mut out = Vec::new();
    let root = schema.has_field_order().then(|| schema.root());
    let touched = merged.map_or(Touched::IfChanged, |patch| Touched::By(Some(patch)));
    Writer { schema }.value(root, Some(live), touched, patched, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The effect of a patch on a value.
#[derive(Clone, Copy)]
enum Touched<'p> {
    /// A value is touched if it has changed.
    IfChanged,
    /// The patch names this value, or does not name it.
    By(Option<&'p Value>),
}

impl<'p> Touched<'p> {
    fn member(self, key: &str) -> Touched<'p> {
        match self {
            Touched::By(Some(patch @ Value::Object(_))) => Touched::By(patch.get(key)),
            other => other,
        }
    }

    fn is_untouched(self, live: Option<&Value>, value: &Value) -> bool {
        !matches!(self, Touched::By(Some(_))) && live == Some(value)
    }
}

struct Writer<'s> {
    schema: &'s Schema,
}

impl Writer<'_> {
    fn value(
        &self,
        node: Option<NodeId>,
        live: Option<&Value>,
        touched: Touched<'_>,
        value: &Value,
        out: &mut Vec<u8>,
    ) {
        match (node, value) {
            (Some(node), _) if touched.is_untouched(live, value) => {
                typed::encode_json(&self.schema.at(node), value, out);
            }
            (_, Value::Object(map)) => {
                out.push(b'{');
                for (at, (key, member)) in map.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    json::write_string(key, out);
                    out.push(b':');
                    let below = node.and_then(|node| self.below(node, Some(key)));
                    self.value(below, live.and_then(|live| live.get(key)), touched.member(key), member, out);
                }
                out.push(b'}');
            }
            (_, Value::Array(items)) => {
                let before = live.and_then(Value::as_array).unwrap_or_default();
                out.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    let below = node.and_then(|node| self.below(node, None));
                    self.value(below, before.get(at), touched, item, out);
                }
                out.push(b']');
            }
            (_, Value::Float(number)) => {
                json::print(value, out);
                // A whole float needs a point, so that it is not read as an integer.
                if number.fract() == 0.0 && out.last().is_some_and(u8::is_ascii_digit) && is_plain(out) {
                    out.extend_from_slice(b".0");
                }
            }
            (_, scalar) => json::print(scalar, out),
        }
    }

    /// The node of a member, or of the items of a list.
    fn below(&self, node: NodeId, key: Option<&str>) -> Option<NodeId> {
        match (&self.schema.arena().node(node).shape, key) {
            (Shape::Struct(fields), Some(key)) => fields.field(key).map(|field| field.node),
            (Shape::Map { value, .. }, Some(_)) => Some(*value),
            (Shape::List { item, .. }, None) => Some(*item),
            _ => None,
        }
    }
}

/// Whether the number written last has no exponent.
fn is_plain(out: &[u8]) -> bool {
    out.iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit() || b".e+-".contains(byte))
        .all(|byte| *byte != b'e')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn a_merge_patch_touches_what_it_names() {
        let same = tree("{}");
        for (patch, keys, is_untouched) in [
            (r#"{"a":{"b":1}}"#, ["a", "b"], false),
            (r#"{"a":{"b":1}}"#, ["a", "c"], true),
            (r#"{"a":{"b":1}}"#, ["b", "c"], true),
            (r#"{"a":{}}"#, ["a", "b"], true),
            (r#"{"a":[{"b":1}]}"#, ["a", "b"], false),
        ] {
            let patch = tree(patch);
            let touched = keys.iter().fold(Touched::By(Some(&patch)), |touched, key| touched.member(key));
            assert_eq!(touched.is_untouched(Some(&same), &same), is_untouched, "{keys:?}");
        }
        assert!(Touched::IfChanged.member("a").is_untouched(Some(&same), &same));
        assert!(!Touched::IfChanged.is_untouched(None, &same));
    }
}
