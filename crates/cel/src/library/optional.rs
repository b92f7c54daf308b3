//! cel-go's optional values: their functions, and the overloads of the operators that take them.

use super::Library;
use super::operand::{Outcome, elements, list, value};
use crate::ast::operators;
use crate::decl::{Function, Overload, Run};
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
    let any = Type::param("V");
    let optional = Type::optional(any.clone());
    vec![
        Function::new(
            "optional.of",
            [Overload::function("optional_of", [any.clone()], optional.clone(), |args| {
                Ok(Value::some(value(args, 0)?.clone()))
            })],
        ),
        Function::new(
            "optional.ofNonZeroValue",
            [Overload::function("optional_ofNonZeroValue", [any.clone()], optional.clone(), |args| {
                let value = value(args, 0)?;
                Ok(if is_zero(value) { Value::Optional(None) } else { Value::some(value.clone()) })
            })],
        ),
        Function::new(
            "optional.none",
            [Overload::function("optional_none", [], optional.clone(), |_| Ok(Value::Optional(None)))],
        ),
        Function::new(
            "value",
            [Overload::method("optional_value", [optional.clone()], any.clone(), |args| {
                match value(args, 0)? {
                    Value::Optional(Some(value)) => Ok(Value::clone(value)),
                    Value::Optional(None) => Err(EvalError::Failed("optional.none() dereference".into())),
                    _ => Err(EvalError::NoSuchOverload),
                }
            })],
        ),
        Function::new(
            "hasValue",
            [Overload::method("optional_hasValue", [optional.clone()], Type::Bool, |args| {
                match value(args, 0)? {
                    Value::Optional(value) => Ok(Value::Bool(value.is_some())),
                    _ => Err(EvalError::NoSuchOverload),
                }
            })],
        ),
        // The evaluator evaluates the alternative of these two only if it is needed.
        Function::new(
            "or",
            [Overload::method(
                "optional_or_optional",
                [optional.clone(), optional.clone()],
                optional.clone(),
                or,
            )],
        ),
        Function::new(
            "orValue",
            [Overload::method("optional_orValue_value", [optional, any.clone()], any, or_value)],
        ),
    ]
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
    let (key, any) = (Type::param("K"), Type::param("V"));
    let (list, map) = (Type::list(any.clone()), Type::map(key.clone(), any.clone()));
    let optional = Type::optional(any);
    let (maybe_list, maybe_map) = (Type::optional(list.clone()), Type::optional(map.clone()));
    vec![
        Function::new(
            operators::OPT_SELECT,
            [Overload::function(
                "select_optional_field",
                [Type::Dyn, Type::String],
                optional.clone(),
                look_up,
            )],
        ),
        Function::new(
            operators::OPT_INDEX,
            [
                Overload::function(
                    "list_optindex_optional_int",
                    [list, Type::Int],
                    optional.clone(),
                    look_up,
                ),
                Overload::function(
                    "optional_list_optindex_optional_int",
                    [maybe_list.clone(), Type::Int],
                    optional.clone(),
                    look_up,
                ),
                Overload::function(
                    "map_optindex_optional_value",
                    [map, key.clone()],
                    optional.clone(),
                    look_up,
                ),
                Overload::function(
                    "optional_map_optindex_optional_value",
                    [maybe_map.clone(), key.clone()],
                    optional.clone(),
                    look_up,
                ),
            ],
        ),
        Function::new(
            operators::INDEX,
            [
                Overload::function(
                    "optional_list_index_int",
                    [maybe_list, Type::Int],
                    optional.clone(),
                    look_up,
                ),
                Overload::function("optional_map_index_value", [maybe_map, key], optional, look_up),
            ],
        ),
    ]
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
    let any = Type::param("V");
    let (many, optional) = (Type::list(any.clone()), Type::optional(any));
    let optionals = Type::list(optional.clone());
    let end = |name, id, run: Run| {
        Function::new(name, [Overload::method(id, [many.clone()], optional.clone(), run)])
    };
    vec![
        end("last", "list_last", |args| {
            let list = list(args, 0)?;
            let last = list.len().checked_sub(1).and_then(|index| list.get(index)).transpose()?;
            Ok(last.map_or(Value::Optional(None), Value::some))
        }),
        end("first", "list_first", |args| {
            Ok(list(args, 0)?.get(0).transpose()?.map_or(Value::Optional(None), Value::some))
        }),
        Function::new(
            "optional.unwrap",
            [Overload::function("optional_unwrap", [optionals.clone()], many.clone(), unwrap)],
        ),
        Function::new(
            "unwrapOpt",
            [Overload::method("optional_unwrapOpt", [optionals], many.clone(), unwrap)],
        ),
    ]
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
