//! Fits untyped trees to Go types as kube-apiserver's converter of unstructured objects does: it accepts more forms of
//! numbers than JSON decoding, and has its own messages.
//!
//! Strategic merge patches and applied objects need this. Unknown fields are left to the typed decoder that runs
//! afterwards.

use crate::DEPTH_MAX;
use pintle_schema::structural::to_whole;
use pintle_schema::{Arena, Node, NodeId, Schema, Shape, typed};
use pintle_value::{Value, base64};

/// Up to this number, every integer is exact as a float.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Fits the numbers of `tree` to the Go types of `schema`. The error is Go's message. Custom resources have no Go types
/// and are not changed.
pub fn restore(tree: &mut Value, schema: &Schema) -> Result<(), String> {
    restore_value(schema.arena(), schema.root(), tree, 0)
}

fn restore_value(arena: &Arena, id: NodeId, tree: &mut Value, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("exceeded max depth of {DEPTH_MAX}"));
    }
    let node = arena.node(id);
    if tree.is_null() {
        return Ok(());
    }
    match &node.shape {
        Shape::Struct(fields) if fields.go_name.is_empty() => Ok(()),
        Shape::Struct(fields) => {
            let Value::Object(map) = tree else {
                return Err(format!("cannot restore struct from: {}", kind(tree)));
            };
            for field in fields.in_order() {
                if let Some(member) = map.get_mut(&field.name) {
                    restore_value(arena, field.node, member, depth.saturating_add(1))?;
                }
            }
            Ok(())
        }
        Shape::Map { value: member_type, .. } => {
            let Value::Object(map) = tree else {
                return Err(format!("cannot restore map from {}", kind(tree)));
            };
            map.iter_mut().try_for_each(|(_, member)| {
                restore_value(arena, *member_type, member, depth.saturating_add(1))
            })
        }
        Shape::List { item, .. } => {
            let Value::Array(items) = tree else {
                return Err(format!("cannot restore slice from {}", kind(tree)));
            };
            items
                .iter_mut()
                .try_for_each(|member| restore_value(arena, *item, member, depth.saturating_add(1)))
        }
        Shape::Bytes => restore_bytes(tree),
        Shape::Bool | Shape::Int { .. } | Shape::Float | Shape::String => restore_scalar(node, tree),
        // Types with their own decoder (times, quantities, …) get the value as JSON, which writes whole numbers without a
        // point. Their errors do not name the field.
        _ => {
            if let Value::Float(f) = tree
                && f.fract() == 0.0
                && f.abs() < EXACT_MAX
            {
                *tree = Value::Int(*f as i64);
            }
            typed::check_value(arena, id, tree).map_err(|error| error.message().to_string())
        }
    }
}

fn restore_bytes(tree: &mut Value) -> Result<(), String> {
    match tree {
        Value::String(text) => {
            base64::decode(text).map(|_| ()).map_err(|error| format!("error decoding from json: {error}"))
        }
        Value::Array(items) => items.iter_mut().try_for_each(byte),
        other => Err(format!("cannot restore slice from {}", kind(other))),
    }
}

/// An item of a byte slice. Go truncates integers that do not fit.
fn byte(item: &mut Value) -> Result<(), String> {
    let whole = match item {
        Value::Null => return Ok(()),
        Value::Int(int) => *int,
        Value::Float(float) if float.trunc() == *float => to_whole(*float),
        Value::Float(_) => return Err("cannot convert float64 to uint8".to_string()),
        _ => return Err("unrecognized type: uint8".to_string()),
    };
    *item = Value::Int(i64::from(whole as u8));
    Ok(())
}

