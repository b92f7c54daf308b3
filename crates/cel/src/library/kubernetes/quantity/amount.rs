//! Amounts of resources as Go's `resource.Quantity` holds them: a number of 64 bits with a power of ten where that
//! is enough, a decimal of any size where it is not. Which of the two it is shows: only the former can be an integer.

use std::cmp::Ordering;

use super::decimal::{Decimal, power_of_ten};

/// The smallest power of ten that an amount can carry.
const NANO: i64 = -9;
/// Digits that always fit 64 bits.
const SMALL_DIGITS: i64 = 18;
/// The largest amount with a binary suffix.
const BINARY_MAX: i64 = i64::MAX;

/// Why a text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

#[derive(Clone, Debug)]
pub(super) enum Amount {
    /// `value × 10^scale`
    Small {
        value: i64,
        scale: i32,
    },
    Large(Decimal),
}

impl Amount {
    pub(super) fn integer(value: i64) -> Amount {
        Amount::Small { value, scale: 0 }
    }

    fn decimal(&self) -> Decimal {
        match self {
            Amount::Small { value, scale } => Decimal::from_i64(*value, i64::from(*scale)),
            Amount::Large(decimal) => decimal.clone(),
        }
    }

    pub(super) fn sign(&self) -> i64 {
        match self {
            Amount::Small { value, .. } => value.signum(),
            Amount::Large(decimal) => decimal.sign(),
        }
    }

    pub(super) fn compare(&self, other: &Amount) -> Ordering {
        match (self, other) {
            (Amount::Small { value: a, scale: x }, Amount::Small { value: b, scale: y }) if x == y => {
                a.cmp(b)
            }
            _ => self.decimal().compare(&other.decimal()),
        }
    }

    /// The whole number, where Go finds it without a decimal: nothing with a power below one is an integer.
    pub(super) fn as_integer(&self) -> Option<i64> {
        match self {
            Amount::Small { value, scale } if *scale >= 0 => scaled(*value, i64::from(*scale)),
            _ => None,
        }
    }

    pub(super) fn to_f64(&self) -> f64 {
        match self {
            Amount::Small { value, scale: 0 } => *value as f64,
            Amount::Small { value, scale } => *value as f64 * power_of_ten(i64::from(*scale)),
            Amount::Large(decimal) => decimal.to_f64(),
        }
    }

    /// The sum, unless it has too many digits.
    pub(super) fn plus(&self, other: &Amount) -> Option<Amount> {
        if let (Amount::Small { value: a, scale: x }, Amount::Small { value: b, scale: y }) = (self, other)
            && let Some(sum) = plus_small((*a, *x), (*b, *y))
        {
            return Some(sum);
        }
        self.decimal().plus(&other.decimal()).map(Amount::Large)
    }

    /// The difference, unless it has too many digits.
    pub(super) fn minus(&self, other: &Amount) -> Option<Amount> {
        let negated = match other {
            // The lowest number is its own negative in Go's 64 bits.
            Amount::Small { value, scale } => Amount::Small { value: value.wrapping_neg(), scale: *scale },
            Amount::Large(decimal) => Amount::Large(decimal.clone().negated()),
        };
        if let (Amount::Small { value: a, scale: x }, Amount::Small { value: b, scale: y }) = (self, &negated)
            && let Some(difference) = plus_small((*a, *x), (*b, *y))
        {
            return Some(difference);
        }
        self.decimal().plus(&other.decimal().negated()).map(Amount::Large)
    }

    /// Reads a quantity.
    pub(super) fn parse(text: &str) -> Result<Amount, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = Parts::of(text)?;
        let (base, power) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        if let Some(small) = parts.small(base, power)? {
            return Ok(small);
        }
        parts.large(base, power)
    }
}

/// `value × 10^power` in 64 bits.
fn scaled(value: i64, power: i64) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    let factor = 10i64.checked_pow(u32::try_from(power).ok()?)?;
    value.checked_mul(factor)
}

fn plus_small(a: (i64, i32), b: (i64, i32)) -> Option<Amount> {
    let (value, scale) = match (a, b) {
        (_, (0, _)) => a,
        ((0, _), _) => b,
        ((x, left), (y, right)) => {
            let scale = left.min(right);
            let x = scaled(x, i64::from(left).saturating_sub(i64::from(scale)))?;
            let y = scaled(y, i64::from(right).saturating_sub(i64::from(scale)))?;
            (x.checked_add(y)?, scale)
        }
    };
    Some(Amount::Small { value, scale })
}

