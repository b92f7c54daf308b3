//! JSON pointers in patches: finds the parent of a path, and inserts or removes a value there.

use super::{PatchCost, Step, is_container};
use pintle_meta::field::quoted;
use pintle_meta::strconv;
use pintle_value::{Map, Value};

/// Splits off the part before the first slash, which is ignored, and the last part, which is the key.
fn split(path: &str) -> Option<(impl Iterator<Item = &str>, String)> {
    let (_, rest) = path.split_once('/')?;
    let (parents, key) = match rest.rsplit_once('/') {
        Some((parents, key)) => (Some(parents), key),
        None => (None, rest),
    };
    Some((parents.into_iter().flat_map(|p| p.split('/')), unescape(key)))
}

/// Replaces `~1` by a slash and `~0` by a tilde, in one pass.
fn unescape(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('~') {
        out.push_str(before);
        (rest, _) = match after.as_bytes().first() {
            Some(b'1') => (after.get(1..).unwrap_or(""), out.push('/')),
            Some(b'0') => (after.get(1..).unwrap_or(""), out.push('~')),
            _ => (after, out.push('~')),
        };
    }
    out.push_str(rest);
    out
}

/// The list position of `key`; negative ones count from the end.
pub(super) fn existing_index(len: usize, key: &str) -> Step<usize> {
    let index = strconv::parse_int(key).map_err(|_| not_a_number(key))?;
    let len = len as i64;
    let at = if index < 0 { index.saturating_add(len) } else { index };
    if at < 0 || at >= len {
        return Err(format!("Unable to access invalid index: {index}: invalid index referenced"));
    }
    usize::try_from(at).map_err(|_| not_a_number(key))
}

fn not_a_number(key: &str) -> String {
    format!("strconv.Atoi: parsing {}: invalid syntax", quoted(key))
}

/// The object or list that contains the value of a path.
pub(super) enum Parent<'a> {
    Object(&'a mut Map),
    List(&'a mut Vec<Value>),
}

pub(super) fn parent<'a>(document: &'a Value, path: &str) -> Option<(&'a Value, String)> {
    let (mut parents, key) = split(path)?;
    let node = parents.try_fold(document, |node, part| child(node, &unescape(part)).ok().flatten())?;
    matches!(node.without_text(), Value::Object(_) | Value::Array(_)).then_some((node, key))
}

pub(super) fn parent_mut<'a>(document: &'a mut Value, path: &str) -> Option<(Parent<'a>, String)> {
    let (mut parents, key) = split(path)?;
    open(document);
    let node = parents.try_fold(document, |node, part| {
        let child = match node {
            Value::Object(map) => map.get_mut(&unescape(part))?,
            Value::Array(items) => {
                let at = existing_index(items.len(), &unescape(part)).ok()?;
                items.get_mut(at)?
            }
            _ => return None,
        };
        open(child);
        Some(child)
    })?;
    match node {
        Value::Object(map) => Some((Parent::Object(map), key)),
        Value::Array(items) => Some((Parent::List(items), key)),
        _ => None,
    }
}

/// Parses raw JSON one level deep, so that its members can be changed; the members retain their texts.
pub(super) fn open(value: &mut Value) {
    if let Value::Raw(raw) = value
        && is_container(raw.value())
        && let Value::Raw(raw) = std::mem::take(value)
    {
        *value = raw.opened();
    }
}

/// The member of an object (`None` if missing) or the item of a list (an error if missing).
pub(super) fn child<'a>(node: &'a Value, key: &str) -> Step<Option<&'a Value>> {
    match node.without_text() {
        Value::Object(map) => Ok(map.get(key)),
        Value::Array(items) => Ok(items.get(existing_index(items.len(), key)?)),
        _ => Ok(None),
    }
}

pub(super) fn insert(place: (Parent<'_>, String), value: Value, cost: &mut PatchCost) -> Step<()> {
    match place {
        (Parent::Object(map), key) => *map.entry(&key) = value,
        (Parent::List(items), key) if key == "-" => items.push(value),
        (Parent::List(items), key) => {
            // An item can be added at the end, so there is one more position.
            let at = existing_index(items.len().saturating_add(1), &key).map_err(|why| {
                if why.starts_with("strconv") {
                    format!("value was not a proper array index: '{key}': {why}")
                } else {
                    why
                }
            })?;
            cost.shift(items.len().saturating_sub(at))?;
            items.insert(at, value);
        }
    }
    Ok(())
}

pub(super) fn take(place: (Parent<'_>, String), cost: &mut PatchCost) -> Step<Value> {
    match place {
        (Parent::Object(map), key) => {
            map.remove(&key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        (Parent::List(items), key) => {
            let at = existing_index(items.len(), &key)?;
            cost.shift(items.len().saturating_sub(at))?;
            Ok(items.remove(at))
        }
    }
}
