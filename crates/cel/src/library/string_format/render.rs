//! Formats values for a clause at run time.

use pintle_value::quote::go_quoted;

use super::{Clause, Dialect};
use crate::number::go_general;
use crate::time;
use crate::value::{Map, Object, Value};

/// Formats `value` according to `clause`.
pub(super) fn render(clause: Clause, value: &Value<'_>, dialect: Dialect) -> Result<String, String> {
    let rendered = match (clause, dialect) {
        (Clause::String, Dialect::Localized) => match localized_text(value) {
            Some(text) => Some(text.map_err(|error| format!("error during formatting: {error}"))?),
            None => None,
        },
        (Clause::String, Dialect::Plain) => plain_text(value),
        (Clause::Decimal, _) => decimal(value, dialect),
        (Clause::Fixed(places), Dialect::Localized) => {
            localized_number(value).map(|number| grouped(number, places))
        }
        (Clause::Scientific(width), Dialect::Localized) => {
            localized_number(value).map(|number| superscripted(number, width))
        }
        (Clause::Fixed(places), Dialect::Plain) => plain_number(value, places, 'f'),
        (Clause::Scientific(places), Dialect::Plain) => plain_number(value, places, 'e'),
        (Clause::Binary, _) => match value {
            Value::Bool(bit) => Some(u8::from(*bit).to_string()),
            value => integer(value).map(|(sign, amount)| format!("{sign}{amount:b}")),
        },
        (Clause::Octal, _) => integer(value).map(|(sign, amount)| format!("{sign}{amount:o}")),
        (Clause::Hex { upper }, _) => {
            render_hex(value).map(|hex| if upper { hex.to_uppercase() } else { hex })
        }
    };
    rendered.ok_or_else(|| {
        format!("error during formatting: {}", clause_type_error(clause, dialect, &value.type_name()))
    })
}

/// The error for a value whose type does not match a clause.
pub(super) fn clause_type_error(clause: Clause, dialect: Dialect, ty: &str) -> String {
    let rule = match (clause, dialect) {
        (Clause::String, _) => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        (Clause::Decimal, Dialect::Localized) => "decimal clause can only be used on integers",
        (Clause::Fixed(_), Dialect::Localized) => "fixed-point clause can only be used on doubles",
        (Clause::Scientific(_), Dialect::Localized) => "scientific clause can only be used on doubles",
        (Clause::Binary, Dialect::Localized) => "only integers and bools can be formatted as binary",
        (Clause::Hex { .. }, Dialect::Localized) => {
            "only integers, byte buffers, and strings can be formatted as hex"
        }
        (Clause::Octal, Dialect::Localized) => "octal clause can only be used on integers",
        (Clause::Decimal, Dialect::Plain) => "decimal clause can only be used on ints, uints, and doubles",
        (Clause::Fixed(_), Dialect::Plain) => {
            "fixed-point clause can only be used on ints, uints, and doubles"
        }
        (Clause::Scientific(_), Dialect::Plain) => {
            "scientific clause can only be used on ints, uints, and doubles"
        }
        (Clause::Binary, Dialect::Plain) => "only ints, uints, and bools can be formatted as binary",
        (Clause::Hex { .. }, Dialect::Plain) => {
            "only ints, uints, bytes, and strings can be formatted as hex"
        }
        (Clause::Octal, Dialect::Plain) => "octal clause can only be used on ints and uints",
    };
    format!("{rule}, was given {ty}")
}

/// The sign and the absolute value of an integer.
fn integer(value: &Value<'_>) -> Option<(&'static str, u64)> {
    match value {
        Value::Int(int) => Some((if *int < 0 { "-" } else { "" }, int.unsigned_abs())),
        Value::Uint(uint) => Some(("", *uint)),
        _ => None,
    }
}

fn render_hex(value: &Value<'_>) -> Option<String> {
    let bytes = match value {
        Value::String(text) => text.as_str().as_bytes(),
        Value::Bytes(bytes) => bytes,
        value => return integer(value).map(|(sign, amount)| format!("{sign}{amount:x}")),
    };
    Some(pintle_value::hex::encode(bytes))
}

fn decimal(value: &Value<'_>, dialect: Dialect) -> Option<String> {
    match value {
        Value::Double(double) if dialect == Dialect::Plain => Some(plain_double(*double)),
        value => integer(value).map(|(sign, amount)| format!("{sign}{amount}")),
    }
}

/// The text of infinities and not-a-number.
fn named(double: f64, infinity: &str) -> Option<String> {
    match double {
        double if double.is_nan() => Some("NaN".into()),
        f64::INFINITY => Some(infinity.into()),
        f64::NEG_INFINITY => Some(format!("-{infinity}")),
        _ => None,
    }
}

fn plain_double(double: f64) -> String {
    named(double, "Infinity").unwrap_or_else(|| double.to_string())
}

fn plain_number(value: &Value<'_>, places: usize, verb: char) -> Option<String> {
    let double = match value {
        Value::Double(double) => *double,
        Value::Int(int) => *int as f64,
        Value::Uint(uint) => *uint as f64,
        _ => return None,
    };
    Some(named(double, "Infinity").unwrap_or_else(|| match verb {
        'e' => scientific(double, places),
        _ => format!("{double:.places$}"),
    }))
}

