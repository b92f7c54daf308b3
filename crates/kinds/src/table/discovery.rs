//! Rows of endpoint slices.

use super::cell::{scalar, text, with_more};
use pintle_value::Value;

/// How many ports or addresses a cell lists; the number of the others follows.
const LISTED_MAX: usize = 3;

fn port_text(port: &Value) -> String {
    let named = || port.get("name").and_then(Value::as_str).unwrap_or("*").to_string();
    scalar(port.get("port")).map_or_else(named, |number| number.to_string())
}

fn some_of(parts: impl Iterator<Item = String>) -> Value {
    let parts: Vec<String> = parts.collect();
    let first: Vec<&str> = parts.iter().take(LISTED_MAX).map(String::as_str).collect();
    match with_more(&first, parts.len(), LISTED_MAX) {
        nothing if nothing.is_empty() => text("<unset>"),
        some => text(some),
    }
}

pub(super) fn ports(object: &Value) -> Value {
    some_of(object.items_at(&["ports"]).iter().map(port_text))
}

pub(super) fn addresses(object: &Value) -> Value {
    let endpoints = object.items_at(&["endpoints"]).iter();
    let addresses = endpoints.flat_map(|endpoint| endpoint.items_at(&["addresses"]));
    some_of(addresses.map(|address| address.as_str().unwrap_or("").to_string()))
}
