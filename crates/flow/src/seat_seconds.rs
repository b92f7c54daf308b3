//! `SeatSeconds`: work, as seats times time, in kube-apiserver's fixed point.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// Units of one seat-second.
const SCALE: i128 = 100_000_000;
const NANOSECONDS_PER_UNIT: f64 = 10.0;

/// Seat-seconds. The sum over the life of a process never overflows 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatSeconds(i128);

impl SeatSeconds {
    /// No work.
    pub const ZERO: SeatSeconds = SeatSeconds(0);

    /// The work of `seats` seats in this time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "rounded to units of work"
    )]
    pub fn new(seats: f64, time: Duration) -> Self {
        SeatSeconds((seats * time.as_nanos() as f64 / NANOSECONDS_PER_UNIT).round() as i128)
    }

    /// As a number of seat-seconds.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / SCALE as f64
    }

    /// How long this work takes on so many seats.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "work is not negative"
    )]
    pub fn per_seat(self, seats: u64) -> Duration {
        Duration::from_nanos((self.0 as f64 / seats.max(1) as f64 * NANOSECONDS_PER_UNIT) as u64)
    }
}

impl Add for SeatSeconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        SeatSeconds(self.0.saturating_add(other.0))
    }
}

impl Sub for SeatSeconds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        SeatSeconds(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for SeatSeconds {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl SubAssign for SeatSeconds {
    fn sub_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_sub(other.0);
    }
}

impl fmt::Display for SeatSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:08}ss", self.0.div_euclid(SCALE), self.0.rem_euclid(SCALE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_written_as_kube_apiserver_writes_it() {
        let work = SeatSeconds::new(2.0, Duration::from_millis(3));
        assert_eq!(work.to_string(), "0.00600000ss");
        assert_eq!(work.per_seat(1), Duration::from_millis(6));
        assert_eq!(SeatSeconds::new(600.0, Duration::from_secs(100_000)).to_string(), "60000000.00000000ss");
    }
}
