//! cel-go's `ext.Strings`. Positions count code points.

use std::sync::Arc;

use super::operand::{Outcome, elements, int_operand, part, string_operand, text};
use super::{Library, string_format};
use crate::decl::{Function, Run, declare};
use crate::value::{EvalError, Text, Value};

/// The longest result of one call in bytes. Go would continue until its memory is exhausted.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// The library as of `version`: 1 has `format` and `quote`, 2 a `join` that reads lists lazily, 3 `reverse`, 4 a `format`
/// without a locale. Kubernetes uses version 2.
pub fn library(version: u32) -> Library {
    let mut functions = first_version();
    let mut library = Library::default();
    if version >= 1 {
        let formats = if version >= 4 { string_format::plain } else { string_format::localized };
        functions.extend(declare(
            &[],
            &[
                ("format", "string_format", "string.(list(dyn)) -> string", formats),
                ("strings.quote", "strings_quote", "(string) -> string", |args| {
                    Ok(quoted(text(args, 0)?).into())
                }),
            ],
        ));
        library.validators.push(if version >= 4 {
            string_format::validate_plain
        } else {
            string_format::validate_localized
        });
        library.mixed_arguments.push("format");
    }
    if version >= 3 {
        let reverse: Run = |args| Ok(text(args, 0)?.chars().rev().collect::<String>().into());
        functions.extend(declare(&[], &[("reverse", "string_reverse", "string.() -> string", reverse)]));
    }
    Library { functions, ..library }
}

/// The newest version, corrected where cel-go deviates from the specification: searching from beyond the end of a string
/// is an error.
pub fn specified() -> Library {
    let mut library = library(u32::MAX);
    library.functions.extend(declare(
        &[],
        &[
            ("indexOf", "string_index_of_string_int", "string.(string, int) -> int", |args| {
                index_of(within(args)?)
            }),
            ("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) -> int", |args| {
                last_index_of(within(args)?)
            }),
        ],
    ));
    library
}

/// The arguments, if the offset is within the string.
fn within<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v [Value<'a>], EvalError> {
    let (whole, wanted, offset) = (text(args, 0)?, text(args, 1)?, int_operand(args, 2)?);
    if !wanted.is_empty() && offset >= code_points(whole) {
        return Err(out_of_range(offset));
    }
    Ok(args)
}

fn first_version() -> Vec<Function> {
    declare(
        &[],
        &[
            ("charAt", "string_char_at_int", "string.(int) -> string", char_at),
            ("indexOf", "string_index_of_string", "string.(string) -> int", index_of),
            ("indexOf", "string_index_of_string_int", "string.(string, int) -> int", index_of),
            ("lastIndexOf", "string_last_index_of_string", "string.(string) -> int", last_index_of),
            ("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) -> int", last_index_of),
            ("lowerAscii", "string_lower_ascii", "string.() -> string", lower),
            ("upperAscii", "string_upper_ascii", "string.() -> string", upper),
            ("replace", "string_replace_string_string", "string.(string, string) -> string", replace),
            (
                "replace",
                "string_replace_string_string_int",
                "string.(string, string, int) -> string",
                replace,
            ),
            ("split", "string_split_string", "string.(string) -> list(string)", split),
            ("split", "string_split_string_int", "string.(string, int) -> list(string)", split),
            ("substring", "string_substring_int", "string.(int) -> string", substring),
            ("substring", "string_substring_int_int", "string.(int, int) -> string", substring),
            ("trim", "string_trim", "string.() -> string", trim),
            ("join", "list_join", "list(string).() -> string", join),
            ("join", "list_join_string", "list(string).(string) -> string", join),
        ],
    )
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::Failed(format!("index out of range: {index}"))
}

