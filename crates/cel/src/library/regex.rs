//! cel-go's `ext.Regex`: extracts and replaces matches.

use std::sync::Arc;

use pintle_value::quote::go_quoted;

use super::Library;
use super::operand::{Outcome, int_operand, part, string_operand, text};
use crate::decl::{Function, Overload, Prepared};
use crate::regexp::{self, Captures, Pattern, Regex};
use crate::types::Type;
use crate::value::{EvalError, Value};

/// The longest result of replacements: each may be longer than the text that it replaces.
const REPLACED_BYTES_MAX: usize = 16 << 20;

/// `regex.extract`, `regex.extractAll` and `regex.replace`. Needs optional values.
pub fn library() -> Library {
    let text = Type::String;
    let two = [text.clone(), text.clone()];
    let replace_params = [text.clone(), text.clone(), text.clone()];
    let replace_n_params = [text.clone(), text.clone(), text.clone(), Type::Int];
    Library {
        functions: vec![
            Function::new(
                "regex.extract",
                [Overload::function(
                    "regex_extract_string_string",
                    two.clone(),
                    Type::optional(text.clone()),
                    |args| extract(args, &*one_group(args)?),
                )
                .prepared(|args| prepared(args, one_group, extract))],
            ),
            Function::new(
                "regex.extractAll",
                [Overload::function(
                    "regex_extractAll_string_string",
                    two,
                    Type::list(text.clone()),
                    |args| extract_all(args, &*one_group(args)?),
                )
                .prepared(|args| prepared(args, one_group, extract_all))],
            ),
            Function::new(
                "regex.replace",
                [
                    Overload::function(
                        "regex_replace_string_string_string",
                        replace_params,
                        text.clone(),
                        |args| replace(args, any_groups),
                    ),
                    Overload::function(
                        "regex_replace_string_string_string_int",
                        replace_n_params,
                        text,
                        |args| replace(args, any_groups),
                    ),
                ],
            ),
        ],
        ..Library::default()
    }
}

/// A call whose constant pattern, the second argument, is compiled once.
pub(super) fn prepared(
    args: &[Option<Value<'static>>],
    compile: fn(&[Value<'_>]) -> Result<Arc<Regex>, EvalError>,
    run: for<'a> fn(&[Value<'a>], &Regex) -> Outcome<'a>,
) -> Option<Prepared> {
    let pattern = args.get(1)?.clone()?;
    compile(&[Value::Null, pattern.clone()]).ok()?;
    let Value::String(pattern) = pattern else { return None };
    let pattern = Pattern::new(pattern.as_str()).ok()?;
    Some(Arc::new(move |args| run(args, &*pattern.regex().map_err(EvalError::Failed)?)))
}

fn any_groups(args: &[Value<'_>]) -> Result<Arc<Regex>, EvalError> {
    regexp::compile(text(args, 1)?).map_err(EvalError::Failed)
}

/// Compiles the pattern, which may have at most one group.
fn one_group(args: &[Value<'_>]) -> Result<Arc<Regex>, EvalError> {
    let pattern = text(args, 1)?;
    let regex = regexp::compile(pattern)
        .map_err(|error| EvalError::Failed(format!("given regex is invalid: {error}")))?;
    if regex.groups() > 1 {
        let pattern = go_quoted(pattern);
        return Err(EvalError::Failed(format!(
            "regular expression has more than one capturing group: {pattern}"
        )));
    }
    Ok(regex)
}

/// The text of the group, or of the whole match if there is no group; `None` for an empty group.
fn captured<'a>(
    args: &[Value<'a>],
    regex: &Regex,
    captures: &Captures,
) -> Result<Option<Value<'a>>, EvalError> {
    let whole = string_operand(args, 0)?;
    let found = match regex.groups() {
        0 => captures.get(0),
        _ => captures.get(1).filter(|group| !group.is_empty()),
    };
    Ok(found.map(|found| part(whole, found)))
}

fn extract<'a>(args: &[Value<'a>], regex: &Regex) -> Outcome<'a> {
    let Some(captures) = regex.captures(text(args, 0)?) else {
        return Ok(Value::Optional(None));
    };
    Ok(captured(args, regex, &captures)?.map_or(Value::Optional(None), Value::some))
}

fn extract_all<'a>(args: &[Value<'a>], regex: &Regex) -> Outcome<'a> {
    let mut found = Vec::new();
    for captures in regex.captures_iter(text(args, 0)?) {
        found.extend(captured(args, regex, &captures)?);
    }
    Ok(Value::list(found))
}

fn replace<'a>(
    args: &[Value<'a>],
    compile: fn(&[Value<'_>]) -> Result<Arc<Regex>, EvalError>,
) -> Outcome<'a> {
    let (whole, replacement) = (text(args, 0)?, text(args, 2)?);
    let most = if args.len() > 3 { int_operand(args, 3)? } else { -1 };
    if most == 0 {
        return Ok(args.first().cloned().unwrap_or(Value::Null));
    }
    if most > i64::from(i32::MAX) {
        return Err(EvalError::Failed("integer overflow".into()));
    }
    let regex = compile(args)?;
    let mut out = String::with_capacity(whole.len());
    let mut end = 0;
    for captures in regex.captures_iter(whole).take(usize::try_from(most).unwrap_or(usize::MAX)) {
        let found = captures.whole();
        out.push_str(whole.get(end..found.start).unwrap_or(""));
        push_replacement(replacement, whole, &regex, &captures, &mut out)?;
        if out.len() > REPLACED_BYTES_MAX {
            return Err(EvalError::Failed("replaced text is too long".into()));
        }
        end = found.end;
    }
    out.push_str(whole.get(end..).unwrap_or(""));
    Ok(out.into())
}

/// Appends a replacement: `\1` refers to a group, `\\` is a backslash.
fn push_replacement(
    replacement: &str,
    whole: &str,
    regex: &Regex,
    captures: &Captures,
    out: &mut String,
) -> Result<(), EvalError> {
    let mut rest = replacement.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let invalid =
            |why| Err(EvalError::Failed(format!("invalid replacement string: '{replacement}' \\ {why}")));
        let group = match rest.next() {
            Some('\\') => {
                out.push('\\');
                continue;
            }
            Some(c) => c.to_digit(10),
            None => return invalid("not allowed at end"),
        };
        let Some(group) = group.map(|group| group as usize) else {
            return invalid("must be followed by a digit or \\");
        };
        if group > regex.groups() {
            return Err(EvalError::Failed(format!(
                "replacement string references group {group} but regex has only {} group(s)",
                regex.groups()
            )));
        }
        out.push_str(captures.get(group).and_then(|found| whole.get(found)).unwrap_or(""));
    }
    Ok(())
}
