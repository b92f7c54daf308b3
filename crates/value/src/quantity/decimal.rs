//! Decimal numbers of any size with the operations that quantities need: sum, order, product, rounding up, conversion to
//! a float.

use std::cmp::Ordering;

/// The maximum number of digits that a sum may have. Go has no bound; a sum of `1e2000000000` and `1` would take it minutes.
const SUM_DIGITS_MAX: i64 = 1 << 17;

/// `± digits × 10^exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// 0 to 9 each, the highest first; neither the first nor the last is 0. Empty for zero.
    digits: Vec<u8>,
    exponent: i64,
    /// The number of decimal places of Go's representation, from which Go computes floats.
    scale: i64,
}

impl Decimal {
    /// Creates a normalized number: zeros at either end are removed.
    pub(super) fn new(negative: bool, digits: &[u8], exponent: i64, scale: i64) -> Decimal {
        let start = digits.iter().position(|d| *d != 0).unwrap_or(digits.len());
        let end = digits.iter().rposition(|d| *d != 0).map_or(start, |last| last.saturating_add(1));
        let retained = digits.get(start..end).unwrap_or_default().to_vec();
        let exponent = if retained.is_empty() {
            0
        } else {
            exponent.saturating_add(digits.len().saturating_sub(end) as i64)
        };
        Decimal { negative: negative && !retained.is_empty(), digits: retained, exponent, scale }
    }

    /// Returns `value × 10^exponent`.
    pub(super) fn from_i64(value: i64, exponent: i64) -> Decimal {
        let digits: Vec<u8> =
            value.unsigned_abs().to_string().bytes().map(|b| b.saturating_sub(b'0')).collect();
        Decimal::new(value < 0, &digits, exponent, exponent.wrapping_neg())
    }

    /// How many significant digits there are.
    pub(super) fn digits(&self) -> usize {
        self.digits.len()
    }

    /// The power of ten of the last significant digit.
    pub(super) fn exponent(&self) -> i64 {
        self.exponent
    }

    pub(super) fn sign(&self) -> i32 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    #[must_use]
    pub(super) fn negated(mut self) -> Decimal {
        self.negative = !self.negative && !self.digits.is_empty();
        self
    }

    /// The power of ten of the first digit.
    fn magnitude(&self) -> i64 {
        self.exponent.saturating_add(self.digits.len() as i64)
    }

    pub(super) fn compare(&self, other: &Decimal) -> Ordering {
        match self.sign().cmp(&other.sign()) {
            Ordering::Equal if self.negative => other.compare_magnitude(self),
            Ordering::Equal => self.compare_magnitude(other),
            differs => differs,
        }
    }

    pub(super) fn compare_magnitude(&self, other: &Decimal) -> Ordering {
        // The digits begin and end with a nonzero digit, so numbers with the same magnitude compare as text.
        (!self.digits.is_empty()).cmp(&!other.digits.is_empty()).then_with(|| {
            self.magnitude().cmp(&other.magnitude()).then_with(|| self.digits.cmp(&other.digits))
        })
    }