/// Formats a number as `1.5e+03`.
fn scientific(double: f64, places: usize) -> String {
    let text = format!("{double:.places$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// A double, also from the text of an infinity or not-a-number.
fn localized_number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(double) => Some(*double),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Formats a number with separators, as `1,234.50`.
fn grouped(double: f64, places: usize) -> String {
    if let Some(name) = named(double, "∞") {
        return name;
    }
    let text = format!("{double:.places$}");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |text| ("-", text));
    let (whole, fraction) = text.find('.').map_or((text, ""), |point| text.split_at(point));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && whole.len().saturating_sub(i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(fraction);
    out
}

/// `1.234500×10⁰³`: always six places; the given precision is the minimum width.
fn superscripted(double: f64, width: usize) -> String {
    const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = named(double, "∞").unwrap_or_else(|| {
        let text = scientific(double, super::DEFAULT_PRECISION);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, ""));
        let exponent = exponent.chars().filter_map(|c| match c.to_digit(10) {
            Some(digit) => SUPERSCRIPTS.get(digit as usize).copied(),
            None => (c == '-').then_some('⁻'),
        });
        let exponent: String = exponent.collect();
        format!("{mantissa}×10{exponent}")
    });
    format!("{text:>width$}")
}

/// `string(value)` for values that have it.
fn converted(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Int(int) => Some(int.to_string()),
        Value::Uint(uint) => Some(uint.to_string()),
        Value::Double(double) => Some(go_general(*double)),
        Value::String(text) => Some(text.as_str().to_owned()),
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::Timestamp(moment) => Some(time::format(*moment)),
        Value::Duration(nanos) => Some(time::duration_text(*nanos)),
        Value::Type(ty) => Some(ty.runtime_name().to_string()),
        _ => None,
    }
}

/// `None` if a value has no text; values inside a list or map have their own error message.
fn localized_text(value: &Value<'_>) -> Option<Result<String, String>> {
    match value {
        Value::Null => Some(Ok("null".into())),
        Value::List(_) | Value::Map(_) | Value::Object(Object::Tree(..)) => Some(localized_part(value)),
        value => converted(value).map(Ok),
    }
}

/// A value inside a list or map, as a literal of the language.
fn localized_part(value: &Value<'_>) -> Result<String, String> {
    let quoted = |text: Option<String>| go_quoted(&text.unwrap_or_default());
    Ok(match value {
        Value::List(list) => {
            let parts = list.iter().map(|part| localized_part(&part.map_err(|error| error.to_string())?));
            format!("[{}]", parts.collect::<Result<Vec<_>, _>>()?.join(", "))
        }
        Value::Map(map) => localized_map(map)?,
        Value::Object(Object::Tree(map, shape)) => localized_map(&Map::Tree(map, shape))?,
        Value::Null => "null".into(),
        Value::String(text) => go_quoted(text.as_str()),
        Value::Bytes(bytes) => format!("b{}", go_quoted(&String::from_utf8_lossy(bytes))),
        Value::Timestamp(_) => format!("timestamp({})", quoted(converted(value))),
        Value::Duration(_) => format!("duration({})", quoted(converted(value))),
        Value::Double(double) if double.is_nan() => "\"NaN\"".into(),
        Value::Double(f64::INFINITY) => "\"+Inf\"".into(),
        Value::Double(f64::NEG_INFINITY) => "\"-Inf\"".into(),
        Value::Double(double) => format!("{double:.6}"),
        value => {
            converted(value).ok_or_else(|| format!("no formatting function for {}", value.type_name()))?
        }
    })
}

fn localized_map(map: &Map<'_>) -> Result<String, String> {
    let mut entries = Vec::with_capacity(map.len());
    for (key, value) in map.entries() {
        let key = match &key {
            Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => localized_part(&key)?,
            _ => return Err(format!("no formatting function for map key of type {}", key.type_name())),
        };
        entries.push((key, localized_part(&value.map_err(|error| error.to_string())?)?));
    }
    Ok(in_braces(entries, ":"))
}

fn in_braces(mut entries: Vec<(String, String)>, colon: &str) -> String {
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}{colon}{value}")).collect();
    format!("{{{}}}", entries.join(", "))
}

fn plain_text(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Null => Some("null".into()),
        Value::Double(double) => Some(plain_double(*double)),
        Value::List(list) => {
            let parts: Option<Vec<String>> = list.iter().map(|part| plain_text(&part.ok()?)).collect();
            parts.map(|parts| format!("[{}]", parts.join(", ")))
        }
        Value::Map(map) => plain_map(map),
        Value::Object(Object::Tree(map, shape)) => plain_map(&Map::Tree(map, shape)),
        value => converted(value),
    }
}

fn plain_map(map: &Map<'_>) -> Option<String> {
    let entries = map.entries().map(|(key, value)| Some((plain_text(&key)?, plain_text(&value.ok()?)?)));
    Some(in_braces(entries.collect::<Option<Vec<_>>>()?, ": "))
}
