//! Values of types with fields: part of a tree, or created by a literal.

use std::sync::Arc;

use super::{EvalError, Value};
use crate::shape::{Field, Shape, ShapeKind};
use crate::words::unescape;

/// A value of a type with fields: part of a tree, or computed.
#[derive(Clone, Debug)]
pub enum Object<'a> {
    /// Part of a tree, read according to its shape.
    Tree(&'a pintle_value::Map, &'a Shape),
    /// Computed by an object literal: the type's name and the fields that were set.
    Shared(Arc<str>, Arc<[(Arc<str>, Value<'a>)]>),
    /// The input with this name, of the type with the second name. Its fields are computed when they are needed
    /// (`Variables::field`), so only an evaluation can read it.
    Input(Arc<str>, Arc<str>),
    /// kube-apiserver's `lazy.MapValue`, a tree whose type has the second name. The checker may declare it as a map, but
    /// at run time it has no size and no `in`, equals only itself, and macros iterate over its values.
    Lazy(&'a pintle_value::Map, &'static str),
}

impl<'a> Object<'a> {
    /// How many members there are.
    pub fn len(&self) -> usize {
        match self {
            Object::Tree(map, _) | Object::Lazy(map, _) => map.len(),
            Object::Shared(_, fields) => fields.len(),
            Object::Input(..) => 0,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A field by its name in expressions. A field of a tree that is `null` counts as missing.
    pub fn get(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Object::Tree(map, shape) => match declared(shape, name) {
                Some(field) => Object::read_field(map, &field.json, &field.shape),
                None => Ok(None),
            },
            Object::Shared(_, fields) => {
                Ok(fields.iter().find(|(key, _)| **key == *name).map(|(_, value)| value.clone()))
            }
            Object::Input(..) => Ok(None),
            Object::Lazy(map, _) => Ok(unescape(name).and_then(|name| map.get(&name)).map(Value::any)),
        }
    }

    /// A field of a tree by the key of its member, which kube-apiserver unescapes all the same. A member that is `null` counts as
    /// missing.
    pub(super) fn member(&self, key: &str) -> Result<Option<Value<'a>>, EvalError> {
        let (Object::Tree(map, shape), Some(key)) = (self, unescape(key)) else { return Ok(None) };
        let ShapeKind::Object(declared) = &shape.kind else { return Ok(None) };
        match declared.fields.values().find(|field| *field.json == *key) {
            Some(field) => Object::read_field(map, &field.json, &field.shape),
            None => Ok(None),
        }
    }

    /// A field of a tree whose position and shape are known.
    #[inline]
    pub(crate) fn read_field(
        map: &'a pintle_value::Map,
        json: &str,
        shape: &'a Shape,
    ) -> Result<Option<Value<'a>>, EvalError> {
        match map.get(json) {
            None | Some(pintle_value::Value::Null) => Ok(None),
            Some(value) => Value::read(value, shape).map(Some),
        }
    }
}

fn declared<'a>(shape: &'a Shape, name: &str) -> Option<&'a Field> {
    match &shape.kind {
        ShapeKind::Object(object) => object.fields.get(name),
        _ => None,
    }
}
