//! Strategic merge patch: a merge patch that takes from the schema which lists are merged and by which key, and that has
//! directives (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`).
//!
//! Fields without a schema are merged as well; field validation reports them in the result.

mod list;
mod remaining;

pub use remaining::remaining;

use super::restore::restore;
use super::{PatchError, go_text, too_deep};
use crate::DEPTH_MAX;
use pintle_schema::{Arena, Node, NodeId, Patch, Schema, Shape};
use pintle_value::{Map, Str, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Whether a value nests deeper than `depth`.
fn is_deeper(value: &Value, depth: usize) -> bool {
    match (value, depth.checked_sub(1)) {
        (Value::Array(_) | Value::Object(_), None) => true,
        (Value::Array(items), Some(rest)) => items.iter().any(|item| is_deeper(item, rest)),
        (Value::Object(map), Some(rest)) => map.values().any(|member| is_deeper(member, rest)),
        _ => false,
    }
}

/// Merges `patch` into `document`, both in the version of `schema`. The result matches the Go types except for unknown
/// fields, which the decoder reports.
pub fn apply(document: Value, patch: Value, schema: &Schema) -> Result<Value, PatchError> {
    // Some functions that recurse over the patch do not check the depth.
    if is_deeper(&patch, DEPTH_MAX) {
        return Err(too_deep());
    }
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => Map::new(),
        other => {
            return Err(PatchError::Malformed(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                other.json_type()
            )));
        }
    };
    let Value::Object(document) = document else {
        return Err(unclassified("invalid JSON document"));
    };
    let mut rest = patch.clone();
    Merge { arena: schema.arena() }.consume(&document, &mut rest, schema.root());
    let merged = Merge { arena: schema.arena() }.merge_map(document, patch, schema.root(), 0)?;
    let mut merged = Value::Object(merged);
    restore(&mut merged, schema)
        .map_err(|detail| PatchError::Invalid { go_text: go_text::go_text(&Value::Object(rest)), detail })?;
    Ok(merged)
}

fn unclassified(text: impl Into<String>) -> PatchError {
    PatchError::Unclassified(text.into())
}

fn wrong_type(expected: &Value, found: &Value) -> PatchError {
    let (expected, found) = (go_text::go_type(expected), go_text::go_type(found));
    unclassified(format!("expected a {expected}, but received a {found}"))
}

fn bad_directive(directive: &Value, patch: Map) -> PatchError {
    let directive = go_text::go_text_of_json(directive);
    unclassified(format!(
        "unknown patch type: {directive} in map: {}",
        go_text::go_text(&Value::Object(patch))
    ))
}

fn bad_element_order() -> PatchError {
    PatchError::Malformed("invalid patch format of setElementOrder list".into())
}

/// One merge with the nodes of one arena.
struct Merge<'a> {
    arena: &'a Arena,
}

