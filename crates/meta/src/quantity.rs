//! `Quantity`: amounts of resources (`100m`, `1.5Gi`, `12e6`), read, compared, added and written as Go's
//! `resource.Quantity` does.
//!
//! An amount is a mantissa of 128 bits and a power of ten. Go keeps numbers of any size; here more than 38
//! significant digits are refused on reading, and sums beyond that saturate.

mod text;

use pintle_value::{Str, Value, json};
use std::cmp::Ordering;

/// The smallest power of ten that a quantity can carry: nano.
const EXPONENT_MIN: i32 = -9;

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

/// Why a text is no quantity.
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

/// An exact amount, with the format that it was written in.
#[derive(Clone, Debug)]
pub struct Quantity {
    mantissa: i128,
    exponent: i32,
    format: Format,
    /// Whether Go would hold it in its arbitrary-precision form, which shows in what counts as an integer.
    wide: bool,
    /// The text it was read from, where Go keeps that as the canonical one.
    text: Option<Str>,
}

impl Quantity {
    /// Reads a quantity. Space around it is an error here; see [`canonical`] for what JSON allows.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        text::parse(text)
    }

    /// The quantity of a JSON value: a string or a number; `null` is zero.
    pub fn from_value(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Ok(Quantity::new(0, Format::DecimalSI)),
            Value::String(s) => Quantity::parse(s.trim()),
            Value::Int(i) => Quantity::parse(&i.to_string()),
            other => {
                let mut out = Vec::new();
                json::print(other, &mut out);
                Quantity::parse(&String::from_utf8_lossy(&out))
            }
        }
    }

    /// A whole amount.
    pub fn new(value: i64, format: Format) -> Self {
        Quantity::scaled(value, 0, format)
    }

    /// An amount of thousandths.
    pub fn milli(value: i64, format: Format) -> Self {
        Quantity::scaled(value, -3, format)
    }

    fn scaled(value: i64, exponent: i32, format: Format) -> Self {
        Quantity { mantissa: i128::from(value), exponent, format, wide: false, text: None }
    }

    /// The format that it is written in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    /// The whole amount, rounded away from zero. What does not fit 64 bits comes out as Go has it: zero, or the low
    /// bits of a number that was too long to begin with.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths, rounded away from zero; beyond 64 bits as `value`.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    fn scaled_value(&self, exponent: i32) -> i64 {
        let up = i64::from(self.exponent).saturating_sub(i64::from(exponent));
        if self.wide && up > 0 {
            let factor = u32::try_from(up).ok().and_then(|up| 10i64.checked_pow(up)).unwrap_or(i64::MIN);
            return (self.mantissa as i64).wrapping_mul(factor);
        }
        let scaled = self.rounded_to(exponent).0;
        i64::try_from(scaled).unwrap_or(if self.wide { scaled as i64 } else { 0 })
    }

    /// The mantissa at the power `exponent`, rounded away from zero, and whether nothing was lost.
    fn rounded_to(&self, exponent: i32) -> (i128, bool) {
        let down = i64::from(exponent).saturating_sub(i64::from(self.exponent));
        if down <= 0 {
            return match scale_up(self.mantissa, down.unsigned_abs()) {
                Some(exact) => (exact, true),
                None => (if self.mantissa < 0 { i128::MIN } else { i128::MAX }, false),
            };
        }
        let Some(divisor) = scale_up(1, down.unsigned_abs()) else {
            return (self.mantissa.signum(), self.mantissa == 0);
        };
        let whole = self.mantissa.checked_div(divisor).unwrap_or(0);
        let rest = self.mantissa.checked_rem(divisor).unwrap_or(0);
        (whole.saturating_add(rest.signum()), rest == 0)
    }

    /// The whole amount, where Go has it without effort: not for what was read with a fraction or a suffix below
    /// one, nor for what is larger than 64 bits.
    pub fn as_i64(&self) -> Option<i64> {
        if self.wide || self.exponent < 0 {
            return None;
        }
        let (whole, exact) = self.rounded_to(0);
        i64::try_from(whole).ok().filter(|_| exact)
    }

    /// The amount as a floating-point number, as good as that goes.
    pub fn as_f64(&self) -> f64 {
        if self.exponent == 0 {
            return self.mantissa as f64;
        }
        // Reading the power from text rounds it correctly, which repeated multiplication does not.
        let power = format!("1e{}", self.exponent).parse().unwrap_or(f64::INFINITY);
        self.mantissa as f64 * power
    }

    /// Rounds away from zero to whole multiples of `10^exponent`; tells whether nothing was lost.
    pub fn round_up(&mut self, exponent: i32) -> bool {
        if self.exponent >= exponent {
            return true;
        }
        let (mantissa, exact) = self.rounded_to(exponent);
        (self.mantissa, self.exponent, self.text) = (mantissa, exponent, None);
        exact
    }

    /// Adds another amount. Zero takes over the other's format.
    pub fn add(&mut self, other: &Quantity) {
        self.combine(other.mantissa, other);
    }

    /// Takes another amount away. Zero takes over the other's format.
    pub fn sub(&mut self, other: &Quantity) {
        self.combine(other.mantissa.saturating_neg(), other);
    }

    fn combine(&mut self, mantissa: i128, other: &Quantity) {
        self.text = None;
        if self.mantissa == 0 {
            self.format = other.format;
            (self.mantissa, self.exponent) = (mantissa, other.exponent);
            self.wide = self.wide || other.wide;
            return;
        }
        if mantissa == 0 {
            return;
        }
        let (mine, theirs) = ((self.mantissa, self.exponent), (mantissa, other.exponent));
        let sum = aligned_sum(mine, theirs).or_else(|| {
            // Factors of ten may be what does not fit.
            aligned_sum(reduced(mine.0, mine.1), reduced(theirs.0, theirs.1))
        });
        let saturated = if mine.0 < 0 { i128::MIN } else { i128::MAX };
        (self.mantissa, self.exponent) = sum.unwrap_or((saturated, self.exponent));
        self.wide = self.wide || other.wide || i64::try_from(self.mantissa).is_err();
    }

    /// Turns the sign around.
    pub fn neg(&mut self) {
        self.text = None;
        self.mantissa = self.mantissa.saturating_neg();
    }

    /// Multiplies by a whole number.
    pub fn mul(&mut self, factor: i64) {
        self.text = None;
        self.mantissa = self.mantissa.saturating_mul(i128::from(factor));
        self.wide = self.wide || i64::try_from(self.mantissa).is_err();
    }

    /// Compares with a whole amount.
    pub fn cmp_i64(&self, other: i64) -> Ordering {
        self.cmp(&Quantity::new(other, Format::DecimalSI))
    }
}

