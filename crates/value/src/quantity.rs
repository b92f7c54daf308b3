//! `Quantity`: amounts of resources (`100m`, `1.5Gi`, `12e6`), read, compared, added and written as Go's
//! `resource.Quantity` does.
//!
//! An amount is a 64-bit number and a power of ten if that is enough, and a decimal of any length otherwise.

mod amount;
mod decimal;
mod text;

use self::amount::Amount;
use crate::{Str, Value, json};
use std::cmp::Ordering;

/// Which suffixes a quantity is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySI,
    /// `12M`
    DecimalSI,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text has the wrong shape.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number has no digits, or too many.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// A sum has more digits than are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantity has too many digits")]
pub struct TooManyDigits;

/// An exact amount, and the format in which it was written.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text from which it was parsed, if Go retains that as the canonical one.
    text: Option<Str>,
}

impl Quantity {
    /// Parses a quantity. Surrounding white space is an error here; see [`canonical`] for what JSON allows.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        text::parse(text)
    }

    /// The quantity of a JSON value: a string or a number; `null` is zero.
    pub fn from_value(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Ok(Quantity::new(0, Format::DecimalSI)),
            Value::String(s) => Quantity::parse(s.trim()),
            Value::Int(i) => Quantity::parse(&i.to_string()),
            other => Quantity::parse(&json::text(other)),
        }
    }

    /// A whole amount.
    pub fn new(value: i64, format: Format) -> Self {
        Quantity { amount: Amount::Small { value, exponent: 0 }, format, text: None }
    }

    /// An amount of thousandths.
    pub fn milli(value: i64, format: Format) -> Self {
        Quantity { amount: Amount::Small { value, exponent: -3 }, format, text: None }
    }

    /// The format that it is written in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the quantity is zero.
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.amount.sign()
    }

    /// The whole amount, rounded away from zero. If it does not fit 64 bits, the result is Go's: zero, or the low bits of
    /// a number that was stored as a decimal.
    pub fn value(&self) -> i64 {
        self.amount.scaled_value(0)
    }

    /// The amount in thousandths, rounded away from zero; beyond 64 bits as `value`.
    pub fn milli_value(&self) -> i64 {
        self.amount.scaled_value(-3)
    }

    /// The whole amount if Go's `AsInt64` returns it: not for a quantity that was written with a fraction or a suffix
    /// below one, nor for one that does not fit 64 bits.
    pub fn as_i64(&self) -> Option<i64> {
        self.amount.as_integer()
    }

    /// The nearest floating-point number.
    pub fn as_f64(&self) -> f64 {
        self.amount.to_f64()
    }

    /// Rounds away from zero to whole multiples of `10^exponent`. Returns whether the amount was such a multiple already.
    pub fn round_up(&mut self, exponent: i32) -> bool {
        if matches!(self.amount, Amount::Small { exponent: own, .. } if own >= exponent) {
            return true;
        }
        self.text = None;
        let (rounded, is_exact) = self.amount.rounded_up(exponent);
        self.amount = rounded;
        is_exact
    }

    /// Adds another amount. Zero adopts the other's format. If the sum would have too many digits, the smaller amount is
    /// ignored.
    pub fn add(&mut self, other: &Quantity) {
        if self.try_add(other).is_err() {
            self.keep_larger(other.amount.clone());
        }
    }

    /// Subtracts another amount. Zero adopts the other's format. If the difference would have too many digits, the
    /// smaller amount is ignored.
    pub fn sub(&mut self, other: &Quantity) {
        if self.try_sub(other).is_err() {
            self.keep_larger(other.amount.negated());
        }
    }

    /// Adds another amount, unless the sum has too many digits.
    pub fn try_add(&mut self, other: &Quantity) -> Result<(), TooManyDigits> {
        let sum = self.amount.plus(&other.amount);
        self.become_sum(sum, other)
    }

    /// Subtracts another amount, unless the difference has too many digits.
    pub fn try_sub(&mut self, other: &Quantity) -> Result<(), TooManyDigits> {
        let difference = self.amount.minus(&other.amount);
        self.become_sum(difference, other)
    }

    fn become_sum(&mut self, sum: Option<Amount>, other: &Quantity) -> Result<(), TooManyDigits> {
        let sum = sum.ok_or(TooManyDigits)?;
        if self.is_zero() {
            self.format = other.format;
        }
        (self.amount, self.text) = (sum, None);
        Ok(())
    }

    fn keep_larger(&mut self, other: Amount) {
        if self.amount.compare_magnitude(&other) == Ordering::Less {
            (self.amount, self.text) = (other, None);
        }
    }

    /// Negates the amount.
    pub fn neg(&mut self) {
        self.text = None;
        self.amount = self.amount.negated();
    }

    /// Multiplies by a whole number.
    pub fn mul(&mut self, factor: i64) {
        self.text = None;
        self.amount = self.amount.times(factor);
    }

    /// Compares with a whole amount.
    pub fn cmp_i64(&self, other: i64) -> Ordering {
        self.cmp(&Quantity::new(other, Format::DecimalSI))
    }
}

impl PartialEq for Quantity {
    /// Equal amounts, whatever their formats.
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(&other.amount)
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => text::write(self, f),
        }
    }
}

/// Returns the canonical form in which a quantity that a client sent is stored and returned.
pub fn canonical(text: &str) -> Result<Str, QuantityError> {
    let quantity = Quantity::parse(text.trim())?;
    Ok(match quantity.text {
        Some(text) => text,
        None => Str::from(quantity.to_string()),
    })
}

#[cfg(test)]
mod tests;
