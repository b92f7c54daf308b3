//! `text.format(args)`: the clauses of a format, the formatting of values, and the validation of constant formats.
//!
//! cel-go has two dialects: up to version 3 of the strings library, numbers are formatted for en-US; from version 4 on,
//! plainly. Kubernetes uses the former.

mod render;
mod validate;

use pintle_value::quote::go_quoted;

use super::operand::{Outcome, elements, text};
use crate::value::{EvalError, Value};

pub(super) use validate::{validate_localized, validate_plain};

/// The largest precision of a number in Go.
const PRECISION_MAX: usize = 1_000_000;
/// The default precision of a clause.
const DEFAULT_PRECISION: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Localized,
    Plain,
}

/// The part of a format after a percent sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clause {
    String,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex { upper: bool },
    Octal,
}

/// `format` of version 4.
pub(super) fn plain<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    run(args, Dialect::Plain)
}

/// `format` of versions 1 to 3.
pub(super) fn localized<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    run(args, Dialect::Localized)
}

fn run<'a>(args: &[Value<'a>], dialect: Dialect) -> Outcome<'a> {
    let (format, values) = (text(args, 0)?, elements(args, 1)?);
    let written = interpolate(format, values.len(), true, |clause, index| match values.get(index) {
        Some(value) => render::render(clause, value, dialect),
        None => Err(out_of_range(index)),
    });
    written.map(Value::from).map_err(EvalError::Failed)
}

fn out_of_range(index: usize) -> String {
    format!("index {index} out of range")
}

/// Processes a format. `write` returns the text of each clause, given the index of its argument. The number of arguments
/// is checked before the clause, or after its first character.
fn interpolate<E: From<String>>(
    format: &str,
    size: usize,
    size_first: bool,
    mut write: impl FnMut(Clause, usize) -> Result<String, E>,
) -> Result<String, E> {
    let mut out = String::with_capacity(format.len());
    let mut index = 0;
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(rest.get(..at).unwrap_or(""));
        rest = rest.get(at.saturating_add(1)..).unwrap_or("");
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        if size_first && index >= size {
            return Err(out_of_range(index).into());
        }
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned().into());
        }
        if index >= size {
            return Err(out_of_range(index).into());
        }
        let (clause, after) =
            parse_clause(rest).map_err(|error| format!("could not parse formatting clause: {error}"))?;
        out.push_str(&write(clause, index)?);
        rest = after;
        index = index.saturating_add(1);
    }
    out.push_str(rest);
    Ok(out)
}

/// Parses a clause; also returns the rest.
fn parse_clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, rest) =
        parse_precision(text).map_err(|error| format!("error while parsing precision: {error}"))?;
    let clause = match rest.as_bytes().first() {
        Some(b's') => Clause::String,
        Some(b'd') => Clause::Decimal,
        Some(b'f') => Clause::Fixed(precision),
        Some(b'e') => Clause::Scientific(precision),
        Some(b'b') => Clause::Binary,
        Some(b'x') => Clause::Hex { upper: false },
        Some(b'X') => Clause::Hex { upper: true },
        Some(b'o') => Clause::Octal,
        // Go interprets the first byte as a character.
        Some(byte) => return Err(format!("unrecognized formatting clause \"{}\"", char::from(*byte))),
        None => return Err("could not find end of precision specifier".into()),
    };
    Ok((clause, rest.get(1..).unwrap_or("")))
}

fn parse_precision(text: &str) -> Result<(usize, &str), String> {
    let Some(digits) = text.strip_prefix('.') else {
        return Ok((DEFAULT_PRECISION, text));
    };
    let end = digits
        .bytes()
        .position(|b| !b.is_ascii_digit())
        .ok_or("could not find end of precision specifier")?;
    let (digits, rest) = digits.split_at(end);
    let what = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
    let precision: i64 = digits.parse().map_err(|_| {
        format!(
            "error while converting precision to integer: strconv.Atoi: parsing {}: {what}",
            go_quoted(digits)
        )
    })?;
    match usize::try_from(precision) {
        Ok(precision) if precision <= PRECISION_MAX => Ok((precision, rest)),
        _ => Err(format!("precision of more than {PRECISION_MAX}")),
    }
}