#[derive(Clone, Copy, PartialEq)]
enum Base {
    Two,
    Ten,
}

fn suffix(text: &str) -> Option<(Base, i32)> {
    const KNOWN: [(&str, Base, i32); 16] = [
        ("", Base::Ten, 0),
        ("n", Base::Ten, -9),
        ("u", Base::Ten, -6),
        ("m", Base::Ten, -3),
        ("k", Base::Ten, 3),
        ("M", Base::Ten, 6),
        ("G", Base::Ten, 9),
        ("T", Base::Ten, 12),
        ("P", Base::Ten, 15),
        ("E", Base::Ten, 18),
        ("Ki", Base::Two, 10),
        ("Mi", Base::Two, 20),
        ("Gi", Base::Two, 30),
        ("Ti", Base::Two, 40),
        ("Pi", Base::Two, 50),
        ("Ei", Base::Two, 60),
    ];
    if let Some((_, base, power)) = KNOWN.iter().find(|(known, ..)| *known == text) {
        return Some((*base, *power));
    }
    let digits = text.strip_prefix(['e', 'E'])?;
    // Go cuts the power to 32 bits.
    digits.parse::<i64>().ok().map(|power| (Base::Ten, power as i32))
}

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// The digits before the point, without leading zeros.
    whole: &'a str,
    fraction: &'a str,
    /// Whether a digit or a zero that was stripped was written at all.
    has_digits: bool,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Parts<'a>, QuantityError> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let number = unsigned.trim_start_matches('0');
        let (whole, rest) = split_digits(number);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        let letters = suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
        let exponent = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !exponent.bytes().all(|b| b.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        let has_digits = number.len() < unsigned.len() || !whole.is_empty() || !fraction.is_empty();
        Ok(Parts { negative: text.starts_with('-'), whole, fraction, has_digits, suffix })
    }

    /// The amount in 64 bits, where Go keeps it in that form.
    fn small(&self, base: Base, power: i32) -> Result<Option<Amount>, QuantityError> {
        let whole = if self.whole.is_empty() { "0" } else { self.whole };
        let (spare, mut scale, factor) = match base {
            Base::Ten => (
                SMALL_DIGITS.saturating_sub(whole.len().saturating_add(self.fraction.len()) as i64),
                i64::from(power),
                1i64,
            ),
            // 1Mi has about 6 digits: three tenths of the power.
            Base::Two if self.fraction.is_empty() => (
                14_i64
                    .saturating_sub(whole.len() as i64)
                    .saturating_sub(i64::from(power).saturating_mul(3) / 10),
                0,
                1i64 << power,
            ),
            Base::Two => (-1, 0, 1),
        };
        scale = scale.saturating_sub(self.fraction.len() as i64);
        if spare < 0 || scale < NANO {
            return Ok(None);
        }
        let value: i64 = format!("{whole}{}", self.fraction).parse().map_err(|_| QuantityError::Numeric)?;
        let scale = i32::try_from(scale).map_err(|_| QuantityError::Numeric)?;
        Ok(value.checked_mul(factor).map(|value| {
            let value = if self.negative { value.wrapping_neg() } else { value };
            Amount::Small { value, scale }
        }))
    }

    fn large(&self, base: Base, power: i32) -> Result<Amount, QuantityError> {
        if !self.has_digits {
            return Err(QuantityError::Numeric);
        }
        let digits: Vec<u8> =
            self.whole.bytes().chain(self.fraction.bytes()).map(|b| b.saturating_sub(b'0')).collect();
        let places = self.fraction.len() as i64;
        let decimal = match base {
            Base::Ten => {
                let exponent = i64::from(power).saturating_sub(places);
                Decimal::new(false, &digits, exponent, exponent.wrapping_neg())
            }
            Base::Two => {
                Decimal::new(false, &digits, places.wrapping_neg(), places).shifted_left(power.unsigned_abs())
            }
        };
        let mut amount = if decimal.sign() == 0 { decimal } else { decimal.rounded_up(-NANO) };
        let limit = Decimal::from_i64(BINARY_MAX, 0);
        if base == Base::Two && amount.compare(&limit) == Ordering::Greater {
            amount = limit;
        }
        Ok(Amount::Large(if self.negative { amount.negated() } else { amount }))
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}
