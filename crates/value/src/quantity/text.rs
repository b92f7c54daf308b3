//! Quantities as text: Go's parser, suffixes, rounding and capping, and the canonical form.

use super::amount::{Amount, scaled};
use super::decimal::Decimal;
use super::{Format, Quantity, QuantityError};
use crate::Str;
use std::cmp::Ordering;
use std::fmt;

/// The smallest power of ten that a quantity can carry: nano.
const EXPONENT_MIN: i32 = -9;
/// The maximum number of significant digits of a quantity. Go has no bound.
const DIGITS_MAX: usize = 10_000;

/// Numbers of up to this many digits take Go's fast path, which may retain the original text.
const FAST_DIGITS: i32 = 18;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    /// Whether there is any digit.
    has_digits: bool,
    suffix: &'a str,
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = split_parts(text)?;
    let (exponent, format) = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
    if let Some(quantity) = fast(text, &parts, exponent, format)? {
        return Ok(quantity);
    }
    slow(&parts, exponent, format)
}

fn split_parts(text: &str) -> Result<Parts<'_>, QuantityError> {
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
    // Go truncates the exponent to 32 bits.
    Some((exponent as i32, Format::DecimalExponent))
}

/// Parses numbers that certainly fit 64 bits; `None` for the others, which `slow` parses.
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
    let value = if parts.negative { product.wrapping_neg() } else { product };
    let amount = Amount::Small { value, exponent: scale };
    Ok(Some(Quantity { amount, format, text: keeps_text.then(|| Str::from(text)) }))
}

/// Any other number: rounded up to nano, and capped if it has a binary suffix.
fn slow(parts: &Parts<'_>, exponent: i32, format: Format) -> Result<Quantity, QuantityError> {
    if !parts.has_digits {
        return Err(QuantityError::Numeric);
    }
    let is_binary = format == Format::BinarySI;
    let digits: Vec<u8> =
        parts.whole.bytes().chain(parts.fraction.bytes()).map(|b| b.saturating_sub(b'0')).collect();
    let places = i64::try_from(parts.fraction.len()).map_err(|_| QuantityError::Numeric)?;
    let decimal = if is_binary {
        Decimal::new(false, &digits, places.wrapping_neg(), places).times(1 << exponent)
    } else {
        let exponent = i64::from(exponent).saturating_sub(places);
        Decimal::new(false, &digits, exponent, exponent.wrapping_neg())
    };
    let mut amount = match decimal.sign() {
        0 => decimal,
        _ => decimal.rounded_up(i64::from(EXPONENT_MIN).wrapping_neg()),
    };
    let (max, one) = (Decimal::from_i64(i64::MAX, 0), Decimal::from_i64(1, 0));
    if is_binary && amount.compare(&max) == Ordering::Greater {
        amount = max;
    }
    if amount.digits() > DIGITS_MAX {
        return Err(QuantityError::Numeric);
    }
    let is_fraction = amount.sign() > 0 && amount.compare(&one) == Ordering::Less;
    let format = if is_binary && is_fraction { Format::DecimalSI } else { format };
    let amount = if parts.negative { amount.negated() } else { amount };
    Ok(Quantity { amount: Amount::Large(amount), format, text: None })
}

/// Writes the canonical form: no fraction, the largest suffix that loses nothing.
pub(super) fn write(quantity: &Quantity, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if quantity.is_zero() {
        return f.write_str("0");
    }
    if quantity.format == Format::BinarySI && is_written_binary(quantity) {
        return write_binary(&quantity.amount, f);
    }
    let mut exponent = match &quantity.amount {
        Amount::Small { value, exponent } => {
            let (value, exponent) = reduced(*value, i64::from(*exponent));
            write!(f, "{value}")?;
            exponent
        }
        Amount::Large(decimal) => {
            write!(f, "{decimal}")?;
            decimal.exponent()
        }
    };
    // Zeros are appended instead of multiplying, which could overflow.
    while exponent % 3 != 0 {
        f.write_str("0")?;
        exponent = exponent.saturating_sub(1);
    }
    if quantity.format == Format::DecimalExponent {
        return if exponent == 0 { Ok(()) } else { write!(f, "e{exponent}") };
    }
    // Beyond its table Go writes no suffix at all. Texts that kube-apiserver stored must mean the same here.
    f.write_str(DECIMAL.iter().find(|(_, e)| i64::from(*e) == exponent).map_or("", |(s, _)| s))
}

/// The same amount with all factors of ten in the exponent.
fn reduced(mut value: i64, mut exponent: i64) -> (i64, i64) {
    while value != 0 && value % 10 == 0 {
        value /= 10;
        exponent = exponent.saturating_add(1);
    }
    (value, exponent)
}

/// Whether a binary suffix is used: small numbers and those with a fraction are written in decimal.
fn is_written_binary(quantity: &Quantity) -> bool {
    let is_small = quantity.cmp_i64(-1024).is_gt() && quantity.cmp_i64(1024).is_lt();
    !is_small && quantity.amount.rounded_up(0).1
}

fn write_binary(amount: &Amount, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut powers = 0_i32;
    let whole = match amount.rounded_up(0).0 {
        Amount::Small { value, exponent } => scaled(value, i64::from(exponent)),
        Amount::Large(_) => None,
    };
    if let Some(mut whole) = whole {
        while whole != 0 && whole % 1024 == 0 {
            whole /= 1024;
            powers = powers.saturating_add(10);
        }
        write!(f, "{whole}")?;
    } else {
        let mut whole = amount.decimal();
        while let Some(smaller) = whole.divided_exactly(1024) {
            whole = smaller;
            powers = powers.saturating_add(10);
        }
        write!(f, "{whole}")?;
        for _ in 0..whole.exponent() {
            f.write_str("0")?;
        }
    }
    f.write_str(BINARY.iter().find(|(_, e)| *e == powers).map_or("", |(s, _)| s))
}
