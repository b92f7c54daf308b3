//! Rows of endpoint slices.

use super::BuiltinPrinter;
use super::cell::{age, name, scalar, text, text_at, with_more};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[BuiltinPrinter {
    kind: "discovery.k8s.io/EndpointSlice",
    needs: &["addressType", "ports", "endpoints.addresses"],
    cells: endpoint_slice,
}];

/// How many ports and addresses a cell contains.
const SHOWN: usize = 3;

fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports = object.items_at(&["ports"]).iter().map(port);
    let addresses =
        object.items_at(&["endpoints"]).iter().flat_map(|endpoint| endpoint.items_at(&["addresses"]));
    vec![
        name(object),
        text_at(object, &["addressType"]),
        some_of(ports),
        some_of(addresses.map(|address| address.as_str().unwrap_or("").to_string())),
        age(object, now),
    ]
}

fn port(port: &Value) -> String {
    let named = || port.get("name").and_then(Value::as_str).unwrap_or("*").to_string();
    scalar(port.get("port")).map_or_else(named, |number| number.to_string())
}

fn some_of(parts: impl Iterator<Item = String>) -> Value {
    let parts: Vec<String> = parts.collect();
    let error_text: Vec<&str> = parts.iter().take(SHOWN).map(String::as_str).collect();
    match with_more(&error_text, parts.len(), SHOWN) {
        nothing if nothing.is_empty() => text("<unset>"),
        some => text(some),
    }
}