fn restore_scalar(node: &Node, tree: &mut Value) -> Result<(), String> {
    let (go_type, no_way) = match node.shape {
        Shape::Bool => ("bool", false),
        Shape::Int { bits: 32 } => ("int32", false),
        Shape::Int { .. } => ("int64", false),
        Shape::Float => ("float64", false),
        // Go could convert an integer to a string (as a code point); kube-apiserver rejects that.
        _ => ("string", matches!(tree, Value::Int(_))),
    };
    let cannot = |from: &str| {
        let to = if node.go.is_empty() { go_type } else { node.go.as_str() };
        Err(format!("cannot convert {from} to {to}"))
    };
    match (&node.shape, &*tree) {
        (Shape::Bool, Value::Bool(_)) | (Shape::String, Value::String(_)) => Ok(()),
        (Shape::Float, Value::Int(_) | Value::Float(_)) | (Shape::Int { bits: 64 }, Value::Int(_)) => Ok(()),
        // Go truncates integers that do not fit.
        (Shape::Int { .. }, Value::Int(i)) => {
            *tree = Value::Int(i64::from(*i as i32));
            Ok(())
        }
        (Shape::Int { bits }, Value::Float(f)) if f.trunc() == *f => {
            let whole = to_whole(*f);
            *tree = Value::Int(if *bits == 32 { i64::from(whole as i32) } else { whole });
            Ok(())
        }
        (Shape::Int { .. }, Value::Float(_)) => cannot("float64"),
        _ if no_way => cannot("int64"),
        _ => Err(format!("unrecognized type: {go_type}")),
    }
}

/// The kind of the Go value that represents this in an untyped tree.
fn kind(tree: &Value) -> &'static str {
    match tree {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) | Value::Raw(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{schema, text, tree};

    const QUANTITY: &str =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

    fn restored(json: &str) -> Result<String, String> {
        let schema = schema(
            r#"{"go":"Lease","fields":{"name":"string","count":"int","on":"bool","ratio":"float","labels":{"map":"string"},
                "items":{"list":{"go":"Item","fields":{"count":"int"}}},"size":"quantity","at":"intorstring"}}"#,
        );
        let mut tree = tree(json);
        restore(&mut tree, &schema).map(|()| text(&tree))
    }

    #[test]
    fn numbers_are_fitted_and_the_rest_is_named() {
        for (json, expected) in [
            (
                r#"{"count":7.0,"ratio":1,"size":2.0,"unknown":{}}"#,
                Ok(r#"{"count":7,"ratio":1,"size":2,"unknown":{}}"#),
            ),
            (r#"{"count":null,"items":[null]}"#, Ok(r#"{"count":null,"items":[null]}"#)),
            (r#"{"count":9223372036854775808}"#, Ok(r#"{"count":-9223372036854775808}"#)),
            (r#"{"count":7.5}"#, Err("cannot convert float64 to int64")),
            (r#"{"count":"9"}"#, Err("unrecognized type: int64")),
            (r#"{"name":9}"#, Err("cannot convert int64 to string")),
            (r#"{"name":9.5}"#, Err("unrecognized type: string")),
            (r#"{"name":true}"#, Err("unrecognized type: string")),
            (r#"{"on":"true"}"#, Err("unrecognized type: bool")),
            (r#"{"labels":["a"]}"#, Err("cannot restore map from slice")),
            (r#"{"labels":{"a":1}}"#, Err("cannot convert int64 to string")),
            (r#"{"items":"c"}"#, Err("cannot restore slice from string")),
            (r#"{"size":[]}"#, Err(QUANTITY)),
            (r#"{"size":"x","items":"c"}"#, Err("cannot restore slice from string")),
            (r#"{"at":[]}"#, Err("json: cannot unmarshal array into Go value of type int32")),
            (r#"{"items":[[]]}"#, Err("cannot restore struct from: slice")),
        ] {
            assert_eq!(restored(json), expected.map(str::to_string).map_err(str::to_string), "{json}");
        }
    }

    #[test]
    fn items_of_bytes_are_fitted() {
        for (json, expected) in [
            (r#""eA==""#, Ok(r#""eA==""#)),
            ("[1,300,-1,256.0,null]", Ok("[1,44,255,0,null]")),
            ("[1.5]", Err("cannot convert float64 to uint8")),
            (r#"["x"]"#, Err("unrecognized type: uint8")),
            ("[[]]", Err("unrecognized type: uint8")),
            ("5", Err("cannot restore slice from int64")),
        ] {
            let mut tree = tree(json);
            let restored = restore_bytes(&mut tree).map(|()| text(&tree));
            assert_eq!(restored, expected.map(str::to_string).map_err(str::to_string), "{json}");
        }
    }
}
