//! cel-go's optional values: their functions, and the overloads of the operators that take them.

use super::Library;
use super::operand::{Outcome, elements, list, value};
use crate::ast::operators;
use crate::decl::{Function, declare};
use crate::parser::macros;
use crate::shape::ShapeKind;
use crate::types::{OPTIONAL, Type};
use crate::value::{EvalError, Map, Object, Value};

/// Optional values with their syntax. Version 1 adds `optFlatMap`, version 2 `first`, `last` and `unwrap`.
pub fn library(version: u32) -> Library {
    let mut functions = basic_functions();
    functions.extend(operators());
    if version >= 2 {
        functions.extend(of_lists());
    }
    Library {
        functions,
        macros: macros::OPTIONAL.to_vec(),
        types: vec![(OPTIONAL, Type::opaque(OPTIONAL))],
        optional_syntax: true,
        ..Library::default()
    }
}

fn basic_functions() -> Vec<Function> {
    declare(
        &[],
        &[
            ("optional.of", "optional_of", "(V) -> optional(V)", |args| {
                Ok(Value::some(value(args, 0)?.clone()))
            }),
            ("optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) -> optional(V)", |args| {
                let value = value(args, 0)?;
                Ok(if is_zero(value) { Value::Optional(None) } else { Value::some(value.clone()) })
            }),
            ("optional.none", "optional_none", "() -> optional(V)", |_| Ok(Value::Optional(None))),
            ("value", "optional_value", "optional(V).() -> V", |args| match value(args, 0)? {
                Value::Optional(Some(value)) => Ok(Value::clone(value)),
                Value::Optional(None) => Err(EvalError::Failed("optional.none() dereference".into())),
                _ => Err(EvalError::NoSuchOverload),
            }),
            ("hasValue", "optional_hasValue", "optional(V).() -> bool", |args| match value(args, 0)? {
                Value::Optional(value) => Ok(Value::Bool(value.is_some())),
                _ => Err(EvalError::NoSuchOverload),
            }),
            // The evaluator evaluates the alternative of these two only if it is needed.
            ("or", "optional_or_optional", "optional(V).(optional(V)) -> optional(V)", or),
            ("orValue", "optional_orValue_value", "optional(V).(V) -> V", or_value),
        ],
    )
}

fn or<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match value(args, 0)? {
        Value::Optional(None) => value(args, 1).cloned(),
        found @ Value::Optional(_) => Ok(found.clone()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn or_value<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match value(args, 0)? {
        Value::Optional(None) => value(args, 1).cloned(),
        Value::Optional(Some(found)) => Ok(Value::clone(found)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// `a.?b`, `a[?b]` and `a[b]` of an optional `a`.
fn operators() -> Vec<Function> {
    use operators::{INDEX, OPT_INDEX, OPT_SELECT};
    declare(
        &[],
        &[
            (OPT_SELECT, "select_optional_field", "(dyn, string) -> optional(V)", look_up),
            (OPT_INDEX, "list_optindex_optional_int", "(list(V), int) -> optional(V)", look_up),
            (
                OPT_INDEX,
                "optional_list_optindex_optional_int",
                "(optional(list(V)), int) -> optional(V)",
                look_up,
            ),
            (OPT_INDEX, "map_optindex_optional_value", "(map(K, V), K) -> optional(V)", look_up),
            (
                OPT_INDEX,
                "optional_map_optindex_optional_value",
                "(optional(map(K, V)), K) -> optional(V)",
                look_up,
            ),
            (INDEX, "optional_list_index_int", "(optional(list(V)), int) -> optional(V)", look_up),
            (INDEX, "optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)", look_up),
        ],
    )
}

/// The value at an index, key or name, if there is one.
fn look_up<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (container, key) = (value(args, 0)?, value(args, 1)?);
    let found = match container {
        Value::Optional(None) => None,
        Value::Optional(Some(inner)) => return look_up(&[Value::clone(inner), key.clone()]),
        Value::List(list) => match key {
            Value::Int(index) => {
                usize::try_from(*index).ok().and_then(|index| list.get(index)).transpose()?
            }
            Value::Uint(index) => {
                usize::try_from(*index).ok().and_then(|index| list.get(index)).transpose()?
            }
            Value::Double(index) if index.fract() == 0.0 && *index >= 0.0 => {
                list.get(*index as usize).transpose()?
            }
            _ => return Err(EvalError::NoSuchOverload),
        },
        Value::Map(map) => map.find(key)?,
        Value::Object(object) => object.get(key.as_str().ok_or(EvalError::NoSuchOverload)?)?,
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(found.map_or(Value::Optional(None), Value::some))
}

/// Whether a value is the zero value of its type. Kubernetes' lists, maps and objects with a schema never are, because
/// they do not implement that interface.
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(int) => *int == 0,
        Value::Uint(uint) => *uint == 0,
        Value::Double(double) => *double == 0.0,
        Value::String(text) => text.as_str().is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Duration(nanos) => *nanos == 0,
        // Go's zero is the first moment of the year 1.
        Value::Timestamp(moment) => moment.seconds == -62_135_596_800 && moment.nanos == 0,
        Value::List(list) if matches!(list.shape().map(|s| &s.kind), Some(ShapeKind::List { .. })) => false,
        Value::List(list) => list.is_empty(),
        Value::Map(Map::Tree(_, shape)) if matches!(shape.kind, ShapeKind::Map { .. }) => false,
        Value::Map(map) => map.is_empty(),
        Value::Object(Object::Shared(_, fields)) => fields.is_empty(),
        Value::Object(Object::Tree(..) | Object::Input(..) | Object::Lazy(..))
        | Value::Type(_)
        | Value::Optional(_)
        | Value::Opaque(_) => false,
    }
}

fn of_lists() -> Vec<Function> {
    declare(
        &[],
        &[
            ("last", "list_last", "list(V).() -> optional(V)", |args| {
                let list = list(args, 0)?;
                let last = list.len().checked_sub(1).and_then(|index| list.get(index)).transpose()?;
                Ok(last.map_or(Value::Optional(None), Value::some))
            }),
            ("first", "list_first", "list(V).() -> optional(V)", |args| {
                Ok(list(args, 0)?.get(0).transpose()?.map_or(Value::Optional(None), Value::some))
            }),
            ("optional.unwrap", "optional_unwrap", "(list(optional(V))) -> list(V)", unwrap),
            ("unwrapOpt", "optional_unwrapOpt", "list(optional(V)).() -> list(V)", unwrap),
        ],
    )
}

fn unwrap<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut found = Vec::new();
    for element in elements(args, 0)? {
        match element {
            Value::Optional(None) => {}
            Value::Optional(Some(value)) => found.push(Value::clone(&value)),
            other => return Err(EvalError::Failed(format!("value {other} is not optional"))),
        }
    }
    Ok(Value::list(found))
}
