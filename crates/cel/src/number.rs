//! Numbers as in Go: formatting and parsing of doubles, and exact conversions.

pub(crate) use pintle_value::quote::go_general;

/// Go's `strconv.FormatFloat(v, 'f', -1, 64)`.
pub(crate) fn go_plain(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { go_general(value) }
}

/// `strconv.ParseFloat`: a value that is too large is an error, not infinity.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let value = parse_hex(hex)?;
        return Some(if text.starts_with('-') { -value } else { value });
    }
    let value: f64 = text.parse().ok()?;
    let named = unsigned.starts_with(['i', 'I']);
    (value.is_finite() || value.is_nan() || named).then_some(value)
}

/// `1.8p3`: a hexadecimal float after its prefix; the exponent is required.
fn parse_hex(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut mantissa = 0f64;
    for digit in whole.chars().chain(fraction.chars()) {
        mantissa = mantissa * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let scale = exponent.checked_sub(i32::try_from(fraction.len()).ok()?.checked_mul(4)?)?;
    let value = mantissa * 2f64.powi(scale);
    value.is_finite().then_some(value)
}

/// Parses as Go's `strconv.ParseInt(text, 10, 64)` does.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// `strconv.ParseUint(text, 10, 64)`: no sign.
pub(crate) fn parse_uint(text: &str) -> Option<u64> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// Truncated towards zero; `None` at the ends of the range, which are not exact as doubles.
pub(crate) fn double_to_int(value: f64) -> Option<i64> {
    (value > i64::MIN as f64 && value < i64::MAX as f64).then_some(value as i64)
}

/// Truncated towards zero.
pub(crate) fn double_to_uint(value: f64) -> Option<u64> {
    (value >= 0.0 && value < u64::MAX as f64).then_some(value as u64)
}

/// The integer that equals a double.
pub(crate) fn double_to_int_exactly(value: f64) -> Option<i64> {
    double_to_int(value).filter(|int| *int as f64 == value)
}

/// The integer that equals a double.
pub(crate) fn double_to_uint_exactly(value: f64) -> Option<u64> {
    double_to_uint(value).filter(|uint| *uint as f64 == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_parse_as_in_go() {
        let cases = [
            ("1.5", Some(1.5)),
            ("1e400", None),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("0x1.8p1", Some(3.0)),
            ("", None),
        ];
        for (text, value) in cases {
            assert_eq!(parse_double(text), value, "{text}");
        }
    }
}
