//! Bounds, factors and ranges of numbers.

use super::validate::Outcome;
use crate::Checks;
use pintle_meta::field::{ErrorText, Plain};
use pintle_value::quote::go_general;
use pintle_value::{Path, Value};
use std::cmp::Ordering;

/// The largest float that counts as an integer.
const INTEGER_MAX: f64 = 9_007_199_254_740_991.0;
/// The relative tolerance within which a float counts as an integer.
const CLOSE: f64 = 1e-9;

/// Validates a number.
pub(super) fn check(
    type_name: &str,
    format: &str,
    checks: &Checks,
    value: &Value,
    path: &Path<'_>,
) -> Outcome {
    let mut out = Outcome::default();
    let kind = Kind::of(type_name, format);
    #[expect(clippy::cast_precision_loss, reason = "bounds are float64 in Go too")]
    let (number, whole) = match value {
        Value::Int(i) => (*i as f64, Some(*i)),
        Value::Float(f) => (*f, None),
        _ => return out,
    };
    kind.check_range(number, whole, "Checked", path, &mut out);
    if let Some(factor) = checks.multiple_of {
        let fine = kind.check_range(factor, None, "MultipleOf", path, &mut out);
        let whole = whole.filter(|_| fine);
        let factor_number = comparable_constraint(factor, whole);
        if factor_number.not_positive() {
            let factor = factor_number.error_text();
            let why = format!("factor MultipleOf declared for {path} must be positive: {factor}");
            out.errors.invalid(path, Plain(&factor), &why);
        } else if !is_multiple(number, whole, factor) {
            let why = format!("{path} in body should be a multiple of {}", factor_number.error_text());
            out.errors.invalid(path, comparable_value(number, whole), &why);
        }
    }
    let bounds = [
        (checks.minimum, checks.exclusive_minimum, "Minimum boundary", "greater than"),
        (checks.maximum, checks.exclusive_maximum, "Maximum boundary", "less than"),
    ];
    for (bound, exclusive, prefix, words) in bounds {
        let Some(bound) = bound else { continue };
        let fine = kind.check_range(bound, None, prefix, path, &mut out);
        let whole = whole.filter(|_| fine);
        let bound_number = comparable_constraint(bound, whole);
        let order = match (whole, &bound_number) {
            (Some(whole), Number::Whole(bound)) => Some(whole.cmp(bound)),
            _ => number.partial_cmp(&bound),
        };
        let outer = if words == "less than" { Ordering::Greater } else { Ordering::Less };
        if order.is_some_and(|order| order == outer || (exclusive && order == Ordering::Equal)) {
            let equal = if exclusive { "" } else { " or equal to" };
            let why = format!("{path} in body should be {words}{equal} {}", bound_number.error_text());
            out.errors.invalid(path, comparable_value(number, whole), &why);
        }
    }
    out.matches = out.matches.saturating_add(1);
    out
}

/// A number as Go compares and prints it: an integer if both the value and the constraint are integers.
enum Number {
    Whole(i64),
    Float(f64),
}

impl Number {
    fn not_positive(&self) -> bool {
        match self {
            Number::Whole(whole) => *whole <= 0,
            Number::Float(float) => *float <= 0.0,
        }
    }
}

impl ErrorText for Number {
    fn error_text(&self) -> String {
        match self {
            Number::Whole(whole) => whole.to_string(),
            Number::Float(float) => go_general(*float),
        }
    }
}

/// Converts a constraint to the number type of the value that it is compared with.
fn comparable_constraint(constraint: f64, value: Option<i64>) -> Number {
    match value {
        Some(_) => Number::Whole(to_whole(constraint)),
        None => Number::Float(constraint),
    }
}

/// Converts a float to an integer as Go does: a value that is too large becomes the lowest one.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "that is what Go does")]
pub fn to_whole(float: f64) -> i64 {
    if float.abs() < i64::MAX as f64 { float as i64 } else { i64::MIN }
}

/// The value in the form of its constraint.
fn comparable_value(number: f64, whole: Option<i64>) -> Number {
    whole.map_or(Number::Float(number), Number::Whole)
}

fn is_multiple(number: f64, whole: Option<i64>, factor: f64) -> bool {
    if let Some(whole) = whole {
        return whole.checked_rem(to_whole(factor)).is_none_or(|rest| rest == 0);
    }
    let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
    is_integer(times)
}

/// Whether a float counts as an integer: an integer that JSON can represent or, as in kube-apiserver, a float very close
/// to one.
pub(super) fn is_integer(float: f64) -> bool {
    let rest = float.fract();
    let close = || float > 1.0 && rest / (float + float.trunc()) < CLOSE;
    float.abs() <= INTEGER_MAX && (rest == 0.0 || close())
}

/// The type of a number.
enum Kind<'a> {
    Integer(&'a str),
    Number(&'a str),
}

impl<'a> Kind<'a> {
    fn of(type_name: &str, format: &'a str) -> Self {
        match type_name {
            "integer" => Kind::Integer(if matches!(format, "int32" | "int64") { format } else { "" }),
            "number" => Kind::Number(if matches!(format, "float" | "double") { format } else { "" }),
            _ => Kind::Number(""),
        }
    }

    /// Checks that a number fits its type.
    fn check_range(
        &self,
        number: f64,
        whole: Option<i64>,
        prefix: &str,
        path: &Path<'_>,
        out: &mut Outcome,
    ) -> bool {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "limits of whole numbers among floats, and of single among double precision"
        )]
        let (fits, kind, format) = match self {
            Kind::Integer("int32") => {
                let within = number >= f64::from(i32::MIN) && number <= f64::from(i32::MAX);
                (within && number.fract() == 0.0, "integer", "int32")
            }
            Kind::Integer(format) => {
                let within = number >= i64::MIN as f64 && number < i64::MAX as f64;
                (whole.is_some() || (within && number.fract() == 0.0), "integer", *format)
            }
            // A value that rounds to the largest one fits.
            Kind::Number("float") => ((number as f32).is_finite(), "number", "float"),
            Kind::Number(format) => (true, "number", *format),
        };
        if !fits {
            let format = if format.is_empty() {
                "(default format)".to_string()
            } else {
                format!("with format {format}")
            };
            out.without_field(&format!("{prefix} value must be of type {kind} {format} in {path}"));
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_become_integers_as_in_go() {
        let whole = [
            (1.9, 1),
            (-1.9, -1),
            (1e21, i64::MIN),
            (f64::INFINITY, i64::MIN),
            (9_223_372_036_854_775_807.0, i64::MIN),
        ];
        for (float, integer) in whole {
            assert_eq!(to_whole(float), integer, "{float}");
        }
        let counts =
            [(3.0, true), (-3.0, true), (0.5, false), (1e6 + 1e-4, true), (2.999_999, false), (1e16, false)];
        for (float, is) in counts {
            assert_eq!(is_integer(float), is, "{float}");
        }
    }
}
