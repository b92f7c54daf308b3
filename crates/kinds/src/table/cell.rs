//! Formats single cells: strings, numbers, ages, labels and lists.

use pintle_meta::{LabelSelector, Timestamp, duration};
use pintle_value::{Str, Value};

/// A text.
pub(super) fn text(text: impl Into<Str>) -> Value {
    Value::String(text.into())
}

/// The object's name.
pub(super) fn name(object: &Value) -> Value {
    text_at(object, &["metadata", "name"])
}

/// The object's age.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(object.str_at(&["metadata", "creationTimestamp"]), now)
}

/// How long ago a time was.
pub(super) fn since(time: &str, now: Timestamp) -> Value {
    Value::String(duration::age(time, &now))
}

/// The text of a field; "" if unset.
pub(super) fn text_at(object: &Value, path: &[&str]) -> Value {
    text(object.str_at(path))
}

/// The text of a field, or `unset` if it is absent.
pub(super) fn text_or(object: &Value, path: &[&str], unset: &str) -> Value {
    match object.at(path) {
        Some(Value::String(found)) => Value::String(found.clone()),
        _ => text(unset),
    }
}

/// The text of a field, or `empty` if it is unset or empty.
pub(super) fn filled_or(object: &Value, path: &[&str], empty: &str) -> Value {
    match object.str_at(path) {
        "" => text(empty),
        found => text(found),
    }
}

/// The texts of two members of a field, such as `kind/name`. After `or`, `names` may have a text for an absent field.
pub(super) fn pair(object: &Value, path: &[&str], names: &str) -> Value {
    let (names, unset) = match names.split_once(" or") {
        Some((names, unset)) => (names, Some(unset.trim_start())),
        None => (names, None),
    };
    if let Some(unset) = unset.filter(|_| !is_set(object, path)) {
        return text(unset);
    }
    let (first, second) = names.split_once('/').unwrap_or((names, ""));
    let member = |key: &str| object.str_at(&[path, &[key]].concat());
    text(format!("{}/{}", member(first), member(second)))
}

/// The number in a field; 0 if unset.
pub(super) fn number(object: &Value, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_int).unwrap_or(0)
}

/// The number in a field as a cell.
pub(super) fn int(object: &Value, path: &[&str]) -> Value {
    Value::Int(number(object, path))
}

/// The object's name, marked if one of the annotations makes it the default.
pub(super) fn default_marked(object: &Value, annotations: &[&str]) -> Value {
    let is_default = annotations.iter().any(|key| object.str_at(&["metadata", "annotations", key]) == "true");
    let name = object.str_at(&["metadata", "name"]);
    text(format!("{name}{}", if is_default { " (default)" } else { "" }))
}

/// The boolean in a field, or `unset` if it is absent.
pub(super) fn bool_or(object: &Value, path: &[&str], unset: bool) -> Value {
    Value::Bool(object.at(path).and_then(Value::as_bool).unwrap_or(unset))
}

/// How many members or items a field has.
pub(super) fn count(object: &Value, path: &[&str]) -> i64 {
    let found = match object.at(path) {
        Some(Value::Object(map)) => map.len(),
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    };
    i64::try_from(found).unwrap_or(i64::MAX)
}

/// Whether a field is set.
pub(super) fn is_set(object: &Value, path: &[&str]) -> bool {
    object.at(path).is_some_and(|value| !value.is_null())
}

/// The texts of a list.
pub(super) fn texts<'a>(object: &'a Value, path: &[&str]) -> Vec<&'a str> {
    object.items_at(path).iter().filter_map(Value::as_str).collect()
}

/// A quantity as stored; 0 if absent.
pub(super) fn quantity(value: Option<&Value>) -> Str {
    scalar(value).unwrap_or_else(|| "0".into())
}

/// A text or number (`IntOrString`) as text.
pub(super) fn scalar(value: Option<&Value>) -> Option<Str> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Int(int) => Some(int.to_string().into()),
        _ => None,
    }
}

/// Prints labels as `a=b,c=d`, or `<none>`.
pub(super) fn labels(map: Option<&Value>) -> Value {
    let pairs = map.and_then(Value::as_object).map(|map| {
        map.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or(""))).collect::<Vec<_>>()
    });
    match pairs {
        Some(pairs) if !pairs.is_empty() => text(pairs.join(",")),
        _ => text("<none>"),
    }
}

/// A label selector as text: `""` if it selects all or nothing, `None` if it is invalid.
pub(super) fn selector_text(selector: Option<&Value>) -> Option<String> {
    let selector = LabelSelector::from_value(selector.unwrap_or(&Value::Null)).ok()?;
    let parts: Vec<String> = selector.requirements().iter().map(ToString::to_string).collect();
    Some(parts.join(","))
}

/// A label selector, or `<none>`.
pub(super) fn selector(selector: Option<&Value>) -> Value {
    match selector_text(selector) {
        None => text("<error>"),
        Some(selector) if selector.is_empty() => text("<none>"),
        Some(selector) => text(selector),
    }
}

/// The names or images of the containers of a pod's spec.
pub(super) fn containers(object: &Value, spec: &[&str], key: &str) -> Value {
    let containers = object.at(spec).map(|spec| spec.items_at(&["containers"])).unwrap_or_default();
    text(containers.iter().map(|container| container.str_at(&[key])).collect::<Vec<_>>().join(","))
}

/// The first items of a list with `count` items.
pub(super) fn with_more(first: &[&str], count: usize, shown_max: usize) -> String {
    let joined = first.join(",");
    if count > shown_max { format!("{joined} + {} more...", count.saturating_sub(shown_max)) } else { joined }
}

/// The condition of this type.
pub(super) fn condition<'a>(conditions: &'a [Value], type_: &str) -> Option<&'a Value> {
    conditions.iter().find(|condition| condition.str_at(&["type"]) == type_)
}

/// Returns whether the first condition of this type is `True`.
pub(super) fn is_true(conditions: &[Value], type_: &str) -> bool {
    condition(conditions, type_).is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// Whether the object is being deleted.
pub(super) fn is_terminating(object: &Value) -> bool {
    is_set(object, &["metadata", "deletionTimestamp"])
}
