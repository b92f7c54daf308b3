//! `contains`, `endsWith`, `startsWith`, `matches`.

use crate::decl::{Function, Prepared, declare};
use crate::regexp;
use crate::value::{EvalError, Value};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Function> {
    let mut functions = declare(
        &[],
        &[
            ("contains", "contains_string", "string.(string) -> bool", |args| {
                test_texts(args, |text, part| text.contains(part))
            }),
            ("endsWith", "ends_with_string", "string.(string) -> bool", |args| {
                test_texts(args, |text, end| text.ends_with(end))
            }),
            ("startsWith", "starts_with_string", "string.(string) -> bool", |args| {
                test_texts(args, |text, start| text.starts_with(start))
            }),
            ("matches", "matches", "(string, string) -> bool", matches),
            ("matches", "matches_string", "string.(string) -> bool", matches),
        ],
    );
    for overload in functions.iter_mut().flat_map(|function| &mut function.overloads) {
        if overload.id.starts_with("matches") {
            overload.prepare = Some(prepare);
        }
    }
    functions
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