/// The byte position of the code point `index`; the end for the index after the last.
fn byte_at(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn code_points(text: &str) -> i64 {
    if text.is_ascii() { text.len() as i64 } else { text.chars().count() as i64 }
}

fn char_at<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (whole, index) = (string_operand(args, 0)?, int_operand(args, 1)?);
    let start = byte_at(whole.as_str(), index).ok_or_else(|| out_of_range(index))?;
    let width = whole.as_str().get(start..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    Ok(part(whole, start..start.saturating_add(width)))
}

fn index_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (whole, wanted) = (text(args, 0)?, text(args, 1)?);
    let offset = if args.len() > 2 { int_operand(args, 2)? } else { 0 };
    if wanted.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let found = byte_at(whole, offset).and_then(|start| {
        let at = start.saturating_add(whole.get(start..)?.find(wanted)?);
        whole.get(..at).map(code_points)
    });
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn last_index_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (whole, wanted) = (text(args, 0)?, text(args, 1)?);
    let length = code_points(whole);
    let offset = match args.len() {
        2 if wanted.is_empty() => return Ok(Value::Int(length)),
        2 if whole.len() < wanted.len() => return Ok(Value::Int(-1)),
        2 => length.saturating_sub(1),
        _ => int_operand(args, 2)?,
    };
    if wanted.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    if offset >= length {
        return Ok(Value::Int(-1));
    }
    // A match must begin at the offset or before, and may extend beyond it.
    let end = byte_at(whole, offset).unwrap_or(whole.len()).saturating_add(wanted.len()).min(whole.len());
    let searched = whole.as_bytes().get(..end).unwrap_or_default();
    let found = searched.windows(wanted.len()).rposition(|window| window == wanted.as_bytes());
    Ok(Value::Int(found.and_then(|at| whole.get(..at)).map_or(-1, code_points)))
}

fn lower<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(text(args, 0)?.to_ascii_lowercase().into())
}

fn upper<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(text(args, 0)?.to_ascii_uppercase().into())
}

fn replace<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (whole, old, new) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
    let most = if args.len() > 3 { int_operand(args, 3)? } else { -1 };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let times =
        if old.is_empty() { whole.chars().count().saturating_add(1) } else { whole.matches(old).count() };
    let grown = times.min(most).saturating_mul(new.len()).saturating_add(whole.len());
    if grown > TEXT_BYTES_MAX {
        return Err(too_large());
    }
    Ok(whole.replacen(old, new, most).into())
}

fn too_large() -> EvalError {
    EvalError::Failed(format!("text of more than {TEXT_BYTES_MAX} bytes"))
}

fn split<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (whole, separator) = (string_operand(args, 0)?, text(args, 1)?);
    let most = if args.len() > 2 { int_operand(args, 2)? } else { -1 };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let all = whole.as_str();
    let mut start = 0;
    while parts.len().saturating_add(1) < most {
        let rest = all.get(start..).unwrap_or("");
        // An empty separator matches after every code point but the last.
        let found = match separator {
            "" => rest.chars().next().map(char::len_utf8).filter(|width| *width < rest.len()),
            separator => rest.find(separator),
        };
        let Some(length) = found else { break };
        parts.push(part(whole, start..start.saturating_add(length)));
        start = start.saturating_add(length).saturating_add(separator.len());
    }
    let keeps_rest = most > 0 && !(separator.is_empty() && all.is_empty());
    parts.extend(keeps_rest.then(|| part(whole, start..all.len())));
    Ok(Value::list(parts))
}

fn substring<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (whole, start) = (string_operand(args, 0)?, int_operand(args, 1)?);
    let all = whole.as_str();
    let Some(Value::Int(end)) = args.get(2) else {
        let from = byte_at(all, start).ok_or_else(|| out_of_range(start))?;
        return Ok(part(whole, from..all.len()));
    };
    if start > *end {
        return Err(EvalError::Failed(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_at(all, start).ok_or_else(|| out_of_range(start))?;
    let to = byte_at(all, *end).ok_or_else(|| out_of_range(*end))?;
    Ok(part(whole, from..to))
}

fn trim<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let whole = string_operand(args, 0)?;
    let start = whole.as_str().len().saturating_sub(whole.as_str().trim_start().len());
    let length = whole.as_str().trim().len();
    Ok(part(whole, start..start.saturating_add(length)))
}

fn join<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let parts = elements(args, 0)?;
    let separator = if args.len() > 1 { text(args, 1)? } else { "" };
    let mut joined = String::new();
    for (i, element) in parts.iter().enumerate() {
        let Value::String(element) = element else {
            return Err(EvalError::Failed(format!("join: invalid input: {element}")));
        };
        if i > 0 {
            joined.push_str(separator);
        }
        joined.push_str(element.as_str());
        if joined.len() > TEXT_BYTES_MAX {
            return Err(too_large());
        }
    }
    Ok(Value::String(Text::Shared(Arc::from(joined))))
}

/// The text as a literal of the language.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len().saturating_add(2));
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
