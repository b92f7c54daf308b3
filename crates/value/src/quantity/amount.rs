//! Amounts as Go's `resource.Quantity` holds them: a 64-bit number with a power of ten if that is enough, a decimal of
//! any size otherwise. The difference is visible: `AsInt64` succeeds only for the former.

use super::decimal::{Decimal, power_of_ten};
use std::cmp::Ordering;

/// Powers of ten up to this one fit 64 bits.
const POWER_MAX: u32 = 18;

#[derive(Clone, Debug)]
pub(super) enum Amount {
    /// `value × 10^exponent`
    Small {
        value: i64,
        exponent: i32,
    },
    Large(Decimal),
}

impl Amount {
    pub(super) fn decimal(&self) -> Decimal {
        match self {
            Amount::Small { value, exponent } => Decimal::from_i64(*value, i64::from(*exponent)),
            Amount::Large(decimal) => decimal.clone(),
        }
    }

    pub(super) fn sign(&self) -> i32 {
        match self {
            Amount::Small { value, .. } => value.signum() as i32,
            Amount::Large(decimal) => decimal.sign(),
        }
    }

    pub(super) fn compare(&self, other: &Amount) -> Ordering {
        if let (Amount::Small { value: a, exponent: x }, Amount::Small { value: b, exponent: y }) =
            (self, other)
        {
            let low = (*x).min(*y);
            if let (Some(a), Some(b)) = (aligned(*a, *x, low), aligned(*b, *y, low)) {
                return a.cmp(&b);
            }
        }
        self.decimal().compare(&other.decimal())
    }

    /// Compares the absolute values.
    pub(super) fn compare_magnitude(&self, other: &Amount) -> Ordering {
        self.decimal().compare_magnitude(&other.decimal())
    }

    /// The whole number, if Go finds it without a decimal: an amount with a negative power of ten is never an integer.
    pub(super) fn as_integer(&self) -> Option<i64> {
        match self {
            Amount::Small { value, exponent } if *exponent >= 0 => scaled(*value, i64::from(*exponent)),
            _ => None,
        }
    }

    pub(super) fn to_f64(&self) -> f64 {
        match self {
            Amount::Small { value, exponent: 0 } => *value as f64,
            Amount::Small { value, exponent } => *value as f64 * power_of_ten(i64::from(*exponent)),
            Amount::Large(decimal) => decimal.to_f64(),
        }
    }

    /// The multiple of `10^exponent`, rounded as Go does: if it does not fit, Go returns the low bits.
    pub(super) fn scaled_value(&self, exponent: i32) -> i64 {
        match self {
            Amount::Small { value, exponent: own } if *own < exponent => {
                divided(*value, i64::from(exponent).saturating_sub(i64::from(*own))).0
            }
            Amount::Small { value, exponent: own } => {
                let power = i64::from(*own).saturating_sub(i64::from(exponent));
                scaled(*value, power).unwrap_or_else(|| overflowed(*value, power))
            }
            Amount::Large(decimal) => decimal.scaled_value(i64::from(exponent).wrapping_neg()),
        }
    }

    /// The amount, rounded away from zero to a multiple of `10^exponent`, and whether rounding was exact.
    pub(super) fn rounded_up(&self, exponent: i32) -> (Amount, bool) {
        match self {
            Amount::Small { exponent: own, .. } if *own >= exponent => (self.clone(), true),
            Amount::Small { value, exponent: own } => {
                let (value, is_exact) = divided(*value, i64::from(exponent).saturating_sub(i64::from(*own)));
                (Amount::Small { value, exponent }, is_exact)
            }
            Amount::Large(decimal) => {
                let rounded = decimal.rounded_up(i64::from(exponent).wrapping_neg());
                let is_exact = rounded.compare(decimal) == Ordering::Equal;
                (Amount::Large(rounded), is_exact)
            }
        }
    }

    /// The sum, unless it has too many digits.
    pub(super) fn plus(&self, other: &Amount) -> Option<Amount> {
        if let (Amount::Small { value: a, exponent: x }, Amount::Small { value: b, exponent: y }) =
            (self, other)
            && let Some(sum) = plus_small((*a, *x), (*b, *y))
        {
            return Some(sum);
        }
        self.decimal().plus(&other.decimal()).map(Amount::Large)
    }

