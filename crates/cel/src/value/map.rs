//! Maps: computed, or part of a tree.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{ANY, EvalError, Value};
use crate::number;
use crate::shape::{Shape, ShapeKind};

/// A map: computed, or part of a tree.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// Computed.
    Shared(Arc<Entries<'a>>),
    /// Part of a tree; values are read according to the map's shape.
    Tree(&'a pintle_value::Map, &'a Shape),
}

/// The entries of a computed map, in the order of insertion.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    /// Indices of the entries in the order of their keys.
    order: Vec<u32>,
}

/// A key for lookups; keys of other types are never found.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Key<'k> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(&'k str),
}

impl<'a> Map<'a> {
    /// A computed map; of two entries with the same key, the later one wins.
    pub fn of(entries: Vec<(Value<'a>, Value<'a>)>) -> Map<'a> {
        let mut map = Entries { entries: Vec::with_capacity(entries.len()), order: Vec::new() };
        for (key, value) in entries {
            map.insert(key, value);
        }
        Map::Shared(Arc::new(map))
    }

    /// A map with the entry added.
    pub(crate) fn with(self, key: Value<'a>, value: Value<'a>) -> Result<Map<'a>, EvalError> {
        if self.find(&key)?.is_some() {
            return Err(EvalError::failed(format!("insert failed: key {key} already exists")));
        }
        let mut entries = match self {
            Map::Shared(entries) => Arc::unwrap_or_clone(entries),
            tree => {
                let mut entries = Entries { entries: Vec::new(), order: Vec::new() };
                for (key, value) in tree.entries() {
                    entries.insert(key, value?);
                }
                entries
            }
        };
        entries.insert(key, value);
        Ok(Map::Shared(Arc::new(entries)))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        match self {
            Map::Shared(map) => map.entries.len(),
            Map::Tree(map, _) => map.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key; numbers find keys of other numeric types. An error if the map cannot have keys of that type,
    /// or the tree does not match its shape.
    pub fn find(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Map::Shared(map) => Ok(Key::of(key).and_then(|key| map.find(key)).cloned()),
            Map::Tree(map, shape) => match key {
                Value::String(text) => {
                    map.get(text.as_str()).map(|value| Value::read(value, value_shape(shape))).transpose()
                }
                _ if matches!(shape.kind, ShapeKind::Map { .. }) => Err(EvalError::NoSuchOverload),
                _ => Ok(None),
            },
        }
    }

    /// The entry at `index`.
    pub fn entry(&self, index: usize) -> Option<(Value<'a>, Result<Value<'a>, EvalError>)> {
        match self {
            Map::Shared(map) => map.entries.get(index).map(|(key, value)| (key.clone(), Ok(value.clone()))),
            Map::Tree(map, shape) => {
                let (key, value) = map.as_slice().get(index)?;
                Some((Value::from(key.as_str()), Value::read(value, value_shape(shape))))
            }
        }
    }

    /// The key at `index`.
    pub fn key(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Map::Shared(map) => map.entries.get(index).map(|(key, _)| key.clone()),
            Map::Tree(map, _) => map.as_slice().get(index).map(|(key, _)| Value::from(key.as_str())),
        }
    }

    /// The entries; those of a tree by key.
    pub fn entries(&self) -> impl Iterator<Item = (Value<'a>, Result<Value<'a>, EvalError>)> + '_ {
        (0..self.len()).filter_map(|index| self.entry(index))
    }
}

impl<'a> Entries<'a> {
    /// Replaces the value of an equal key, or adds an entry.
    fn insert(&mut self, key: Value<'a>, value: Value<'a>) {
        let Some(wanted) = Key::of(&key) else { return };
        match self.place(wanted) {
            Ok(index) => {
                if let Some(entry) = self.entries.get_mut(index) {
                    entry.1 = value;
                }
            }
            Err(at) => {
                self.order.insert(at, self.entries.len() as u32);
                self.entries.push((key, value));
            }
        }
    }

    /// The index of the entry with exactly this key, or its insertion point in the order.
    fn place(&self, wanted: Key<'_>) -> Result<usize, usize> {
        let found = self.order.binary_search_by(|&index| {
            let key = self.entries.get(index as usize).and_then(|(key, _)| Key::of(key));
            key.map_or(Ordering::Less, |key| key.order(&wanted))
        })?;
        self.order.get(found).map(|&index| index as usize).ok_or(found)
    }

    fn find(&self, wanted: Key<'_>) -> Option<&Value<'a>> {
        let exactly =
            |key| self.place(key).ok().and_then(|index| self.entries.get(index)).map(|(_, value)| value);
        exactly(wanted).or_else(|| match wanted {
            Key::Int(int) => u64::try_from(int).ok().and_then(|uint| exactly(Key::Uint(uint))),
            Key::Uint(uint) => i64::try_from(uint).ok().and_then(|int| exactly(Key::Int(int))),
            Key::Double(double) => {
                let int = number::double_to_int_exactly(double).and_then(|int| exactly(Key::Int(int)));
                int.or_else(|| {
                    number::double_to_uint_exactly(double).and_then(|uint| exactly(Key::Uint(uint)))
                })
            }
            _ => None,
        })
    }
}

impl<'k> Key<'k> {
    fn of(value: &'k Value<'_>) -> Option<Key<'k>> {
        match value {
            Value::Bool(value) => Some(Key::Bool(*value)),
            Value::Int(value) => Some(Key::Int(*value)),
            Value::Uint(value) => Some(Key::Uint(*value)),
            Value::Double(value) if !value.is_nan() => Some(Key::Double(*value)),
            Value::String(value) => Some(Key::Text(value.as_str())),
            _ => None,
        }
    }

    fn order(&self, other: &Key<'_>) -> Ordering {
        // Not-a-number is never a key, so any two keys can be compared.
        self.partial_cmp(other).unwrap_or(Ordering::Equal)
    }
}

/// The shape of a map's values.
fn value_shape(shape: &Shape) -> &Shape {
    match &shape.kind {
        ShapeKind::Map { value } => value,
        _ => &ANY,
    }
}
