//! Defaulting: sets missing values that have a default, and replaces disallowed nulls.

use crate::{Arena, NodeId, Shape};
use pintle_value::Value;

/// The size limit in bytes of memory that the defaults of one object may take: a definition can give each element of a
/// list a default of a megabyte, while an element takes three bytes in the request.
pub const DEFAULTS_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The defaults of an object take more than `DEFAULTS_BYTES_MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the defaults of the object take more than {DEFAULTS_BYTES_MAX} bytes")]
pub struct DefaultsTooLarge;

/// Sets defaults, outer values first.
pub fn default(arena: &Arena, id: NodeId, value: &mut Value) -> Result<(), DefaultsTooLarge> {
    Defaults { arena, bytes_left: DEFAULTS_BYTES_MAX }.default_node(id, value)
}

/// Sets the default of one field of an object, and those within it, if the object does not have the field.
pub fn default_field(
    arena: &Arena,
    id: NodeId,
    name: &str,
    value: &mut Value,
) -> Result<(), DefaultsTooLarge> {
    let (Shape::Struct(known), Value::Object(map)) = (&arena.node(id).shape, value) else { return Ok(()) };
    let Some(field) = known.fields.iter().find(|field| field.name == name) else { return Ok(()) };
    let mut defaults = Defaults { arena, bytes_left: DEFAULTS_BYTES_MAX };
    if !map.contains_key(name)
        && let Some(default) = &arena.node(field.node).default
    {
        let mut member = defaults.copy(default)?;
        defaults.default_node(field.node, &mut member)?;
        map.insert(field.name.clone(), member);
    }
    Ok(())
}

struct Defaults<'a> {
    arena: &'a Arena,
    bytes_left: usize,
}

impl Defaults<'_> {
    fn default_node(&mut self, id: NodeId, value: &mut Value) -> Result<(), DefaultsTooLarge> {
        let arena = self.arena;
        match (&arena.node(id).shape, value) {
            (Shape::Struct(known), Value::Object(map)) => {
                for field in &known.fields {
                    let node = arena.node(field.node);
                    let gives_way = match map.get(&field.name) {
                        None => true,
                        Some(Value::Null) => !node.nullable,
                        Some(_) => false,
                    };
                    if let Some(default) = node.default.as_ref().filter(|_| gives_way) {
                        map.insert(field.name.clone(), self.copy(default)?);
                    }
                    if let Some(member) = map.get_mut(&field.name) {
                        self.default_node(field.node, member)?;
                    }
                }
                Ok(())
            }
            (Shape::Map { value: each, .. }, Value::Object(map)) => {
                map.iter_mut().try_for_each(|(_, member)| self.element(*each, member))
            }
            (Shape::List { item, .. }, Value::Array(items)) => {
                items.iter_mut().try_for_each(|member| self.element(*item, member))
            }
            _ => Ok(()),
        }
    }

    /// Defaults an element of a list or map: a disallowed null becomes the default.
    fn element(&mut self, id: NodeId, value: &mut Value) -> Result<(), DefaultsTooLarge> {
        let node = self.arena.node(id);
        if value.is_null()
            && !node.nullable
            && let Some(default) = &node.default
        {
            *value = self.copy(default)?;
        }
        self.default_node(id, value)
    }

    fn copy(&mut self, default: &Value) -> Result<Value, DefaultsTooLarge> {
        let bytes = default.memory_bytes(0);
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(DefaultsTooLarge)?;
        Ok(default.clone())
    }
}

/// Removes disallowed nulls. Must be called after defaulting, which replaces some of them.
pub fn prune_nulls(arena: &Arena, id: NodeId, value: &mut Value) {
    match (&arena.node(id).shape, value) {
        (Shape::Struct(known), Value::Object(map)) => {
            map.retain(|key, member| {
                let Some(field) = known.field(key) else { return true };
                let node = arena.node(field.node);
                let drop = member.is_null() && !node.nullable;
                if !drop {
                    prune_nulls(arena, field.node, member);
                }
                !drop
            });
        }
        (Shape::Map { value: each, .. }, Value::Object(map)) => {
            map.retain(|_, member| {
                let node = arena.node(*each);
                let drop = member.is_null() && !node.nullable;
                if !drop {
                    prune_nulls(arena, *each, member);
                }
                !drop
            });
        }
        (Shape::List { item, .. }, Value::Array(items)) => {
            for member in items {
                prune_nulls(arena, *item, member);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structural::compile;
    use crate::{Node, Schema, typed::Strict};
    use pintle_value::json;
    use std::sync::Arc;

    /// A schema in which each item gets a default of a hundred thousand bytes.
    fn schema() -> Schema {
        let long = "x".repeat(100_000);
        let definition = format!(
            r#"{{"type":"object","properties":{{"l":{{"type":"array","items":{{"type":"object","properties":{{
                "s":{{"type":"string","default":"{long}"}}}}}}}}}}}}"#
        );
        let definition = json::parse(definition.as_bytes()).unwrap().value;
        let mut arena = Arena::default();
        let metadata = arena.push(Node::of(Shape::Any));
        let root = compile(&definition, metadata, &mut arena);
        arena.seal();
        Schema::new(Arc::new(arena), root)
    }

    #[test]
    fn defaults_are_limited_by_bytes() {
        let schema = schema();
        for (items, is_accepted) in [(300, true), (700_000, false)] {
            let body = format!(r#"{{"l":[{}]}}"#, vec!["{}"; items].join(","));
            let tree = json::parse(body.as_bytes()).unwrap().value;
            let decoded = crate::decode(&schema, tree, &mut Strict::default());
            let error = decoded.err().map(|error| error.message().to_string());
            let expected = (!is_accepted).then(|| DefaultsTooLarge.to_string());
            assert_eq!(error, expected, "{items}");
        }
    }
}
