//! Evaluates variables, fields and indices.

use std::sync::Arc;

use pintle_value::Value as Tree;

use super::{Evaluator, Local, Outcome};
use crate::number;
use crate::plan::{Attribute, Candidate, Qualifier, QualifierKey, Root};
use crate::shape::{Shape, ShapeKind};
use crate::value::{EvalError, Object, Value};

impl<'a> Evaluator<'a, '_> {
    /// Evaluates an attribute: costs one unit, and one more for each step. A conditional itself costs nothing.
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        if let Some((tree, shape)) = self.in_tree(attribute) {
            self.charge((attribute.qualifiers.len() as u64).saturating_add(crate::cost::SELECT))?;
            return Value::read(tree, shape);
        }
        let value = super::limited(self.resolve(attribute))?;
        if !matches!(attribute.root, Root::Conditional(_)) {
            self.charge(crate::cost::SELECT)?;
        }
        value
    }

    /// Resolves a variable and fields with known positions directly in the tree, without a value for each step; `None` if
    /// a field is missing or the path is not direct.
    #[inline]
    fn in_tree(&self, attribute: &'a Attribute) -> Option<(&'a Tree, &'a Shape)> {
        let (last, before) = attribute.qualifiers.split_last()?;
        let mut map = match &attribute.root {
            Root::Local(slot) => match self.locals.get(*slot)? {
                Local::Ready(Ok(Value::Object(Object::Tree(map, _)))) => *map,
                _ => return None,
            },
            Root::Input(name) => match self.variables.variable(name)? {
                Ok(Value::Object(Object::Tree(map, _))) => map,
                _ => return None,
            },
            _ => return None,
        };
        for qualifier in before {
            match (&qualifier.key, qualifier.optional) {
                (QualifierKey::Field(_, json, _), false) => map = map.get(json)?.as_object()?,
                _ => return None,
            }
        }
        match (&last.key, last.optional) {
            (QualifierKey::Field(_, json, shape), false) => {
                map.get(json).filter(|tree| !tree.is_null()).map(|tree| (tree, &**shape))
            }
            _ => None,
        }
    }

    /// Evaluates an attribute without the charge for the attribute itself.
    fn resolve(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        let (root, taken) = self.root(&attribute.root)?;
        match attribute.qualifiers.get(taken..) {
            None | Some([]) => Ok(root),
            Some(qualifiers) => self.qualified(root, qualifiers),
        }
    }

    /// The root of an attribute, and the number of qualifiers that were part of the name.
    fn root(&mut self, root: &'a Root) -> Result<(Value<'a>, usize), EvalError> {
        match root {
            Root::Local(slot) => Ok((self.local(*slot)?, 0)),
            Root::Input(name) => match self.variables.variable(name) {
                Some(value) => Ok((value?, 0)),
                None => Err(EvalError::Failed(format!("no such attribute(s): {name}"))),
            },
            Root::OneOf(candidates) => self.one_of(candidates),
            Root::Node(node) => Ok((self.eval(node)?, 0)),
            Root::Conditional(parts) => {
                let branch = match self.eval(&parts.0)? {
                    Value::Bool(true) => &parts.1,
                    Value::Bool(false) => &parts.2,
                    _ => return Err(EvalError::NoSuchOverload),
                };
                Ok((self.resolve(branch)?, 0))
            }
        }
    }

    fn one_of(&mut self, candidates: &'a [Candidate]) -> Result<(Value<'a>, usize), EvalError> {
        for candidate in candidates {
            if let Some(value) = self.variables.variable(&candidate.name) {
                return Ok((value?, candidate.taken));
            }
            if let Some(constant) = &candidate.constant {
                return Ok((constant.clone(), candidate.taken));
            }
        }
        let names: Vec<&str> = candidates.iter().map(|candidate| &*candidate.name).collect();
        Err(EvalError::Failed(format!("no such attribute(s): {}", names.join(", "))))
    }

    /// A variable of a loop; the initial value of an accumulator is evaluated when it is first read.
    fn local(&mut self, slot: usize) -> Outcome<'a> {
        match self.locals.get(slot) {
            Some(Local::Ready(value)) => value.clone(),
            Some(Local::Lazy(init)) => {
                let value = super::limited(self.eval(init))?;
                self.set(slot, value.clone());
                value
            }
            None => Err(EvalError::NoSuchOverload),
        }
    }

    pub(super) fn set(&mut self, slot: usize, value: Outcome<'a>) {
        if let Some(local) = self.locals.get_mut(slot) {
            *local = Local::Ready(value);
        }
    }

    /// Applies qualifiers. After an optional one, a missing value makes the result an empty optional.
    fn qualified(&mut self, root: Value<'a>, qualifiers: &'a [Qualifier]) -> Outcome<'a> {
        let (mut value, mut optional) = match root {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            // Quirk of cel-go: it unwraps the native value of an optional, which a lazy map refuses.
            Value::Optional(Some(value)) if matches!(*value, Value::Object(Object::Lazy(..))) => {
                return Err(EvalError::NoSuchOverload);
            }
            Value::Optional(Some(value)) => (Arc::unwrap_or_clone(value), true),
            value => (value, false),
        };
        for qualifier in qualifiers {
            optional |= qualifier.optional;
            if optional {
                match super::limited(self.resolve_key(&value, &qualifier.key))?? {
                    Some(next) => value = next,
                    // A step that is not taken costs nothing.
                    None => return Ok(Value::Optional(None)),
                }
                self.charge(crate::cost::SELECT)?;
                continue;
            }
            let found = match (&qualifier.key, &value) {
                (QualifierKey::Field(_, json, shape), Value::Object(Object::Tree(map, _))) => {
                    Object::read_field(map, json, shape)
                }
                (key, value) => super::limited(self.resolve_key(value, key))?,
            };
            self.charge(crate::cost::SELECT)?;
            match found? {
                Some(next) => value = next,
                None => {
                    value =
                        unset(&value, &qualifier.key).ok_or_else(|| self.missing(&value, &qualifier.key))?
                }
            }
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    /// The error for a missing field, key or index.
    #[cold]
    fn missing(&mut self, value: &Value<'a>, key: &'a QualifierKey) -> EvalError {
        let key = match key {
            QualifierKey::Field(name, ..) => Value::from(&**name),
            QualifierKey::Key(key) => key.clone(),
            QualifierKey::Attribute(_) | QualifierKey::Node(_) => {
                std::mem::replace(&mut self.missed, Value::Null)
            }
        };
        EvalError::Failed(match value {
            Value::List(_) => format!("index out of bounds: {key}"),
            _ => format!("no such key: {key}"),
        })
    }

    /// The value at a step; `None` if there is none.
    fn resolve_key(
        &mut self,
        value: &Value<'a>,
        key: &'a QualifierKey,
    ) -> Result<Option<Value<'a>>, EvalError> {
        match key {
            QualifierKey::Field(name, json, shape) => match value {
                Value::Object(Object::Tree(map, _)) => Object::read_field(map, json, shape),
                value => self.find(value, &Value::from(&**name)),
            },
            QualifierKey::Key(key) => self.find(value, key),
            QualifierKey::Attribute(attribute) => {
                let key = self.resolve(attribute)?;
                self.find_computed(value, key)
            }
            QualifierKey::Node(node) => {
                let key = self.eval(node)?;
                self.find_computed(value, key)
            }
        }
    }

    fn find_computed(&mut self, value: &Value<'a>, key: Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
        check_key(&key)?;
        let found = self.find(value, &key)?;
        if found.is_none() {
            self.missed = key;
        }
        Ok(found)
    }

    fn find(&self, value: &Value<'a>, key: &Value<'_>) -> Result<Option<Value<'a>>, EvalError> {
        match value {
            Value::Map(map) => map.find(key),
            Value::Object(object) => match key {
                Value::String(name) => match object {
                    Object::Input(input, _) => self.variables.field(input, name.as_str()).transpose(),
                    object => object.get(name.as_str()),
                },
                _ => Err(EvalError::NoSuchOverload),
            },
            Value::List(list) => match index_of(key)? {
                Some(index) => list.get(index).transpose(),
                None => Ok(None),
            },
            _ if self.prices.strict => Err(EvalError::Failed(format!("no such key: {key}"))),
            _ => Ok(None),
        }
    }

    /// Evaluates `has(attribute)`.
    pub(super) fn has(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        let present = super::limited(self.is_present(attribute))?;
        let cost = self.prices.presence_test();
        self.charge(cost)?;
        present.map(Value::Bool)
    }

    fn is_present(&mut self, attribute: &'a Attribute) -> Result<bool, EvalError> {
        let (root, taken) = self.root(&attribute.root)?;
        let Some((last, before)) = attribute.qualifiers.get(taken..).and_then(<[_]>::split_last) else {
            return Ok(true);
        };
        let (value, lenient) = match self.qualified(root, before)? {
            Value::Optional(None) => return Ok(false),
            Value::Optional(Some(value)) => (Arc::unwrap_or_clone(value), true),
            value => (value, false),
        };
        let found = super::limited(self.resolve_key(&value, &last.key))?;
        // A test within an optional is charged only if it finds something.
        if !lenient || matches!(found, Ok(Some(_))) {
            self.charge(crate::cost::SELECT)?;
        }
        found.map(|found| found.is_some())
    }
}

