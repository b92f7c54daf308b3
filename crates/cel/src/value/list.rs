//! Lists: computed, joined, or part of a tree.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// A set that is part of a tree, with the identities of its elements.
    Set(&'a [pintle_value::Value], &'a Shape, Known),
    /// Computed from a set or a keyed list of a tree, and still of that kind; the shape is the list's.
    Merged(Arc<[Value<'a>]>, &'a Shape, Known),
}

/// The identities of a set's elements, and of all elements that were ever added to this value: kube-apiserver looks
/// both up in one map, which exists as long as the value. A second `self + ['c']` therefore adds nothing.
#[derive(Clone, Debug, Default)]
pub struct Known(Arc<Mutex<Option<HashSet<String>>>>);

impl Known {
    /// Passes the identities to `look`; `elements` computes them on first use.
    pub(super) fn with<T>(
        &self,
        elements: impl FnOnce() -> Result<HashSet<String>, EvalError>,
        look: impl FnOnce(&mut HashSet<String>) -> T,
    ) -> Result<T, EvalError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match &mut *known {
            Some(known) => known,
            none => none.insert(elements()?),
        };
        Ok(look(known))
    }
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
            List::Shared(elements) | List::Merged(elements, ..) => elements.len(),
            List::Joined(joined) => joined.len,
            List::Tree(elements, _) | List::Set(elements, ..) => elements.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`; an error if the tree does not match its shape.
    pub fn get(&self, index: usize) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            List::Shared(elements) | List::Merged(elements, ..) => elements.get(index).cloned().map(Ok),
            List::Joined(joined) => match index.checked_sub(joined.first.len()) {
                None => joined.first.get(index),
                Some(index) => joined.second.get(index),
            },
            List::Tree(elements, shape) | List::Set(elements, shape, _) => {
                elements.get(index).map(|element| Value::read(element, element_shape(shape)))
            }
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> + '_ {
        // Indices are below the length, so every element exists.
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The shape of a list of a tree, or of one computed from it.
    pub(crate) fn shape(&self) -> Option<&'a Shape> {
        match self {
            List::Tree(_, shape) | List::Set(_, shape, _) | List::Merged(_, shape, _) => Some(shape),
            List::Shared(_) | List::Joined(_) => None,
        }
    }

    /// How the list is compared and joined.
    pub(super) fn kind(&self) -> &'a ListKind {
        match self.shape().map(|shape| &shape.kind) {
            Some(ShapeKind::List { list, .. }) => list,
            _ => &ListKind::Ordered,
        }
    }

    /// The identities of a set's elements, and of what was added to it.
    pub(super) fn known<T>(&self, look: impl FnOnce(&mut HashSet<String>) -> T) -> Result<T, EvalError> {
        let elements =
            || self.iter().filter_map(|v| v.map(|v| v.identity(&ListKind::Set)).transpose()).collect();
        match self {
            List::Set(_, _, known) | List::Merged(_, _, known) => known.with(elements, look),
            _ => Known::default().with(elements, look),
        }
    }

    /// `self + other`: concatenation; a union for sets and keyed lists, which retain their kind.
    pub fn join(&self, other: &List<'a>) -> Result<List<'a>, EvalError> {
        let Some(shape) = self.shape() else { return self.end_to_end(other) };
        let elements = match self.kind() {
            ListKind::Ordered => return self.end_to_end(other),
            ListKind::Set => self.union(other)?,
            kind => self.merge(other, kind)?,
        };
        Ok(List::Merged(elements.into(), shape, Known::default()))
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

    /// The elements of a set, and those elements of the other list that are not in the set.
    fn union(&self, other: &List<'a>) -> Result<Vec<Value<'a>>, EvalError> {
        let mut elements: Vec<Value<'a>> = self.iter().collect::<Result<_, _>>()?;
        let others: Vec<Value<'a>> = other.iter().collect::<Result<_, _>>()?;
        self.known(|known| {
            let is_new = |element: &Value<'_>| {
                element.identity(&ListKind::Set).is_none_or(|identity| known.insert(identity))
            };
            elements.extend(others.into_iter().filter(is_new));
        })?;
        Ok(elements)
    }

    /// The elements of a keyed list, replaced by those of the other list with the same keys, and its other elements.
    fn merge(&self, other: &List<'a>, kind: &ListKind) -> Result<Vec<Value<'a>>, EvalError> {
        let mut elements: Vec<Value<'a>> = self.iter().collect::<Result<_, _>>()?;
        let places: HashMap<String, usize> = elements
            .iter()
            .enumerate()
            .filter_map(|(index, known)| Some((known.identity(kind)?, index)))
            .collect();
        for element in other.iter() {
            let element = element?;
            let place = element.identity(kind).and_then(|identity| places.get(&identity).copied());
            match place.and_then(|index| elements.get_mut(index)) {
                Some(known) => *known = element,
                None => elements.push(element),
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
