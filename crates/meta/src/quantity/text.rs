//! Quantities as text: Go's scanner, suffixes, rounding and capping, and the canonical form.

use super::{EXPONENT_MIN, Format, Quantity, QuantityError, reduced};
use pintle_value::Str;
use std::fmt;

/// Numbers of up to this many digits take Go's fast path, which may keep the text as it was.
const FAST_DIGITS: i32 = 18;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    /// Whether any digit was written at all.
    has_digits: bool,
    suffix: &'a str,
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = split(text)?;
    let (exponent, format) = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
    if let Some(quantity) = fast(text, &parts, exponent, format)? {
        return Ok(quantity);
    }
    slow(&parts, exponent, format)
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let negative = text.starts_with('-');
    let trimmed = unsigned.trim_start_matches('0');
    if trimmed.is_empty() {
        return Ok(Parts { negative, whole: "0", fraction: "", has_digits: true, suffix: "" });
    }
    let (whole, rest) = take(trimmed, |b| b.is_ascii_digit());
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => take(rest, |b| b.is_ascii_digit()),
        None => ("", rest),
    };
    let (_, tail) = take(suffix, |b| b"eEinumkKMGTP".contains(&b));
    let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
    if !tail.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    let has_digits = trimmed.len() < unsigned.len() || !whole.is_empty() || !fraction.is_empty();
    Ok(Parts { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, has_digits, suffix })
}

fn take(text: &str, wanted: impl Fn(u8) -> bool) -> (&str, &str) {
    let end = text.bytes().position(|b| !wanted(b)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// The exponent (of ten, or of two for binary suffixes) and format of a suffix.
fn interpret(suffix: &str) -> Option<(i32, Format)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some((*exponent, Format::DecimalSI));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        return Some((*exponent, Format::BinarySI));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    // Go cuts the exponent to 32 bits.
    Some((exponent as i32, Format::DecimalExponent))
}

/// Numbers that surely fit 64 bits; `None` sends the others to `slow`.
fn fast(
    text: &str,
    parts: &Parts<'_>,
    exponent: i32,
    format: Format,
) -> Result<Option<Quantity>, QuantityError> {
    let length = i32::try_from(parts.whole.len().saturating_add(parts.fraction.len())).unwrap_or(i32::MAX);
    let (precision, scale, factor) = match format {
        Format::BinarySI if parts.fraction.is_empty() => (
            14i32.saturating_sub(length).saturating_sub(exponent.saturating_mul(3) / 10),
            0,
            1i64 << exponent,
        ),
        Format::BinarySI => return Ok(None),
        _ => (FAST_DIGITS.saturating_sub(length), exponent, 1),
    };
    let scale = scale.saturating_sub(i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX));
    if precision < 0 || scale < EXPONENT_MIN {
        return Ok(None);
    }
    let shifted = format!("{}{}", parts.whole, parts.fraction);
    let value: i64 = shifted.parse().map_err(|_| QuantityError::Numeric)?;
    let Some(product) = value.checked_mul(factor) else { return Ok(None) };
    let keeps_text = match format {
        Format::BinarySI => value & 7 != 0,
        _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
    };
    Ok(Some(Quantity {
        mantissa: i128::from(if parts.negative { product.wrapping_neg() } else { product }),
        exponent: scale,
        format,
        wide: false,
        text: keeps_text.then(|| Str::from(text)),
    }))
}

fn slow(parts: &Parts<'_>, exponent: i32, format: Format) -> Result<Quantity, QuantityError> {
    if !parts.has_digits {
        return Err(QuantityError::Numeric);
    }
    let binary = format == Format::BinarySI;
    let (mantissa, mut scale) = significant(parts, binary)?;
    let mut out = Quantity { mantissa, exponent: scale, format, wide: true, text: None };
    if binary {
        // Anything beyond 64 bits is capped anyway, so saturating loses nothing.
        out.mantissa = out.mantissa.saturating_mul(1i128 << exponent);
    } else {
        scale = scale.saturating_add(exponent);
        out.exponent = scale;
    }
    if out.exponent < EXPONENT_MIN {
        (out.mantissa, _) = out.rounded_to(EXPONENT_MIN);
        out.exponent = EXPONENT_MIN;
    }
    let max = Quantity { wide: true, ..Quantity::new(i64::MAX, format) };
    if binary && out > max {
        out = max;
    }
    if binary && out.sign() > 0 && out.cmp_i64(1).is_lt() {
        out.format = Format::DecimalSI;
    }
    if parts.negative {
        out.neg();
    }
    Ok(out)
}

/// The digits as a number, and its power of ten. Fraction digits that a nano cannot show are folded into one
/// that makes the rounding go up, so that long fractions fit.
fn significant(parts: &Parts<'_>, binary: bool) -> Result<(i128, i32), QuantityError> {
    let digits = format!("{}{}", parts.whole, parts.fraction);
    let places = i32::try_from(parts.fraction.len()).map_err(|_| QuantityError::Numeric)?;
    if let Ok(number) = digits.parse::<i128>() {
        return Ok((number, 0_i32.saturating_sub(places)));
    }
    let whole = match parts.whole.parse::<i128>() {
        Ok(whole) => whole,
        Err(_) if binary => return Ok((i128::MAX, 0)),
        Err(_) => {
            // Trailing zeros need no room.
            let head = parts.whole.trim_end_matches('0');
            let zeros = i32::try_from(parts.whole.len().saturating_sub(head.len()))
                .map_err(|_| QuantityError::Numeric)?;
            let fits = parts.fraction.bytes().all(|b| b == b'0');
            let number = head.parse().map_err(|_| QuantityError::Numeric)?;
            return if fits { Ok((number, zeros)) } else { Err(QuantityError::Numeric) };
        }
    };
    /// Digits of the fraction that are kept when not all fit.
    const KEPT: u8 = 18;
    let (kept, lost) = parts.fraction.split_at_checked(usize::from(KEPT)).ok_or(QuantityError::Numeric)?;
    let kept: i128 = kept.parse().map_err(|_| QuantityError::Numeric)?;
    let up = i128::from(lost.bytes().any(|b| b != b'0'));
    let number =
        whole.checked_mul(10i128.pow(u32::from(KEPT))).and_then(|w| w.checked_add(kept.saturating_add(up)));
    Ok((number.ok_or(QuantityError::Numeric)?, 0_i32.saturating_sub(i32::from(KEPT))))
}

/// Writes the canonical form: no fraction, the largest suffix that loses nothing.
pub(super) fn write(quantity: &Quantity, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if quantity.is_zero() {
        return f.write_str("0");
    }
    let (whole, exact) = quantity.rounded_to(0);
    if quantity.format == Format::BinarySI && exact && whole.unsigned_abs() >= 1024 {
        return write_binary(whole, f);
    }
    let (mantissa, mut exponent) = reduced(quantity.mantissa, quantity.exponent);
    write!(f, "{mantissa}")?;
    // Zeros are written rather than multiplied with, for which there may be no room.
    while exponent % 3 != 0 {
        f.write_str("0")?;
        exponent = exponent.saturating_sub(1);
    }
    if quantity.format == Format::DecimalExponent {
        return if exponent == 0 { Ok(()) } else { write!(f, "e{exponent}") };
    }
    // Beyond the table Go writes no suffix at all; stored texts must read the same here.
    f.write_str(DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| s))
}

fn write_binary(mut whole: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut exponent = 0_i32;
    while whole % 1024 == 0 {
        whole /= 1024;
        exponent = exponent.saturating_add(10);
    }
    let suffix = BINARY.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| s);
    write!(f, "{whole}{suffix}")
}
