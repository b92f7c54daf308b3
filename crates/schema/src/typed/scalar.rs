//! Scalars: numbers, strings, bytes, times, quantities.

use super::decode::Decoder;
use super::errors::{Place, Severity};
use crate::model::Shape;
use pintle_meta::duration::GoDuration;
use pintle_meta::{Quantity, Timestamp, quantity};
use pintle_value::{Str, Value, base64, json};
use std::fmt::Write;

/// Length of `2006-01-02T15:04:05Z`.
const SECONDS_LEN: usize = 20;

/// Decodes a scalar in place; `null` becomes its zero value.
pub(super) fn decode(
    decoder: &mut Decoder<'_, '_>,
    shape: &Shape,
    go: &str,
    value: &mut Value,
    place: &Place<'_>,
) {
    match shape {
        Shape::String => match value {
            Value::String(_) => {}
            Value::Null => *value = Value::String(Str::default()),
            other => mismatch(decoder, place, Severity::Ordinary, other.json_type(), go),
        },
        Shape::Bool => match value {
            Value::Bool(_) => {}
            Value::Null => *value = Value::Bool(false),
            other => mismatch(decoder, place, Severity::Ordinary, other.json_type(), go),
        },
        Shape::Int { bits } => decode_int(decoder, *bits, Severity::Ordinary, go, value, place),
        Shape::Float => match value {
            Value::Int(_) => {}
            Value::Float(f) if f.is_infinite() => {
                let found = number(decoder, value);
                mismatch(decoder, place, Severity::Ordinary, &found, go);
            }
            // Whole numbers have one form: that of parsing their JSON.
            Value::Float(f) => *value = float_value(*f),
            Value::Null => *value = Value::Int(0),
            other => mismatch(decoder, place, Severity::Ordinary, other.json_type(), go),
        },
        Shape::IntOrString => match value {
            Value::String(_) => {}
            _ => decode_int(decoder, 32, Severity::Fatal, "int32", value, place),
        },
        Shape::Bytes => decode_bytes(decoder, go, value, place),
        Shape::Quantity => canonical_quantity(decoder, value, place),
        Shape::Time | Shape::MicroTime => {
            decode_time(decoder, matches!(shape, Shape::MicroTime), value, place)
        }
        Shape::Duration => decode_duration(decoder, value, place),
        Shape::Any | Shape::List { .. } | Shape::Map { .. } | Shape::Struct(_) => {}
    }
}

/// A floating point number in the tree: whole numbers that JSON writes without an exponent are integers.
pub(crate) fn float_value(float: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() < EXACT && !(float == 0.0 && float.is_sign_negative()) {
        Value::Int(float as i64)
    } else {
        Value::Float(float)
    }
}

fn mismatch(decoder: &mut Decoder<'_, '_>, place: &Place<'_>, severity: Severity, value: &str, go: &str) {
    decoder.errors.mismatch(decoder.arena, place, severity, value, go);
}

/// Go's error has the number itself if an integer of this size was expected.
fn number(decoder: &Decoder<'_, '_>, value: &Value) -> String {
    if let Some(written) = decoder.number {
        return format!("number {written}");
    }
    let mut text = b"number ".to_vec();
    json::print(value, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn decode_int(
    decoder: &mut Decoder<'_, '_>,
    bits: u8,
    severity: Severity,
    go: &str,
    value: &mut Value,
    place: &Place<'_>,
) {
    match value {
        Value::Int(i) if bits == 64 || i32::try_from(*i).is_ok() => {}
        Value::Null => *value = Value::Int(0),
        Value::Int(_) | Value::Float(_) => mismatch(decoder, place, severity, &number(decoder, value), go),
        other => mismatch(decoder, place, severity, other.json_type(), go),
    }
}

fn decode_bytes(decoder: &mut Decoder<'_, '_>, go: &str, value: &mut Value, place: &Place<'_>) {
    match value {
        Value::Null => {}
        Value::String(text) => match base64::decode(text) {
            Ok(bytes) => {
                let canonical = base64::encode(&bytes);
                if canonical != text.as_str() {
                    *text = Str::from(canonical);
                }
            }
            Err(error) => decoder.errors.add(place, Severity::Ordinary, error.to_string()),
        },
        // Go also accepts a list of small numbers as bytes.
        Value::Array(items) => {
            let mut raw = Vec::with_capacity(items.len());
            for item in items.iter() {
                match item {
                    Value::Int(i) if u8::try_from(*i).is_ok() => raw.extend(u8::try_from(*i)),
                    Value::Null => raw.push(0),
                    Value::Int(_) | Value::Float(_) => {
                        mismatch(decoder, place, Severity::Ordinary, &number(decoder, item), "uint8")
                    }
                    other => mismatch(decoder, place, Severity::Ordinary, other.json_type(), "uint8"),
                }
            }
            *value = Value::String(Str::from(base64::encode(&raw)));
        }
        other => mismatch(decoder, place, Severity::Ordinary, other.json_type(), go),
    }
}

/// Go parses the text of the number: `1e9` keeps its exponent.
fn canonical_quantity(decoder: &mut Decoder<'_, '_>, value: &mut Value, place: &Place<'_>) {
    decoder.wants_literal |= matches!(value, Value::Float(_)) && decoder.number.is_none();
    let canonical = match &*value {
        Value::String(text) => quantity::canonical(text),
        Value::Int(_) | Value::Float(_) if decoder.number.is_some() => {
            quantity::canonical(decoder.number.unwrap_or_default())
        }
        other => Quantity::from_value(other).map(|q| {
            let mut text = Str::default();
            _ = write!(text, "{q}");
            text
        }),
    };
    match canonical {
        Ok(text) => match value {
            Value::String(old) if *old == text => {}
            _ => *value = Value::String(text),
        },
        Err(error) => decoder.errors.add(place, Severity::Fatal, error.to_string()),
    }
}

fn decode_time(decoder: &mut Decoder<'_, '_>, micro: bool, value: &mut Value, place: &Place<'_>) {
    let text = match value {
        Value::Null => return,
        Value::String(text) => text,
        other => return mismatch(decoder, place, Severity::Fatal, other.json_type(), "string"),
    };
    let parsed = if micro { Timestamp::parse_micro(text) } else { Timestamp::parse(text) };
    match parsed {
        // This is the canonical form already.
        Ok(time) if !micro && text.len() == SECONDS_LEN && text.ends_with('Z') && !time.is_zero() => {}
        Ok(time) => {
            let canonical = if micro { time.to_value_micro() } else { time.to_value() };
            if canonical.as_str() != Some(text.as_str()) {
                *value = canonical;
            }
        }
        Err(error) => decoder.errors.add(place, Severity::Fatal, error.to_string()),
    }
}

fn decode_duration(decoder: &mut Decoder<'_, '_>, value: &mut Value, place: &Place<'_>) {
    let text = match &*value {
        Value::Null => "",
        Value::String(text) => text.as_str(),
        other => return mismatch(decoder, place, Severity::Fatal, other.json_type(), "string"),
    };
    match GoDuration::parse(text) {
        Ok(duration) => {
            let mut canonical = Str::default();
            _ = write!(canonical, "{duration}");
            if canonical != text {
                *value = Value::String(canonical);
            }
        }
        Err(error) => decoder.errors.add(place, Severity::Fatal, error.to_string()),
    }
}
