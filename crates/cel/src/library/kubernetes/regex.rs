//! `find` and `findAll`: the parts of a text that match a pattern.

use crate::decl::{Function, Overload};
use crate::library::Library;
use crate::library::operand::{Outcome, int_operand, part, string_operand, text};
use crate::library::regex::prepared;
use crate::regexp::{self, Regex};
use crate::types::Type;
use crate::value::{EvalError, Value};
use std::sync::Arc;

/// `find` and `findAll`.
pub fn library() -> Library {
    let two = [Type::String, Type::String];
    let three = [Type::String, Type::String, Type::Int];
    let texts = Type::list(Type::String);
    Library {
        functions: vec![
            Function::new(
                "find",
                [Overload::method("string_find_string", two.clone(), Type::String, |args| {
                    find(args, &*compiled(args)?)
                })
                .prepared(|args| prepared(args, compiled, find))],
            ),
            Function::new(
                "findAll",
                [
                    Overload::method("string_find_all_string", two, texts.clone(), |args| {
                        find_all(args, &*compiled(args)?)
                    })
                    .prepared(|args| prepared(args, compiled, find_all)),
                    Overload::method("string_find_all_string_int", three, texts, |args| {
                        find_all(args, &*compiled(args)?)
                    })
                    .prepared(|args| prepared(args, compiled, find_all)),
                ],
            ),
        ],
        ..Library::default()
    }
}

fn compiled(args: &[Value<'_>]) -> Result<Arc<Regex>, EvalError> {
    regexp::compile(text(args, 1)?).map_err(|error| EvalError::Failed(format!("Illegal regex: {error}")))
}

fn find<'a>(args: &[Value<'a>], regex: &Regex) -> Outcome<'a> {
    let whole = string_operand(args, 0)?;
    let found = regex.find(whole.as_str()).unwrap_or(0..0);
    Ok(part(whole, found))
}

/// All matches, or as many as the third argument allows; a negative one allows all.
fn find_all<'a>(args: &[Value<'a>], regex: &Regex) -> Outcome<'a> {
    let whole = string_operand(args, 0)?;
    let most = if args.len() > 2 { int_operand(args, 2)? } else { -1 };
    let found = regex.captures_iter(whole.as_str()).take(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(Value::list(found.map(|found| part(whole, found.whole())).collect()))
}