    /// The difference, unless it has too many digits.
    pub(super) fn minus(&self, other: &Amount) -> Option<Amount> {
        if let (Amount::Small { value: a, exponent: x }, Amount::Small { value: b, exponent: y }) =
            (self, other)
            && let Some(difference) = plus_small((*a, *x), (b.wrapping_neg(), *y))
        {
            return Some(difference);
        }
        self.decimal().plus(&other.decimal().negated()).map(Amount::Large)
    }

    /// The negated amount. As in Go, the lowest 64-bit number is its own negative.
    pub(super) fn negated(&self) -> Amount {
        match self {
            Amount::Small { value, exponent } => {
                Amount::Small { value: value.wrapping_neg(), exponent: *exponent }
            }
            Amount::Large(decimal) => Amount::Large(decimal.clone().negated()),
        }
    }

    /// The product with a whole number. Go uses the small form only if the whole part is exact in 64 bits.
    pub(super) fn times(&self, factor: i64) -> Amount {
        if let Amount::Small { value, exponent } = self {
            let product = match (*value, factor) {
                (0, _) => Some((0, *exponent)),
                (_, 0) => Some((0, 0)),
                _ => value.checked_mul(factor).map(|product| (product, *exponent)),
            };
            let fits = |(product, exponent): &(i64, i32)| match *exponent {
                _ if *product == 0 => true,
                0.. => scaled(*product, i64::from(*exponent)).is_some(),
                ..0 => divided(*product, i64::from(*exponent).wrapping_neg()).1,
            };
            if let Some((value, exponent)) = product.filter(fits) {
                return Amount::Small { value, exponent };
            }
        }
        let product = self.decimal().times(factor.unsigned_abs());
        Amount::Large(if factor < 0 { product.negated() } else { product })
    }
}

/// `value × 10^power` in 64 bits.
pub(super) fn scaled(value: i64, power: i64) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    let factor = 10i64.checked_pow(u32::try_from(power).ok()?)?;
    value.checked_mul(factor)
}

/// Go's result for `value × 10^power` that does not fit 64 bits: the low bits if Go's table has that power, otherwise
/// zero.
fn overflowed(value: i64, power: i64) -> i64 {
    match power {
        1 | 2 | 3 | 6 | 9 if value != i64::MIN => {
            value.wrapping_mul(10i64.wrapping_pow(power.unsigned_abs() as u32))
        }
        _ => 0,
    }
}

/// `value × 10^(exponent - low)` in 128 bits.
fn aligned(value: i64, exponent: i32, low: i32) -> Option<i128> {
    let power = u32::try_from(i64::from(exponent).saturating_sub(i64::from(low))).ok()?;
    let factor = 10i128.checked_pow(power.min(POWER_MAX.saturating_add(1)))?;
    (power <= POWER_MAX).then(|| i128::from(value).saturating_mul(factor))
}

/// `value / 10^power`, rounded away from zero, and whether the division was exact.
fn divided(value: i64, power: i64) -> (i64, bool) {
    let divisor = u32::try_from(power).ok().and_then(|power| 10i64.checked_pow(power));
    let Some(divisor) = divisor else { return (value.signum(), value == 0) };
    let whole = value.checked_div(divisor).unwrap_or(0);
    let rest = value.checked_rem(divisor).unwrap_or(0);
    (whole.saturating_add(rest.signum()), rest == 0)
}

fn plus_small(a: (i64, i32), b: (i64, i32)) -> Option<Amount> {
    let (value, exponent) = match (a, b) {
        (_, (0, _)) => a,
        ((0, _), _) => b,
        ((x, left), (y, right)) => {
            let low = left.min(right);
            let x = scaled(x, i64::from(left).saturating_sub(i64::from(low)))?;
            let y = scaled(y, i64::from(right).saturating_sub(i64::from(low)))?;
            (x.checked_add(y)?, low)
        }
    };
    Some(Amount::Small { value, exponent })
}
