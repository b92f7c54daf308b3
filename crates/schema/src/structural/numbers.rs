//! Bounds, factors and ranges of numbers.

use super::validate::Outcome;
use crate::Checks;
use pintle_value::{Path, Value};

/// All that is wrong with a number.
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
        if !is_multiple(number, whole, factor) {
            let why = format!("{path} in body should be a multiple of {}", shown(factor, whole.is_some()));
            out.errors.invalid(path, value, &why);
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
        let bound_seen = if whole.is_some() { bound.trunc() } else { bound };
        let beyond = match words {
            "less than" => number > bound_seen || (exclusive && number >= bound_seen),
            _ => number < bound_seen || (exclusive && number <= bound_seen),
        };
        if beyond {
            let equal = if exclusive { "" } else { " or equal to" };
            let why = format!("{path} in body should be {words}{equal} {}", shown(bound, whole.is_some()));
            out.errors.invalid(path, value, &why);
        }
    }
    out.matches += 1;
    out
}

/// A bound as Go prints it.
fn shown(bound: f64, whole: bool) -> String {
    let bound = if whole { bound.trunc() } else { bound };
    let text = format!("{bound}");
    match bound.abs() {
        // Go changes to exponents where numbers get long.
        size if size != 0.0 && !(1e-4..1e21).contains(&size) => format!("{bound:e}"),
        _ => text,
    }
}

fn is_multiple(number: f64, whole: Option<i64>, factor: f64) -> bool {
    if factor <= 0.0 {
        return true;
    }
    #[expect(clippy::cast_possible_truncation, reason = "Go takes whole numbers by whole factors")]
    if let Some(whole) = whole {
        let factor = factor as i64;
        return factor == 0 || whole % factor == 0;
    }
    let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
    times.fract() == 0.0
}

/// What a number is to be.
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

    /// Whether a number can be held by its type at all.
    fn check_range(
        &self,
        number: f64,
        whole: Option<i64>,
        prefix: &str,
        path: &Path<'_>,
        out: &mut Outcome,
    ) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "limits of whole numbers among floats")]
        let (fits, kind, format) = match self {
            Kind::Integer("int32") => {
                let within = number >= f64::from(i32::MIN) && number <= f64::from(i32::MAX);
                (within && number.fract() == 0.0, "integer", "int32")
            }
            Kind::Integer(format) => {
                let within = number >= i64::MIN as f64 && number < i64::MAX as f64;
                (whole.is_some() || (within && number.fract() == 0.0), "integer", *format)
            }
            Kind::Number("float") => (number.abs() <= f64::from(f32::MAX), "number", "float"),
            Kind::Number(format) => (true, "number", *format),
        };
        if !fits {
            let format = if format.is_empty() {
                "(default format)".to_string()
            } else {
                format!("with format {format}")
            };
            out.nowhere(&format!("{prefix} value must be of type {kind} {format} in {path}"));
        }
        fits
    }
}
