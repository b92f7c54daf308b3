//! Lists: computed, joined, or part of a tree.

use std::collections::HashMap;
use std::sync::Arc;

use super::{ANY, EvalError, Value};
use crate::shape::{ListKind, Shape, ShapeKind};

/// A list: computed, or part of a tree.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Computed.
    Shared(Arc<[Value<'a>]>),
    /// Two lists end to end.
    Joined(Arc<Joined<'a>>),
    /// Part of a tree; elements are read according to the list's shape.
    Tree(&'a [pintle_value::Value], &'a Shape),
    /// Computed from a set or a keyed list of a tree, and still of that kind; the shape is the list's.
    Merged(Arc<[Value<'a>]>, &'a Shape),
}

/// Two lists end to end.
#[derive(Clone, Debug)]
pub struct Joined<'a> {
    first: List<'a>,
    second: List<'a>,
    len: usize,
    /// The number of joins above the deepest element.
    depth: usize,
}

/// Lists up to this size are copied when they are joined.
const COPY_LEN_MAX: usize = 16;
/// Deeper joins are flattened, because access walks them.
const JOIN_DEPTH_MAX: usize = 16;

impl<'a> List<'a> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self {
            List::Shared(elements) | List::Merged(elements, _) => elements.len(),
            List::Joined(joined) => joined.len,
            List::Tree(elements, _) => elements.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`; an error if the tree does not match its shape.
    pub fn get(&self, index: usize) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            List::Shared(elements) | List::Merged(elements, _) => elements.get(index).cloned().map(Ok),
            List::Joined(joined) => match index.checked_sub(joined.first.len()) {
                None => joined.first.get(index),
                Some(index) => joined.second.get(index),
            },
            List::Tree(elements, shape) => {
                elements.get(index).map(|element| Value::read(element, element_shape(shape)))
            }
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> + '_ {
        // Indices are below the length, so every element exists.
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// How the list is compared and joined.
    pub(super) fn kind(&self) -> &'a ListKind {
        match self {
            List::Tree(_, shape) | List::Merged(_, shape) => match &shape.kind {
                ShapeKind::List { list, .. } => list,
                _ => &ListKind::Ordered,
            },
            _ => &ListKind::Ordered,
        }
    }

    /// `self + other`: concatenation; a union for sets and keyed lists, which retain their kind.
    pub fn join(&self, other: &List<'a>) -> Result<List<'a>, EvalError> {
        match (self.kind(), self) {
            (ListKind::Ordered, _) => self.end_to_end(other),
            (kind, List::Tree(_, shape) | List::Merged(_, shape)) => {
                let elements = self.merge(other, kind)?;
                Ok(List::Merged(elements.into(), shape))
            }
            _ => self.end_to_end(other),
        }
    }

    fn end_to_end(&self, other: &List<'a>) -> Result<List<'a>, EvalError> {
        if other.is_empty() {
            return Ok(self.clone());
        }
        if self.is_empty() {
            return Ok(other.clone());
        }
        let len = self.len().saturating_add(other.len());
        let depth = self.depth().max(other.depth()).saturating_add(1);
        if len <= COPY_LEN_MAX || depth > JOIN_DEPTH_MAX {
            let elements: Result<Vec<_>, _> = self.iter().chain(other.iter()).collect();
            return Ok(List::Shared(elements?.into()));
        }
        Ok(List::Joined(Arc::new(Joined { first: self.clone(), second: other.clone(), len, depth })))
    }

    fn depth(&self) -> usize {
        match self {
            List::Joined(joined) => joined.depth,
            _ => 0,
        }
    }

    /// The union: an element with a known key replaces the old one in a keyed list, and is omitted in a set.
    fn merge(&self, other: &List<'a>, kind: &ListKind) -> Result<Vec<Value<'a>>, EvalError> {
        let mut elements: Vec<Value<'a>> = self.iter().collect::<Result<_, _>>()?;
        let mut places: HashMap<String, usize> = elements
            .iter()
            .enumerate()
            .filter_map(|(index, known)| Some((known.identity(kind)?, index)))
            .collect();
        for element in other.iter() {
            let element = element?;
            let Some(identity) = element.identity(kind) else {
                elements.push(element);
                continue;
            };
            match places.get(&identity).and_then(|&index| elements.get_mut(index)) {
                Some(known) if matches!(kind, ListKind::KeyedBy(_)) => *known = element,
                Some(_) => {}
                None => {
                    places.insert(identity, elements.len());
                    elements.push(element);
                }
            }
        }
        Ok(elements)
    }
}

/// The shape of a list's elements.
fn element_shape(shape: &Shape) -> &Shape {
    match &shape.kind {
        ShapeKind::List { element, .. } => element,
        _ => &ANY,
    }
}
