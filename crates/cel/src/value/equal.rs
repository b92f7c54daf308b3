//! `==`: across numeric types, and deep comparison of lists, maps and objects.

use std::collections::HashMap;

use super::{EvalError, List, Map, Object, Value};
use crate::shape::{ListKind, Shape, ShapeKind};

impl<'a> Value<'a> {
    /// `self == other`. As in kube-apiserver, values of a tree with a shape return an error for values of another type;
    /// all others are just not equal.
    pub fn equals(&self, other: &Value<'_>) -> Result<bool, EvalError> {
        let equal = match (self, other) {
            (Value::Null, other) => matches!(other, Value::Null),
            (_, Value::Null) => false,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => {
                self.compare_numbers(other).is_some_and(std::cmp::Ordering::is_eq)
            }
            (Value::String(a), Value::String(b)) => a.as_str() == b.as_str(),
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::List(a), Value::List(b)) => return a.equals(b),
            (Value::List(list), _) if list.is_shaped() => return Err(EvalError::NoSuchOverload),
            (Value::Map(a), Value::Map(b)) => return a.equals(b),
            (Value::Map(a), Value::Object(b @ Object::Lazy(..))) => return a.equals_object(b),
            (Value::Map(a), _) if a.is_shaped() => return Err(EvalError::NoSuchOverload),
            (Value::Map(a), Value::Object(b @ Object::Tree(..))) => return a.equals_object(b),
            (Value::Object(a), Value::Object(b)) => return a.equals(b),
            (Value::Object(Object::Tree(ours, shape)), Value::Map(b)) => {
                return object_equals_map(ours, shape, b);
            }
            (Value::Object(Object::Tree(..) | Object::Lazy(..)), _) => return Err(EvalError::NoSuchOverload),
            (Value::Type(a), Value::Type(b)) => a.runtime_name() == b.runtime_name(),
            (Value::Optional(None), Value::Optional(b)) => b.is_none(),
            (Value::Optional(Some(a)), Value::Optional(Some(b))) => return a.equals(b),
            (Value::Opaque(a), b) => return a.equals(b),
            _ => false,
        };
        Ok(equal)
    }

    /// Identifies an element of a set or a keyed list of a tree; `None` for a value that equals nothing.
    pub(super) fn identity(&self, kind: &ListKind) -> Option<String> {
        match (kind, self) {
            (ListKind::KeyedBy(keys), value) => {
                let members = members(value)?;
                Some(format!("{:?}", keys.iter().map(|key| members.get(key)).collect::<Vec<_>>()))
            }
            (_, Value::String(text)) => Some(format!("{:?}", text.as_str())),
            (_, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
                Some(format!("{self:?}"))
            }
            (_, Value::Timestamp(_) | Value::Duration(_) | Value::Bytes(_)) => Some(format!("{self:?}")),
            (_, Value::Map(Map::Tree(map, _)) | Value::Object(Object::Tree(map, _))) => {
                Some(format!("{map:?}"))
            }
            (_, Value::List(List::Tree(elements, _) | List::Set(elements, ..))) => {
                Some(format!("{elements:?}"))
            }
            _ => None,
        }
    }
}

fn members<'v>(value: &'v Value<'_>) -> Option<&'v pintle_value::Map> {
    match value {
        Value::Map(Map::Tree(map, _)) | Value::Object(Object::Tree(map, _)) => Some(map),
        _ => None,
    }
}

impl List<'_> {
    /// Whether the list is part of a tree whose shape is a list.
    fn is_shaped(&self) -> bool {
        self.shape().is_some_and(|shape| matches!(shape.kind, ShapeKind::List { .. }))
    }

    fn equals(&self, other: &List<'_>) -> Result<bool, EvalError> {
        if self.len() != other.len() {
            return Ok(false);
        }
        if !self.is_shaped()
            && !other.is_shaped()
            && let (List::Tree(ours, _), List::Tree(theirs, _)) = (self, other)
            && ours == theirs
        {
            return Ok(true);
        }
        match self.kind() {
            ListKind::Ordered => self.equals_in_order(other),
            ListKind::Set => self.equals_as_set(other),
            ListKind::KeyedBy(_) => self.equals_by_keys(other),
        }
    }

    fn equals_in_order(&self, other: &List<'_>) -> Result<bool, EvalError> {
        let shaped = self.is_shaped();
        for (a, b) in self.iter().zip(other.iter()) {
            match a?.equals(&b?) {
                Ok(true) => {}
                // cel-go's own lists skip elements that cannot be compared; Kubernetes' do not.
                Err(_) if !shaped => {}
                unequal => return unequal,
            }
        }
        Ok(true)
    }

    fn equals_as_set(&self, other: &List<'_>) -> Result<bool, EvalError> {
        let others: Vec<_> =
            other.iter().map(|v| v.map(|v| v.identity(&ListKind::Set))).collect::<Result<_, _>>()?;
        self.known(|known| {
            others.iter().all(|identity| identity.as_ref().is_some_and(|identity| known.contains(identity)))
        })
    }

    fn equals_by_keys(&self, other: &List<'_>) -> Result<bool, EvalError> {
        let known: Vec<_> = self.iter().collect::<Result<_, _>>()?;
        let by_key: HashMap<String, &Value<'_>> =
            known.iter().filter_map(|value| Some((value.identity(self.kind())?, value))).collect();
        for element in other.iter() {
            let element = element?;
            let same = element.identity(self.kind()).and_then(|key| by_key.get(&key).copied());
            match same.map(|known| known.equals(&element)) {
                Some(Ok(true)) => {}
                None => return Ok(false),
                Some(unequal) => return unequal,
            }
        }
        Ok(true)
    }
}

