//! Prints a tree as Go's `%v` does, for error texts that contain parts of a patch.

use crate::DEPTH_MAX;
use pintle_value::{Value, json};

/// `map[a:1 b:[x y]]`. Values beyond the depth limit are omitted: their patch is rejected anyway.
pub fn go_text(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

fn write(value: &Value, depth: usize, out: &mut String) {
    match value {
        _ if depth > DEPTH_MAX => out.push_str("..."),
        Value::Raw(raw) => write(raw.value(), depth, out),
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(i) => out.push_str(&i.to_string()),
        Value::Float(f) => out.push_str(&pintle_value::quote::go_general(*f)),
        Value::String(s) => out.push_str(s),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                write(item, depth.saturating_add(1), out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (at, (key, member)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write(member, depth.saturating_add(1), out);
            }
            out.push(']');
        }
    }
}

/// The name of the Go type that holds a value of this kind in an untyped tree, as `%s` prints it.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value.without_text() {
        Value::Null => "%!s(<nil>)",
        other => other.go_type(),
    }
}

/// A value as Go source (`%#v`).
pub(crate) fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(s) => pintle_meta::field::quoted(s),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let member = |(key, value): (&pintle_value::Str, &Value)| {
                format!("{}:{}", pintle_meta::field::quoted(key), go_syntax(value))
            };
            let members: Vec<String> = map.iter().map(member).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        scalar => go_text(scalar),
    }
}

/// A value as Go's `%s` prints it, with its marker for values that are not strings.
pub(crate) fn go_text_of_json(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".into(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            format!("%!s({}={})", go_type(value), go_text(value))
        }
        _ => go_text(value),
    }
}

/// A text that is the same for two values exactly if they are equal: an index key for values that have no order.
pub(crate) fn identity(value: &Value) -> Vec<u8> {
    let mut out = vec![match value {
        Value::Float(_) => b'f',
        _ => b'v',
    }];
    json::print(value, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn values_that_are_too_deep_are_omitted() {
        crate::testing::with_deep_stack(|| {
            let deep = (0..DEPTH_MAX + 2).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
            assert!(go_text(&deep).contains("[...]"));
        });
    }

    #[test]
    fn trees_print_as_go_prints_them() {
        for (json, expected) in [
            (r#"{"b":[1,"x y",null,true],"a":{}}"#, "map[a:map[] b:[1 x y <nil> true]]"),
            ("[1.5,1e30,1e-7,2.0,999999.5,1234567.5]", "[1.5 1e+30 1e-07 2 999999.5 1.2345675e+06]"),
        ] {
            assert_eq!(go_text(&tree(json)), expected);
        }
    }
}
