//! What the tests of this crate share: trees from text and back.

use pintle_value::{Value, json};

pub(crate) fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap().value
}

pub(crate) fn text(value: &Value) -> String {
    let mut out = Vec::new();
    json::print(value, &mut out);
    String::from_utf8(out).unwrap()
}