    /// The sum, unless it has more digits than are allowed.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "exponents have 32 bits, columns of digits sum up to 19"
    )]
    pub(super) fn plus(&self, other: &Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        if self.digits.is_empty() || other.digits.is_empty() {
            let sum = if self.digits.is_empty() { other } else { self };
            return Some(Decimal { scale, ..sum.clone() });
        }
        let low = self.exponent.min(other.exponent);
        let width = self.magnitude().max(other.magnitude()) - low + 1;
        if width > SUM_DIGITS_MAX {
            return None;
        }
        let (large, small) =
            if self.compare_magnitude(other) == Ordering::Less { (other, self) } else { (self, other) };
        let adds = large.negative == small.negative;
        // While computing, the lowest digit is first.
        let mut sum = vec![0i8; width as usize];
        for (number, sign) in [(large, 1i8), (small, if adds { 1 } else { -1 })] {
            let start = (number.exponent - low) as usize;
            for (place, digit) in sum.iter_mut().skip(start).zip(number.digits.iter().rev()) {
                *place += sign * *digit as i8;
            }
        }
        let mut carry = 0i8;
        for place in &mut sum {
            *place += carry;
            carry = place.div_euclid(10);
            *place = place.rem_euclid(10);
        }
        let digits: Vec<u8> = sum.iter().rev().map(|d| *d as u8).collect();
        Some(Decimal::new(large.negative, &digits, low, scale))
    }

    /// The number times a whole one.
    #[must_use]
    #[expect(clippy::arithmetic_side_effects, reason = "a digit times 64 bits, and what is carried, fit 128")]
    pub(super) fn times(&self, factor: u64) -> Decimal {
        let mut digits = Vec::with_capacity(self.digits.len() + 20);
        let mut carry: u128 = 0;
        for digit in self.digits.iter().rev() {
            carry += u128::from(*digit) * u128::from(factor);
            digits.push((carry % 10) as u8);
            carry /= 10;
        }
        while carry > 0 {
            digits.push((carry % 10) as u8);
            carry /= 10;
        }
        digits.reverse();
        Decimal::new(self.negative, &digits, self.exponent, self.scale)
    }

    /// The number divided by a whole one, if both numbers are whole and nothing remains.
    #[expect(clippy::arithmetic_side_effects, reason = "ten times a remainder of 32 bits fits 64")]
    pub(super) fn divided_exactly(&self, divisor: u32) -> Option<Decimal> {
        let divisor = u64::from(divisor.max(1));
        let zeros = usize::try_from(self.exponent).ok()?;
        let mut quotient = Vec::with_capacity(self.digits.len() + zeros);
        let mut rest: u64 = 0;
        for digit in self.digits.iter().copied().chain(std::iter::repeat_n(0, zeros)) {
            rest = rest * 10 + u64::from(digit);
            quotient.push((rest / divisor) as u8);
            rest %= divisor;
        }
        (rest == 0).then(|| Decimal::new(self.negative, &quotient, 0, 0))
    }

    /// Go's `scaledValue`: the number of units of `10^-places`, truncated to the low 64 bits.
    pub(super) fn scaled_value(&self, places: i64) -> i64 {
        let unscaled = |exponent| Decimal { exponent, ..self.clone() };
        let whole = unscaled(self.exponent.saturating_add(self.scale));
        let down = self.scale.saturating_sub(places);
        let divisor = u32::try_from(down.unsigned_abs()).ok().and_then(|power| 10i64.checked_pow(power));
        if down <= 0 {
            // Go converts the factor from a float. If it does not fit, the result is the lowest number.
            return whole.low_bits().wrapping_mul(divisor.unwrap_or(i64::MIN));
        }
        if let Some(divisor) = divisor
            && whole.compare(&Decimal::from_i64(i64::MAX, 0)) == Ordering::Less
        {
            let low = whole.low_bits();
            let rest = low.checked_rem(divisor).unwrap_or(0);
            return low.checked_div(divisor).unwrap_or(0).wrapping_add(i64::from(rest != 0));
        }
        let exponent = self.exponent.saturating_add(places);
        let cut = usize::try_from(exponent.wrapping_neg()).unwrap_or(0);
        let retained = self.digits.get(..self.digits.len().saturating_sub(cut)).unwrap_or_default();
        let truncated = Decimal::new(self.negative, retained, exponent.max(0), 0).low_bits();
        // The remainder of Go's division is never negative.
        truncated.wrapping_add(i64::from(cut > 0 && !self.negative))
    }

    /// The low 64 bits of a whole number.
    fn low_bits(&self) -> i64 {
        let digits = self.digits.iter().fold(0i64, |sum, d| sum.wrapping_mul(10).wrapping_add(i64::from(*d)));
        // From 10^64 on the low bits are all zero.
        let zeros = u32::try_from(self.exponent).unwrap_or(u32::MAX).min(u64::BITS);
        let amount = digits.wrapping_mul(10i64.wrapping_pow(zeros));
        if self.negative { amount.wrapping_neg() } else { amount }
    }

    /// Rounds away from zero to `places` decimal places.
    #[must_use]
    pub(super) fn rounded_up(&self, places: i64) -> Decimal {
        let exponent = places.wrapping_neg();
        let surplus = exponent.saturating_sub(self.exponent);
        if surplus <= 0 || self.digits.is_empty() {
            return Decimal { scale: places, ..self.clone() };
        }
        let retained =
            usize::try_from(surplus).ok().and_then(|cut| self.digits.len().checked_sub(cut)).unwrap_or(0);
        let whole =
            Decimal::new(self.negative, self.digits.get(..retained).unwrap_or_default(), exponent, places);
        let one = Decimal::new(self.negative, &[1], exponent, places);
        whole.plus(&one).unwrap_or(one)
    }

    /// Converts to a float as Go does: the digits as a whole number, times a power of ten.
    pub(super) fn to_f64(&self) -> f64 {
        let mut text: String = self.digits.iter().map(|d| char::from(b'0' | d)).collect();
        text.push_str(&format!("e{}", self.exponent.saturating_add(self.scale)));
        let amount = if self.digits.is_empty() { 0.0 } else { text.parse().unwrap_or(f64::INFINITY) };
        let signed: f64 = if self.negative { -amount } else { amount };
        if self.scale == 0 { signed } else { signed * power_of_ten(self.scale.wrapping_neg()) }
    }
}

impl std::fmt::Display for Decimal {
    /// Writes the sign and the significant digits, without the power of ten.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        let digits: String = self.digits.iter().map(|d| char::from(b'0' | d)).collect();
        f.write_str(&digits)
    }
}

/// Go's `math.Pow10`, which multiplies two exact powers for large ones.
#[expect(clippy::arithmetic_side_effects, reason = "each arm bounds the power")]
pub(super) fn power_of_ten(power: i64) -> f64 {
    let exact = |power: i64| format!("1e{power}").parse().unwrap_or(f64::NAN);
    match power {
        0..=308 => exact(power / 32 * 32) * exact(power % 32),
        -323..=-1 => exact(power / 32 * 32) / exact(-(power % 32)),
        ..0 => 0.0,
        _ => f64::INFINITY,
    }
}
