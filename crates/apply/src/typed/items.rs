//! The path elements of list items: their keys, or the items themselves.

use super::{List, Type};
use crate::fieldset::PathElement;
use pintle_schema::ListKind;
use pintle_value::{Str, Value};
use std::sync::Arc;

/// The path element of an item. The error is structured-merge-diff's message.
pub(super) fn element(list: &List<'_>, item: &Value) -> Result<PathElement, String> {
    match list.kind {
        ListKind::Map(keys) => keyed_element(list.item, keys, item),
        ListKind::Set => value_element(item),
        ListKind::Atomic => Err("invalid indexing of non-associative list".into()),
    }
}

/// Returns whether `element` would return an element, without making it.
pub(super) fn has_element(list: &List<'_>, item: &Value) -> bool {
    match (list.kind, item) {
        (ListKind::Map(keys), Value::Object(map)) => {
            let is_found = |key: &Str| map.contains_key(key) || list.item.key_default(key).is_some();
            keys.is_empty() || keys.iter().any(is_found)
        }
        (ListKind::Set, item) => {
            !matches!(item, Value::Object(_) | Value::Raw(_) | Value::Array(_) | Value::Null)
        }
        (ListKind::Map(_) | ListKind::Atomic, _) => false,
    }
}

fn keyed_element(item_type: Type<'_>, keys: &[Str], item: &Value) -> Result<PathElement, String> {
    let map = match item {
        Value::Object(map) => map,
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let field = |key: &Str| {
        let value = map.get(key).cloned().or_else(|| item_type.key_default(key))?;
        Some((key.clone(), value))
    };
    // Nearly all lists have one key: this avoids a vector.
    if let [key] = keys
        && let Some(field) = field(key)
    {
        return Ok(PathElement::Key(Arc::new([field])));
    }
    let fields: Vec<(Str, Value)> = keys.iter().filter_map(field).collect();
    if fields.is_empty() && !keys.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| pintle_meta::field::quoted(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    Ok(PathElement::key(fields))
}

fn value_element(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) | Value::Raw(_) => {
            Err("associative list without keys has an element that's a map type".into())
        }
        Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
        scalar => Ok(PathElement::Value(scalar.clone())),
    }
}

/// The items that have an element, in the order of their elements; items of equal elements in list order.
pub(super) fn sorted<'v>(list: &List<'_>, items: &'v [Value]) -> Vec<(PathElement, &'v Value)> {
    let mut found: Vec<_> = items.iter().filter_map(|item| Some((element(list, item).ok()?, item))).collect();
    if !found.is_sorted_by(|a, b| a.0 <= b.0) {
        found.sort_by(|a, b| a.0.cmp(&b.0));
    }
    found
}
