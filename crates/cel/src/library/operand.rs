//! Accessors of arguments for libraries: an argument of another type means that no overload accepts the call.

use std::any::Any;
use std::ops::Range;

use crate::value::{EvalError, List, Opaque, Text, Value};

/// The result of a call.
pub(crate) type Outcome<'a> = Result<Value<'a>, EvalError>;

pub(crate) fn value<'v, 'a>(args: &'v [Value<'a>], index: usize) -> Result<&'v Value<'a>, EvalError> {
    args.get(index).ok_or(EvalError::NoSuchOverload)
}

pub(crate) fn string_operand<'v, 'a>(args: &'v [Value<'a>], index: usize) -> Result<&'v Text<'a>, EvalError> {
    match args.get(index) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(crate) fn text<'v>(args: &'v [Value<'_>], index: usize) -> Result<&'v str, EvalError> {
    string_operand(args, index).map(Text::as_str)
}

pub(crate) fn int_operand(args: &[Value<'_>], index: usize) -> Result<i64, EvalError> {
    match args.get(index) {
        Some(Value::Int(int)) => Ok(*int),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(crate) fn bool_operand(args: &[Value<'_>], index: usize) -> Result<bool, EvalError> {
    match args.get(index) {
        Some(Value::Bool(value)) => Ok(*value),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(crate) fn double_operand(args: &[Value<'_>], index: usize) -> Result<f64, EvalError> {
    match args.get(index) {
        Some(Value::Double(double)) => Ok(*double),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(crate) fn list<'v, 'a>(args: &'v [Value<'a>], index: usize) -> Result<&'v List<'a>, EvalError> {
    match args.get(index) {
        Some(Value::List(list)) => Ok(list),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// The elements of a list.
pub(crate) fn elements<'a>(args: &[Value<'a>], index: usize) -> Result<Vec<Value<'a>>, EvalError> {
    list(args, index)?.iter().collect()
}

/// A library's own type.
pub(crate) fn opaque<'v, T: Opaque>(args: &'v [Value<'_>], index: usize) -> Result<&'v T, EvalError> {
    args.get(index).and_then(own).ok_or(EvalError::NoSuchOverload)
}

/// The library's own type in a value.
pub(crate) fn own<'v, T: Opaque>(value: &'v Value<'_>) -> Option<&'v T> {
    match value {
        Value::Opaque(opaque) => (&**opaque as &dyn Any).downcast_ref(),
        _ => None,
    }
}

/// A substring: borrowed if the whole is.
pub(crate) fn part<'a>(text: &Text<'a>, part: Range<usize>) -> Value<'a> {
    Value::String(match text {
        Text::Borrowed(text) => Text::Borrowed(text.get(part).unwrap_or("")),
        Text::Shared(text) => Text::Shared(text.get(part).unwrap_or("").into()),
    })
}
