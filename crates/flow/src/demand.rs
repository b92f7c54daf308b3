//! The demand of a priority level: how many seats its requests would take, integrated over time and smoothed.

use std::time::Duration;

/// The share of the smoothed demand that remains after each period of ten seconds: half of it in five minutes.
const SMOOTHING: f64 = 0.977;

/// Integrates the number of seats in demand over a period.
#[derive(Clone, Debug)]
pub(crate) struct Integrator {
    seats: f64,
    updated: Duration,
    elapsed: f64,
    integral: f64,
    integral_of_squares: f64,
    most: f64,
}

impl Integrator {
    pub(crate) fn new(now: Duration) -> Self {
        Integrator {
            seats: 0.0,
            updated: now,
            elapsed: 0.0,
            integral: 0.0,
            integral_of_squares: 0.0,
            most: 0.0,
        }
    }

    pub(crate) fn set(&mut self, now: Duration, seats: f64) {
        self.advance(now);
        self.seats = seats;
        self.most = self.most.max(seats);
    }

    fn advance(&mut self, now: Duration) {
        let seconds = now.saturating_sub(self.updated).as_secs_f64();
        self.updated = self.updated.max(now);
        self.elapsed += seconds;
        self.integral += self.seats * seconds;
        self.integral_of_squares += self.seats * self.seats * seconds;
    }
}

/// The demand of the last period, and the demand smoothed over earlier periods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the metrics")]
pub struct Demand {
    pub average: f64,
    pub deviation: f64,
    pub high_watermark: u64,
    pub smoothed: f64,
}

impl Demand {
    /// Ends the integrator's period and begins the next.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of seats")]
    pub(crate) fn update(&mut self, integrator: &mut Integrator, now: Duration) {
        integrator.advance(now);
        self.high_watermark = integrator.most.round() as u64;
        let elapsed = integrator.elapsed;
        let fresh = Integrator::new(integrator.updated);
        let ended = std::mem::replace(
            integrator,
            Integrator { seats: integrator.seats, most: integrator.seats, ..fresh },
        );
        if elapsed <= 0.0 {
            return;
        }
        self.average = ended.integral / elapsed;
        let variance = ended.integral_of_squares / elapsed - self.average * self.average;
        self.deviation = if variance >= 0.0 { variance.sqrt() } else { 0.0 };
        let envelope = self.average + self.deviation;
        self.smoothed = envelope.max(SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_rises_at_once_and_falls_slowly() {
        let at = Duration::from_secs;
        let mut integrator = Integrator::new(at(0));
        integrator.set(at(0), 10.0);
        let mut demand = Demand::default();
        integrator.set(at(5), 0.0);
        demand.update(&mut integrator, at(10));
        assert_eq!((demand.average, demand.deviation, demand.high_watermark), (5.0, 5.0, 10));
        assert_eq!(demand.smoothed, 10.0);
        demand.update(&mut integrator, at(20));
        assert_eq!((demand.average, demand.high_watermark), (0.0, 0));
        assert!((demand.smoothed - 9.77).abs() < 1e-9);
    }
}