impl<'a> Merge<'a> {
    fn merge_map(
        &self,
        mut original: Map,
        mut patch: Map,
        node: NodeId,
        depth: usize,
    ) -> Result<Map, PatchError> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        if let Some(directive) = patch.remove(DIRECTIVE) {
            return match directive.as_str() {
                Some("replace") => Ok(patch),
                Some("delete") => Ok(Map::new()),
                _ => {
                    patch.insert(DIRECTIVE, directive.clone());
                    Err(bad_directive(&directive, patch))
                }
            };
        }
        retain_keys(&mut original, &mut patch)?;
        self.element_orders(&mut original, &mut patch, node, depth)?;
        for (key, change) in patch {
            self.merge_member(&mut original, key, change, node, depth)?;
        }
        Ok(original)
    }

    fn merge_member(
        &self,
        original: &mut Map,
        key: Str,
        change: Value,
        node: NodeId,
        depth: usize,
    ) -> Result<(), PatchError> {
        let deletes = key.starts_with(DELETE_FROM);
        let key = if deletes {
            let bad = || PatchError::Malformed("invalid patch format of primitive list".into());
            list_name(&key, DELETE_FROM).ok_or_else(bad)?
        } else {
            key
        };
        if change.is_null() {
            original.remove(&key);
            return Ok(());
        }
        let both = original.get(&key).map(|current| (current, &change));
        match both {
            Some((Value::Object(_), Value::Object(_))) | Some((Value::Array(_), Value::Array(_))) => {}
            _ if deletes => return Ok(()),
            _ => {
                put_or_drop(original, key, without_directives(without_nulls(change)));
                return Ok(());
            }
        }
        let (below, rule) = self.lookup(node, &key)?;
        match (std::mem::take(original.entry(&key)), change) {
            (Value::Object(current), Value::Object(change)) if !rule.replace => {
                *original.entry(&key) =
                    Value::Object(self.merge_map(current, change, below, depth.saturating_add(1))?);
            }
            (Value::Array(current), Value::Array(change)) => {
                let item = self.item_type(node, below)?;
                let merged = self.list(current, change, item, rule, deletes, depth)?;
                *original.entry(&key) = Value::Array(merged);
            }
            (_, change) => *original.entry(&key) = change,
        }
        Ok(())
    }

    /// Schema and patch rule of a member, as Go would find them in the struct's tags.
    fn lookup(&self, node: NodeId, key: &str) -> Result<(NodeId, &'a Patch), PatchError> {
        let node = self.arena.node(node);
        let unknown = |name: &str| {
            unclassified(format!(
                "unable to find api field in struct {name} for the json field {}",
                pintle_meta::field::quoted(key)
            ))
        };
        match &node.shape {
            Shape::Struct(fields) => {
                let field = fields.field(key).ok_or_else(|| unknown(&fields.go_name))?;
                Ok((field.node, &field.patch))
            }
            Shape::Any => Err(unknown(node.go.rsplit('.').next().unwrap_or_default())),
            _ => Err(unclassified(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                go_kind(node)
            ))),
        }
    }

    /// Returns the type of the items of the list at `list`, a member of `parent`.
    fn item_type(&self, parent: NodeId, list: NodeId) -> Result<NodeId, PatchError> {
        match &self.arena.node(list).shape {
            Shape::List { item, .. } => match self.arena.node(*item).shape {
                Shape::List { .. } => Err(unclassified("unexpected slice of slice")),
                _ => Ok(*item),
            },
            _ => Err(unclassified(format!(
                "expected slice or array type, but got: {}",
                go_kind(self.arena.node(parent))
            ))),
        }
    }
}

fn go_kind(node: &Node) -> &'static str {
    match node.shape {
        Shape::Bool => "bool",
        Shape::Int { bits: 32 } => "int32",
        Shape::Int { .. } => "int64",
        Shape::Float => "float64",
        Shape::String => "string",
        Shape::Bytes | Shape::List { .. } => "slice",
        Shape::Map { .. } => "map",
        _ => "struct",
    }
}

/// The name of the list of a directive `prefix/name`.
fn list_name(key: &str, prefix: &str) -> Option<Str> {
    key.strip_prefix(prefix)?.strip_prefix('/').map(Str::from)
}

/// Removes the members that `$retainKeys` does not list; the patch may not set those.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<(), PatchError> {
    let bad = || PatchError::Malformed("invalid patch format of retainKeys".into());
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let keys = keys.as_array().ok_or_else(bad)?;
    let listed = |key: &str| keys.iter().any(|k| k.as_str() == Some(key));
    let set = |(key, value): (&Str, &Value)| {
        !value.is_null() && !key.starts_with(DELETE_FROM) && !key.starts_with(ELEMENT_ORDER) && !listed(key)
    };
    if patch.iter().any(set) {
        return Err(bad());
    }
    original.retain(|key, _| listed(key));
    Ok(())
}

fn put_or_drop(original: &mut Map, key: Str, value: Option<Value>) {
    match value {
        Some(value) => _ = original.insert(key, value),
        None => _ = original.remove(&key),
    }
}

/// Removes the null members of objects at any depth.
fn without_nulls(mut value: Value) -> Value {
    drop_nulls(&mut value);
    value
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, member| {
            drop_nulls(member);
            !member.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Removes objects that are directives, at any depth; `None` if `value` itself is one.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter_map(|(k, v)| Some((k, without_directives(v)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

#[cfg(test)]
mod tests;
