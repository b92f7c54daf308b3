//! `Shape`: the type and the bounds of data. It gives the checker a type, the cost estimate the sizes, and the evaluator
//! a way to read a tree without copying it.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_value::Str;

use crate::types::Type;

/// Unbounded.
pub const UNBOUNDED: u64 = i64::MAX as u64;

/// The shape of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The kind of value.
    pub kind: ShapeKind,
    /// The maximum number of elements of a list or map, or units of a string; `UNBOUNDED` when unknown.
    pub max_elements: u64,
    /// The fewest bytes that a value of this shape takes as JSON.
    pub min_serialized_size: u64,
}

/// The kind of value that data is read as.
#[derive(Clone, Debug, PartialEq)]
pub enum ShapeKind {
    /// Any value of the tree: `dyn`.
    Dyn,
    /// `null`
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`; integers of the tree are read as doubles.
    Double,
    /// `string`
    String,
    /// `bytes`, base64 in the tree.
    Bytes,
    /// A time in RFC 3339 or a date in the tree.
    Timestamp,
    /// A duration as text in the tree.
    Duration,
    /// `list(element)`
    List {
        /// The shape of each element.
        element: Arc<Shape>,
        /// How two lists compare and join.
        list: ListKind,
    },
    /// `map(string, value)`
    Map {
        /// The shape of each value.
        value: Arc<Shape>,
    },
    /// A type with fields.
    Object(Arc<ObjectShape>),
    /// A value of this type. It only tells the checker: no tree is read with it.
    Typed(Type),
}

/// How lists compare with `==` and join with `+`.
#[derive(Clone, Debug, PartialEq)]
pub enum ListKind {
    /// Element by element; joined end to end.
    Ordered,
    /// In any order; joined as a union.
    Set,
    /// In any order, elements identified by these members; joined by replacing elements with the same key.
    KeyedBy(Arc<[Str]>),
}

/// The shape of a type with fields.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectShape {
    /// The type's name, unique within a `Provider`.
    pub name: Arc<str>,
    /// The fields by the name that expressions use.
    pub fields: BTreeMap<Str, Field>,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The field's name in the tree.
    pub json: Str,
    /// The field's shape.
    pub shape: Arc<Shape>,
    /// Whether every object has it.
    pub required: bool,
}

/// The object types that expressions may refer to.
#[derive(Clone, Debug, Default)]
pub struct Provider {
    /// Objects by name.
    pub objects: BTreeMap<Arc<str>, Arc<ObjectShape>>,
    /// Returns whether a type has every field, each of any type.
    pub open: Option<fn(&str) -> bool>,
}

impl Shape {
    /// A shape of unbounded size.
    pub fn of(kind: ShapeKind) -> Shape {
        Shape { kind, max_elements: UNBOUNDED, min_serialized_size: 0 }
    }

    /// The type the checker sees.
    pub fn cel_type(&self) -> Type {
        match &self.kind {
            ShapeKind::Dyn => Type::Dyn,
            ShapeKind::Null => Type::Null,
            ShapeKind::Bool => Type::Bool,
            ShapeKind::Int => Type::Int,
            ShapeKind::Uint => Type::Uint,
            ShapeKind::Double => Type::Double,
            ShapeKind::String => Type::String,
            ShapeKind::Bytes => Type::Bytes,
            ShapeKind::Timestamp => Type::Timestamp,
            ShapeKind::Duration => Type::Duration,
            ShapeKind::List { element, .. } => Type::list(element.cel_type()),
            ShapeKind::Map { value } => Type::map(Type::String, value.cel_type()),
            ShapeKind::Object(object) => Type::Object(object.name.clone()),
            ShapeKind::Typed(of) => of.clone(),
        }
    }
}

impl ObjectShape {
    /// Whether a field has this name in the tree.
    pub fn has_member(&self, json: &str) -> bool {
        // Most fields have the same name in expressions.
        self.fields.get(json).is_some_and(|field| field.json == json)
            || self.fields.values().any(|field| field.json == json)
    }
}

impl Provider {
    /// Whether expressions may use any field of the type with this name, because its fields are not known.
    pub fn is_open(&self, name: &str) -> bool {
        self.open.is_some_and(|open| open(name))
    }

    /// Adds every object type of `shape`.
    pub fn add(&mut self, shape: &Shape) {
        match &shape.kind {
            ShapeKind::List { element, .. } => self.add(element),
            ShapeKind::Map { value } => self.add(value),
            ShapeKind::Object(object) => {
                let known = self.objects.insert(object.name.clone(), object.clone());
                if known.is_none() {
                    object.fields.values().for_each(|field| self.add(&field.shape));
                }
            }
            _ => {}
        }
    }
}