/// The default of an unset field of an object literal: strings are empty.
#[cold]
fn unset<'a>(value: &Value<'a>, key: &QualifierKey) -> Option<Value<'a>> {
    match (value, key) {
        (Value::Object(Object::Shared(..)), QualifierKey::Field(_, _, shape))
            if shape.kind == ShapeKind::String =>
        {
            Some("".into())
        }
        _ => None,
    }
}

/// The index that a key represents; `None` if it is negative.
fn index_of(key: &Value<'_>) -> Result<Option<usize>, EvalError> {
    let unsupported = || EvalError::Failed(format!("unsupported index value {key} in list"));
    let index = match key {
        Value::Int(index) => *index,
        Value::Double(double) => number::double_to_int_exactly(*double).ok_or_else(unsupported)?,
        Value::Uint(index) => i64::try_from(*index).map_err(|_| unsupported())?,
        _ => return Err(EvalError::Failed(format!("unsupported index type '{}' in list", key.type_name()))),
    };
    Ok(usize::try_from(index).ok())
}

/// Checks that a value can be a key or an index.
pub(crate) fn check_key(key: &Value<'_>) -> Result<(), EvalError> {
    let name = match key {
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_) => {
            return Ok(());
        }
        Value::Null => "types.Null",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::List(_) => "*types.baseList",
        Value::Map(_) | Value::Object(_) => "*types.baseMap",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        Value::Opaque(_) => "ref.Val",
    };
    Err(EvalError::Failed(format!("invalid qualifier type: {name}")))
}
