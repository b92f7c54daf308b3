//! Decimal numbers of any size, as far as quantities need them: sum, order, rounding up, and nearness as a float.

use std::cmp::Ordering;

/// The most digits that a sum may have. Go has no bound; a sum of `1e2000000000` and `1` would take it minutes.
const SUM_DIGITS_MAX: i64 = 1 << 20;

/// `± digits × 10^exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// 0 to 9 each, the highest first; neither the first nor the last is 0. Empty for zero.
    digits: Vec<u8>,
    exponent: i64,
    /// How many places after the point Go's number is kept with: floats are computed from that form.
    scale: i64,
}

impl Decimal {
    /// Zeros at either end are taken off.
    pub(super) fn new(negative: bool, digits: &[u8], exponent: i64, scale: i64) -> Decimal {
        let start = digits.iter().position(|d| *d != 0).unwrap_or(digits.len());
        let end = digits.iter().rposition(|d| *d != 0).map_or(start, |last| last.saturating_add(1));
        let kept = digits.get(start..end).unwrap_or_default().to_vec();
        let exponent = if kept.is_empty() {
            0
        } else {
            exponent.saturating_add(digits.len().saturating_sub(end) as i64)
        };
        Decimal { negative: negative && !kept.is_empty(), digits: kept, exponent, scale }
    }

    /// `value × 10^exponent`
    pub(super) fn from_i64(value: i64, exponent: i64) -> Decimal {
        let digits: Vec<u8> =
            value.unsigned_abs().to_string().bytes().map(|b| b.saturating_sub(b'0')).collect();
        Decimal::new(value < 0, &digits, exponent, exponent.wrapping_neg())
    }

    pub(super) fn sign(&self) -> i64 {
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
            Ordering::Equal if self.negative => other.compare_amount(self),
            Ordering::Equal => self.compare_amount(other),
            differs => differs,
        }
    }

    fn compare_amount(&self, other: &Decimal) -> Ordering {
        // Digits begin and end without zeros: with the same first power, they compare as text does.
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
            if self.compare_amount(other) == Ordering::Less { (other, self) } else { (self, other) };
        let adds = large.negative == small.negative;
        // Lowest digit first while computing.
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

    /// The number times `2^power`, at most 60.
    #[must_use]
    #[expect(clippy::arithmetic_side_effects, reason = "ten times a digit of 64 bits fits 128")]
    pub(super) fn shifted_left(&self, power: u32) -> Decimal {
        let mut digits = Vec::with_capacity(self.digits.len() + 20);
        let mut carry: u128 = 0;
        for digit in self.digits.iter().rev() {
            carry += u128::from(*digit) << power.min(64);
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

    /// Kept with `places` after the point, rounded away from zero.
    #[must_use]
    pub(super) fn rounded_up(&self, places: i64) -> Decimal {
        let exponent = places.wrapping_neg();
        let surplus = exponent.saturating_sub(self.exponent);
        if surplus <= 0 || self.digits.is_empty() {
            return Decimal { scale: places, ..self.clone() };
        }
        let kept =
            usize::try_from(surplus).ok().and_then(|cut| self.digits.len().checked_sub(cut)).unwrap_or(0);
        let whole =
            Decimal::new(self.negative, self.digits.get(..kept).unwrap_or_default(), exponent, places);
        let one = Decimal::new(self.negative, &[1], exponent, places);
        whole.plus(&one).unwrap_or(one)
    }

    /// Go's way to a float: the digits as a whole number, times a power of ten.
    pub(super) fn to_f64(&self) -> f64 {
        let mut text: String = self.digits.iter().map(|d| char::from(b'0' | d)).collect();
        text.push_str(&format!("e{}", self.exponent.saturating_add(self.scale)));
        let amount = if self.digits.is_empty() { 0.0 } else { text.parse().unwrap_or(f64::INFINITY) };
        let signed: f64 = if self.negative { -amount } else { amount };
        if self.scale == 0 { signed } else { signed * power_of_ten(self.scale.wrapping_neg()) }
    }
}

/// Go's `math.Pow10`, which puts large powers together from two exact ones.
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
