//! Calendar parts of timestamps, and durations in units.

use crate::decl::{Function, Overload, Run};
use crate::time::Parts;
use crate::types::Type;
use crate::value::{EvalError, Value};

const NANOS_OF_MILLI: i64 = 1_000_000;

/// Defines a function of timestamps: its overloads without and with a time zone.
macro_rules! calendar {
    ($name:literal, $id:literal, $part:expr) => {
        calendar!($name, $id, $part, [])
    };
    ($name:literal, $id:literal, $part:expr, [$($more:expr),*]) => {{
        let run: Run = |args| time_part(args, $part);
        Function::new(
            $name,
            [
                Overload::method($id, [Type::Timestamp], Type::Int, run),
                Overload::method(concat!($id, "_with_tz"), [Type::Timestamp, Type::String], Type::Int, run),
                $($more),*
            ],
        )
    }};
}

/// The overload for durations: whole units of that many nanoseconds.
macro_rules! length {
    ($id:literal, $unit:expr) => {
        Overload::method($id, [Type::Duration], Type::Int, |args| match args {
            [Value::Duration(nanos)] => Ok(Value::Int(whole(*nanos, $unit))),
            _ => Err(EvalError::NoSuchOverload),
        })
    };
}

pub(super) fn functions() -> Vec<Function> {
    vec![
        calendar!("getFullYear", "timestamp_to_year", |parts| parts.year),
        calendar!("getMonth", "timestamp_to_month", |parts| parts.month.saturating_sub(1)),
        calendar!("getDayOfYear", "timestamp_to_day_of_year", |parts| parts.day_of_year),
        calendar!("getDayOfMonth", "timestamp_to_day_of_month", |parts| parts.day.saturating_sub(1)),
        calendar!("getDate", "timestamp_to_day_of_month_1_based", |parts| parts.day),
        calendar!("getDayOfWeek", "timestamp_to_day_of_week", |parts| parts.weekday),
        calendar!(
            "getHours",
            "timestamp_to_hours",
            |parts| parts.hour,
            [length!("duration_to_hours", 3_600_000_000_000)]
        ),
        calendar!(
            "getMinutes",
            "timestamp_to_minutes",
            |parts| parts.minute,
            [length!("duration_to_minutes", 60_000_000_000)]
        ),
        calendar!(
            "getSeconds",
            "timestamp_to_seconds",
            |parts| parts.second,
            [length!("duration_to_seconds", 1_000_000_000)]
        ),
        calendar!(
            "getMilliseconds",
            "timestamp_to_milliseconds",
            |parts| i64::from(parts.nanos / 1_000_000),
            [Overload::method("duration_to_milliseconds", [Type::Duration], Type::Int, |args| match args {
                [Value::Duration(nanos)] => Ok(Value::Int(nanos / NANOS_OF_MILLI % 1_000)),
                _ => Err(EvalError::NoSuchOverload),
            })]
        ),
    ]
}

/// `getMilliseconds` of a duration as in cel-go: the whole duration, while the specification requires the part within the
/// second.
pub(in crate::library) fn whole_milliseconds() -> Function {
    Function::new("getMilliseconds", [length!("duration_to_milliseconds", NANOS_OF_MILLI)])
}

fn time_part<'a>(args: &[Value<'a>], part: fn(&Parts) -> i64) -> Result<Value<'a>, EvalError> {
    let (moment, zone) = match args {
        [Value::Timestamp(moment)] => (moment, "UTC"),
        [Value::Timestamp(moment), Value::String(zone)] => (moment, zone.as_str()),
        // Go dispatches on the receiver here: the message is the same for any argument.
        _ => return Err(EvalError::NoSuchOverload),
    };
    let parts = moment.parts(zone).map_err(EvalError::Failed)?;
    Ok(Value::Int(part(&parts)))
}

/// Whole units, truncated towards zero through a double, as Go's `Duration.Hours()` is.
#[expect(clippy::arithmetic_side_effects, reason = "no unit is zero or negative")]
fn whole(nanos: i64, unit: i64) -> i64 {
    if unit == NANOS_OF_MILLI {
        return nanos / unit;
    }
    ((nanos / unit) as f64 + (nanos % unit) as f64 / unit as f64) as i64
}
