//! Sets defaults. A field is unset in Go's sense: absent for pointers, zero for plain fields.

use pintle_meta::Quantity;
use pintle_value::{Map, Value};

/// Sets `key` if it is absent: the default of a pointer field.
pub(crate) fn absent(object: &mut Value, key: &str, value: impl Into<Value>) {
    if object.get(key).is_none_or(Value::is_null) {
        object.set_at(&[key], value.into());
    }
}

/// Sets `key` if it is absent, `""` or 0: the default of a plain field.
pub(crate) fn zero(object: &mut Value, key: &str, value: impl Into<Value>) {
    let unset = match object.get(key) {
        None | Some(Value::Null | Value::Int(0)) => true,
        Some(Value::String(s)) => s.is_empty(),
        Some(_) => false,
    };
    if unset {
        object.set_at(&[key], value.into());
    }
}

/// The items of the list `key`, mutable; empty if absent.
pub(crate) fn items<'a>(object: &'a mut Value, key: &str) -> &'a mut [Value] {
    object.get_mut(key).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// Rounds the quantities of a resource list up to thousandths, as the API does for all resource lists.
pub(crate) fn round_resource_list(list: Option<&mut Value>) {
    let Some(Value::Object(map)) = list else { return };
    for (_, value) in map.iter_mut() {
        round_up(value);
    }
}

fn round_up(value: &mut Value) {
    let Ok(mut quantity) = Quantity::from_value(value) else { return };
    if !quantity.round_up(-3) {
        *value = quantity.to_string().into();
    }
}

/// The entries of the map at `keys`, if present.
pub(crate) fn map_at<'a>(object: &'a Value, keys: &[&str]) -> Option<&'a Map> {
    object.at(keys).and_then(Value::as_object)
}
