//! Floats without a fraction: printed as JSON (`2` for 2.0, as in Go) they would be parsed as integers.

use crate::{RawJson, Value};

/// The first float above all 64-bit integers: its JSON, and that of larger floats, is parsed as a float again.
const INTEGERS_END: f64 = 9_223_372_036_854_775_808.0;

impl Value {
    /// Whether the tree has a float that would be parsed as an integer once it was printed.
    pub fn has_whole_floats(&self) -> bool {
        match self {
            Value::Float(float) => is_whole(*float),
            Value::Array(items) => items.iter().any(Value::has_whole_floats),
            Value::Object(map) => map.iter().any(|(_, member)| member.has_whole_floats()),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::String(_) | Value::Raw(_) => false,
        }
    }

    /// Has these floats printed with a fraction (`2.0`), so that they are floats again when they are parsed.
    pub fn spell_whole_floats(&mut self) {
        self.replace_whole_floats(&|float| RawJson::with_text(&format!("{float}.0"), Value::Float(float)));
    }

    /// Makes these floats the integers that they are printed as.
    pub fn whole_floats_to_integers(&mut self) {
        // The digits of large floats are those of the shortest text, not those of their exact values.
        self.replace_whole_floats(&|float| float.to_string().parse().map_or(Value::Float(float), Value::Int));
    }

    fn replace_whole_floats(&mut self, replace: &impl Fn(f64) -> Value) {
        match self {
            Value::Float(float) if is_whole(*float) => *self = replace(*float),
            Value::Array(items) => items.iter_mut().for_each(|item| item.replace_whole_floats(replace)),
            Value::Object(map) => {
                map.iter_mut().for_each(|(_, member)| member.replace_whole_floats(replace));
            }
            _ => {}
        }
    }
}

fn is_whole(float: f64) -> bool {
    float.fract() == 0.0 && float.abs() < INTEGERS_END
}

#[cfg(test)]
mod tests {
    use crate::{Value, json};

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap().value
    }

    #[test]
    fn whole_floats_are_spelled_or_become_integers() {
        for (given, spelled, plain) in [
            (r#"{"a":[2.0,{"b":-1e3}]}"#, r#"{"a":[2.0,{"b":-1000.0}]}"#, r#"{"a":[2,{"b":-1000}]}"#),
            ("0.0", "0.0", "0"),
            ("9223372036854774784.0", "9223372036854775000.0", "9223372036854775000"),
        ] {
            let tree = parse(given);
            assert!(tree.has_whole_floats(), "{given}");
            let mut spelled_out = tree.clone();
            spelled_out.spell_whole_floats();
            assert_eq!(json::text(&spelled_out), spelled);
            assert_eq!(parse(spelled), tree);
            let mut integers = tree;
            integers.whole_floats_to_integers();
            assert_eq!(json::text(&integers), plain);
            assert_eq!(parse(plain), integers);
        }
        for other in ["1", "1.5", "9223372036854775808", "-9223372036854775808.0", "1e21", r#""2.0""#] {
            assert!(!parse(other).has_whole_floats(), "{other}");
        }
    }
}
