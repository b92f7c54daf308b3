//! Reads fields as Go does: absent ones are zero values.

use pintle_meta::Quantity;
use pintle_meta::quantity::Format;
use pintle_value::{Map, Str, Value};

/// A number, 0 if absent.
pub(crate) fn int(object: &Value, key: &str) -> i64 {
    object.get(key).and_then(Value::as_int).unwrap_or(0)
}

/// The integer in the field `key`, if the field is set.
pub(crate) fn opt_int(object: &Value, key: &str) -> Option<i64> {
    object.get(key).and_then(Value::as_int)
}

/// A boolean, false if absent.
pub(crate) fn flag(object: &Value, key: &str) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// The boolean in the field `key`, if the field is set.
pub(crate) fn opt_flag(object: &Value, key: &str) -> Option<bool> {
    object.get(key).and_then(Value::as_bool)
}

/// A string, empty if absent.
pub(crate) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    opt_text(object, key).unwrap_or("")
}

/// The text in the field `key`, if the field is set.
pub(crate) fn opt_text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

/// The items of a list, empty if absent.
pub(crate) fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).unwrap_or(&[])
}

/// The texts of a list.
pub(crate) fn texts<'a>(object: &'a Value, key: &str) -> Vec<&'a str> {
    list(object, key).iter().map(|v| v.as_str().unwrap_or("")).collect()
}

/// The texts of a list, as errors print them.
pub(crate) fn strings(object: &Value, key: &str) -> Vec<Str> {
    texts(object, key).into_iter().map(Str::from).collect()
}

/// The entries of a map, empty if absent.
pub(crate) fn entries(object: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    object.and_then(Value::as_object).into_iter().flat_map(Map::iter).map(|(k, v)| (k.as_str(), v))
}

/// The field `key`, if it is present and not `null`.
pub(crate) fn member<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|v| !v.is_null())
}

/// A quantity, zero if absent or invalid.
pub(crate) fn quantity(value: Option<&Value>) -> Quantity {
    let zero = || Quantity::new(0, Format::DecimalSI);
    value.map_or_else(zero, |v| Quantity::from_value(v).unwrap_or_else(|_| zero()))
}
