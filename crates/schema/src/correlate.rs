//! Correlates parts of a new object with parts of the old one, and determines whether they changed.

use crate::{Arena, ListKind, NodeId, Shape};
use pintle_value::{Str, Value};

/// A value and its old value.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) node: NodeId,
    pub(crate) value: &'a Value,
    pub(crate) old: &'a Value,
}

/// The old state of a value, as far as it is known.
#[derive(Clone, Copy, Default)]
pub(crate) struct Correlation<'a> {
    /// The value's old value, if it can be correlated.
    current: Option<Pair<'a>>,
    /// The nearest enclosing value that can be correlated.
    around: Option<Pair<'a>>,
}

impl<'a> Correlation<'a> {
    pub(crate) fn of(root: Pair<'a>) -> Self {
        Correlation { current: Some(root), around: None }
    }

    pub(crate) fn key(self, arena: &Arena, key: &str) -> Self {
        let Some(current) = self.current else { return self };
        // Both objects were converted to one version, so the old version is unknown.
        if self.around.is_none() && matches!(key, "apiVersion" | "kind") {
            return Correlation::default();
        }
        Correlation { current: current.key(arena, key), around: Some(current) }
    }

    pub(crate) fn index(self, arena: &Arena, at: usize) -> Self {
        let Some(current) = self.current else { return self };
        Correlation { current: current.index(arena, at), around: Some(current) }
    }

    /// Returns whether nothing changed here or, if that is unknown, in the enclosing value.
    pub(crate) fn is_unchanged(self, arena: &Arena) -> bool {
        self.current.or(self.around).is_some_and(|pair| pair.is_unchanged(arena))
    }
}

impl<'a> Pair<'a> {
    pub(crate) fn key(self, arena: &Arena, key: &str) -> Option<Pair<'a>> {
        let node = arena.node(self.node);
        let (value, old) = (self.value.get(key)?, self.old.get(key)?);
        let below = match &node.shape {
            Shape::Struct(known) => {
                let field = known.field(key)?;
                if Some(field.node) == node.metadata { node.metadata_rules? } else { field.node }
            }
            Shape::Map { value, .. } => *value,
            _ => return None,
        };
        Some(Pair { node: below, value, old })
    }

    fn index(self, arena: &Arena, at: usize) -> Option<Pair<'a>> {
        let Shape::List { item, kind: ListKind::Map(keys) } = &arena.node(self.node).shape else {
            return None;
        };
        let value = self.value.as_array()?.get(at)?;
        let old = same_item(keys, self.old.as_array()?, value, at)?;
        Some(Pair { node: *item, value, old })
    }

    /// Returns whether the value is unchanged. The order of keyed lists is ignored; unknown fields count.
    pub(crate) fn is_unchanged(self, arena: &Arena) -> bool {
        match (self.value, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                let keyed =
                    matches!(&arena.node(self.node).shape, Shape::List { kind: ListKind::Map(_), .. });
                if !keyed {
                    return new == old;
                }
                let same = |at: usize| self.index(arena, at).is_some_and(|below| below.is_unchanged(arena));
                new.len() == old.len() && (0..new.len()).all(same)
            }
            (Value::Object(new), Value::Object(old)) => {
                let same = |key: &Str| self.key(arena, key).is_some_and(|below| below.is_unchanged(arena));
                new.len() == old.len() && new.keys().all(same)
            }
            (new, old) => new == old,
        }
    }
}

/// The old item with the same keys; the one at the same index is tried first.
pub(crate) fn same_item<'a>(keys: &[Str], before: &'a [Value], item: &Value, at: usize) -> Option<&'a Value> {
    if !has_keys(keys, item) {
        return None;
    }
    let same = |other: &&Value| keys.iter().all(|key| other.get(key) == item.get(key));
    before.get(at).filter(same).or_else(|| before.iter().find(same))
}

/// Returns whether an item has all of its keys.
pub(crate) fn has_keys(keys: &[Str], item: &Value) -> bool {
    let known = |key: &Str| {
        matches!(item.get(key), Some(Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_)))
    };
    !keys.is_empty() && keys.iter().all(known)
}