impl Map<'_> {
    /// Whether the map is part of a tree whose shape is a map.
    fn is_shaped(&self) -> bool {
        matches!(self, Map::Tree(_, shape) if matches!(shape.kind, ShapeKind::Map { .. }))
    }

    fn equals(&self, other: &Map<'_>) -> Result<bool, EvalError> {
        if self.len() != other.len() {
            return Ok(false);
        }
        let shaped = self.is_shaped();
        if !shaped
            && !other.is_shaped()
            && let (Map::Tree(ours, _), Map::Tree(theirs, _)) = (self, other)
            && ours == theirs
        {
            return Ok(true);
        }
        for (key, value) in self.entries() {
            let Some(theirs) = other.find(&key)? else { return Ok(false) };
            match value?.equals(&theirs) {
                Ok(true) => {}
                Err(_) if !shaped => {}
                unequal => return unequal,
            }
        }
        Ok(true)
    }

    /// `map == object`. In this order, cel-go compares the entries, and unescapes a key to find it. The object is a lazy one, or
    /// the map has no shape: the optional `oldSelf` of a rule is such a map.
    fn equals_object(&self, object: &Object<'_>) -> Result<bool, EvalError> {
        if self.len() != object.len() {
            return Ok(false);
        }
        for (key, value) in self.entries() {
            let Value::String(key) = key else { return Ok(false) };
            let theirs = match object {
                Object::Tree(..) => object.member(key.as_str())?,
                _ => object.get(key.as_str())?,
            };
            let Some(theirs) = theirs else { return Ok(false) };
            // As between maps, values that cannot be compared do not make them unequal.
            if let Ok(false) = value?.equals(&theirs) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// `object == map`, where the object has the members `ours`.
fn object_equals_map(ours: &pintle_value::Map, shape: &Shape, map: &Map<'_>) -> Result<bool, EvalError> {
    if ours.len() != map.len() {
        return Ok(false);
    }
    let ShapeKind::Object(declared) = &shape.kind else { return Err(EvalError::NoSuchOverload) };
    for field in declared.fields.values().filter(|field| ours.get(&field.json).is_some()) {
        let a = Object::read_field(ours, &field.json, &field.shape)?;
        let b = map.find(&Value::from(&*field.json))?;
        match (a, b) {
            (None, None) => {}
            (Some(a), Some(b)) => match a.equals(&b) {
                Ok(true) => {}
                unequal => return unequal,
            },
            _ => return Ok(false),
        }
    }
    // Members without a declared field can only be compared with another object.
    if ours.iter().any(|(key, _)| !declared.has_member(key)) {
        return Err(EvalError::NoSuchOverload);
    }
    Ok(true)
}

impl Object<'_> {
    fn equals(&self, other: &Object<'_>) -> Result<bool, EvalError> {
        match (self, other) {
            (Object::Tree(ours, shape), Object::Tree(theirs, _)) => {
                if ours.len() != theirs.len() {
                    return Ok(false);
                }
                // Equal trees are compared, too, because members that do not match their shape are errors.
                let ShapeKind::Object(declared) = &shape.kind else { return Ok(ours == theirs) };
                for field in declared.fields.values().filter(|field| ours.get(&field.json).is_some()) {
                    let a = Object::read_field(ours, &field.json, &field.shape)?;
                    let b = Object::read_field(theirs, &field.json, &field.shape)?;
                    match (a, b) {
                        (None, None) => {}
                        (Some(a), Some(b)) => match a.equals(&b) {
                            Ok(true) => {}
                            unequal => return unequal,
                        },
                        _ => return Ok(false),
                    }
                }
                // Members without a declared field are compared as trees, and only if both objects have them.
                let undeclared = ours.iter().filter(|(key, _)| !declared.has_member(key));
                Ok(undeclared
                    .into_iter()
                    .all(|(key, value)| theirs.get(key).is_none_or(|theirs| theirs == value)))
            }
            (Object::Shared(name, ours), Object::Shared(their_name, theirs)) => {
                if name != their_name || ours.len() != theirs.len() {
                    return Ok(false);
                }
                for (key, value) in ours.iter() {
                    let Some((_, theirs)) = theirs.iter().find(|(name, _)| name == key) else {
                        return Ok(false);
                    };
                    if !value.equals(theirs)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Object::Input(name, _), Object::Input(other, _)) => Ok(name == other),
            (Object::Lazy(ours, _), Object::Lazy(theirs, _)) => Ok(std::ptr::eq(*ours, *theirs)),
            _ => Err(EvalError::NoSuchOverload),
        }
    }
}
