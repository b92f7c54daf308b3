//! JSON Merge Patch (RFC 7386): objects are merged member by member, `null` removes, all else replaces.

use super::{PatchError, too_deep};
use crate::DEPTH_MAX;
use pintle_value::{Map, Value};

/// Merges `patch` into `document`. If `strict` (field validation Warn and Strict), the error for a patch that is not an
/// object names its type; otherwise a list replaces the document.
pub fn apply(document: Value, patch: Value, strict: bool) -> Result<Value, PatchError> {
    match opened(patch) {
        Value::Null => Err(PatchError::Malformed("Invalid JSON Patch".into())),
        patch @ Value::Object(_) => merge(document, patch, 0),
        other if strict => Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.json_type()
        ))),
        patch @ Value::Array(_) => without_nulls(patch, 0),
        _ => Err(PatchError::Malformed("Invalid JSON Patch".into())),
    }
}

fn merge(current: Value, patch: Value, depth: usize) -> Result<Value, PatchError> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    // Members of raw JSON that the patch does not change retain their texts.
    match (opened(current), opened(patch)) {
        (Value::Object(target), Value::Object(patch)) => merge_objects(target, patch, depth),
        // A list or scalar that replaces an object is used unchanged, including nulls; otherwise nulls are removed.
        (Value::Object(_), patch) => Ok(patch),
        (_, patch) => without_nulls(patch, depth),
    }
}

/// Parses raw JSON one level deep if it is an object or a list; numbers and strings retain their texts.
fn opened(value: Value) -> Value {
    match value {
        Value::Raw(raw) if matches!(raw.value(), Value::Object(_) | Value::Array(_)) => raw.opened(),
        other => other,
    }
}

fn merge_objects(mut target: Map, patch: Map, depth: usize) -> Result<Value, PatchError> {
    for (key, change) in patch {
        if change.is_null() {
            target.remove(&key);
            continue;
        }
        let slot = target.entry(&key);
        *slot = merge(std::mem::take(slot), change, depth.saturating_add(1))?;
    }
    Ok(Value::Object(target))
}

/// Removes the null members of objects at any depth; null items of lists remain.
fn without_nulls(value: Value, depth: usize) -> Result<Value, PatchError> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    match opened(value) {
        Value::Object(map) => {
            let mut kept = Vec::with_capacity(map.len());
            for (key, member) in map {
                if !member.is_null() {
                    kept.push((key, without_nulls(member, depth.saturating_add(1))?));
                }
            }
            Ok(Value::Object(Map::from_entries(kept).0))
        }
        Value::Array(items) => {
            let cleaned: Result<Vec<_>, _> =
                items.into_iter().map(|item| without_nulls(item, depth.saturating_add(1))).collect();
            Ok(Value::Array(cleaned?))
        }
        scalar => Ok(scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{nested_objects, text, tree, with_deep_stack};

    #[test]
    fn objects_merge_and_all_else_replaces() {
        for (document, patch, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (r#"{"a":1}"#, r#"{"a":[null,{"b":null}]}"#, r#"{"a":[null,{}]}"#),
            (r#"{"a":{}}"#, r#"{"a":[null,{"b":null}]}"#, r#"{"a":[null,{"b":null}]}"#),
        ] {
            let got = apply(tree(document), tree(patch), true).map(|v| text(&v));
            assert_eq!(got.as_deref(), Ok(expected), "{document} + {patch}");
        }
    }

    #[test]
    fn a_patch_that_is_no_object_is_refused() {
        let refusal = |patch, strict| apply(tree("{}"), tree(patch), strict).map_err(|e| e.to_string());
        assert_eq!(refusal("null", true), Err("Invalid JSON Patch".into()));
        assert_eq!(
            refusal("[]", true),
            Err("error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}".into())
        );
        assert_eq!(refusal("[]", false), Ok(tree("[]")));
        assert_eq!(refusal("7", false), Err("Invalid JSON Patch".into()));
    }

    #[test]
    fn a_patch_that_is_too_deep_is_refused() {
        with_deep_stack(|| {
            let merged = |depth| apply(tree("{}"), nested_objects(depth), true);
            assert_eq!(merged(DEPTH_MAX), Ok(nested_objects(DEPTH_MAX)));
            assert_eq!(merged(DEPTH_MAX + 2), Err(too_deep()));
        });
    }
}
