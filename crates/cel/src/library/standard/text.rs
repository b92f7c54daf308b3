//! `contains`, `endsWith`, `startsWith`, `matches`.

use crate::decl::{Function, Overload, Prepared};
use crate::regexp;
use crate::types::Type;
use crate::value::{EvalError, Value};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Function> {
    let texts = || [Type::String, Type::String];
    vec![
        Function::new(
            "contains",
            [Overload::method("contains_string", texts(), Type::Bool, |args| {
                test_texts(args, |text, part| text.contains(part))
            })],
        ),
        Function::new(
            "endsWith",
            [Overload::method("ends_with_string", texts(), Type::Bool, |args| {
                test_texts(args, |text, end| text.ends_with(end))
            })],
        ),
        Function::new(
            "startsWith",
            [Overload::method("starts_with_string", texts(), Type::Bool, |args| {
                test_texts(args, |text, start| text.starts_with(start))
            })],
        ),
        Function::new(
            "matches",
            [
                Overload::function("matches", texts(), Type::Bool, matches).prepared(prepare),
                Overload::method("matches_string", texts(), Type::Bool, matches).prepared(prepare),
            ],
        ),
    ]
}

fn test_texts<'a>(args: &[Value<'a>], test: fn(&str, &str) -> bool) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(test(text.as_str(), part.as_str()))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn matches<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::String(text), Value::String(pattern)] => {
            let regex = regexp::compile(pattern.as_str()).map_err(EvalError::Failed)?;
            Ok(Value::Bool(regex.is_match(text.as_str())))
        }
        [Value::String(_), _] => Err(EvalError::NoSuchOverload),
        _ => Err(EvalError::failed("no such overload: matches")),
    }
}

/// A constant pattern is compiled once.
fn prepare(args: &[Option<Value<'static>>]) -> Option<Prepared> {
    let [_, Some(Value::String(pattern))] = args else { return None };
    let pattern = regexp::Pattern::new(pattern.as_str()).ok()?;
    Some(Arc::new(move |args: &[Value<'_>]| match args.first() {
        Some(Value::String(text)) => {
            let regex = pattern.regex().map_err(EvalError::Failed)?;
            Ok(Value::Bool(regex.is_match(text.as_str())))
        }
        _ => Err(EvalError::NoSuchOverload),
    }))
}