/// `mantissa * 10^by`, if that fits.
fn scale_up(mantissa: i128, by: u64) -> Option<i128> {
    if mantissa == 0 {
        return Some(0);
    }
    10i128.checked_pow(u32::try_from(by).ok()?)?.checked_mul(mantissa)
}

/// The sum at the smaller of both powers, if that fits.
fn aligned_sum(a: (i128, i32), b: (i128, i32)) -> Option<(i128, i32)> {
    let low = a.1.min(b.1);
    let align = |(m, e): (i128, i32)| scale_up(m, i64::from(e).saturating_sub(i64::from(low)).unsigned_abs());
    Some((align(a)?.checked_add(align(b)?)?, low))
}

/// The same amount with all factors of ten in the exponent.
fn reduced(mut mantissa: i128, mut exponent: i32) -> (i128, i32) {
    while mantissa != 0 && mantissa % 10 == 0 && exponent < i32::MAX {
        mantissa /= 10;
        exponent = exponent.saturating_add(1);
    }
    (mantissa, exponent)
}

fn digits(magnitude: u128) -> i64 {
    magnitude.checked_ilog10().map_or(0, |log| i64::from(log).saturating_add(1))
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
        let sign = self.mantissa.signum();
        match sign.cmp(&other.mantissa.signum()) {
            Ordering::Equal if sign == 0 => Ordering::Equal,
            Ordering::Equal if sign > 0 => cmp_magnitudes(self, other),
            Ordering::Equal => cmp_magnitudes(other, self),
            unequal => unequal,
        }
    }
}

fn cmp_magnitudes(a: &Quantity, b: &Quantity) -> Ordering {
    let (ma, mb) = (a.mantissa.unsigned_abs(), b.mantissa.unsigned_abs());
    let (ea, eb) = (i64::from(a.exponent), i64::from(b.exponent));
    // Orders of magnitude first: only numbers of the same length need to be aligned.
    let by_length = digits(ma).saturating_add(ea).cmp(&digits(mb).saturating_add(eb));
    if by_length != Ordering::Equal {
        return by_length;
    }
    let aligned = |m: u128, by: i64| {
        u32::try_from(by).ok().and_then(|by| 10u128.checked_pow(by)?.checked_mul(m)).unwrap_or(u128::MAX)
    };
    if ea >= eb {
        aligned(ma, ea.saturating_sub(eb)).cmp(&mb)
    } else {
        ma.cmp(&aligned(mb, eb.saturating_sub(ea)))
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

/// The text that a quantity is stored and answered with, for the text that a client sent.
pub fn canonical(text: &str) -> Result<Str, QuantityError> {
    let quantity = Quantity::parse(text.trim())?;
    Ok(match quantity.text {
        Some(text) => text,
        None => Str::from(quantity.to_string()),
    })
}

#[cfg(test)]
mod tests;
