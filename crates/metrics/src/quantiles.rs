//! The quantiles of a summary: of the observations of the last five hours, as in kube-apiserver. They are estimated from
//! exponential buckets, eight for each power of two.

use crate::native::Counts;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The quantiles that are exported.
pub(crate) const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// The number of windows.
const WINDOWS: u64 = 5;
/// The length of a window.
const WINDOW_NANOSECONDS: u64 = 3_600 * 1_000_000_000;

/// The observations of the last windows, by the number of the window.
pub(crate) struct Quantiles(Mutex<VecDeque<(u64, Counts)>>);

impl Quantiles {
    pub(crate) fn new() -> Self {
        Quantiles(Mutex::new(VecDeque::new()))
    }

    /// Counts an observation; `now` is in nanoseconds since 1970.
    pub(crate) fn observe(&self, value: f64, now: u64) {
        let window = now / WINDOW_NANOSECONDS;
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop_old(&mut windows, window);
        match windows.back_mut().filter(|(number, _)| *number >= window) {
            Some((_, counts)) => counts.observe(value),
            None => {
                let mut counts = Counts::new();
                counts.observe(value);
                windows.push_back((window, counts));
            }
        }
    }

    pub(crate) fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The values of [`QUANTILES`], which are not numbers if nothing was observed.
    pub(crate) fn values(&self, now: u64) -> [f64; 3] {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop_old(&mut windows, now / WINDOW_NANOSECONDS);
        let mut values: Vec<(f64, u64)> = windows.iter().flat_map(|(_, counts)| counts.values()).collect();
        drop(windows);
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        QUANTILES.map(|quantile| find(&values, quantile))
    }
}

fn drop_old(windows: &mut VecDeque<(u64, Counts)>, window: u64) {
    while windows.front().is_some_and(|(number, _)| number.saturating_add(WINDOWS) <= window) {
        windows.pop_front();
    }
}

/// The value at a quantile of values with their frequency, sorted.
#[expect(clippy::cast_precision_loss, reason = "a rank of so many observations need not be exact")]
fn find(values: &[(f64, u64)], quantile: f64) -> f64 {
    let total = values.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let rank = total as f64 * quantile;
    let mut seen = 0_u64;
    for (value, count) in values {
        seen = seen.saturating_add(*count);
        if seen as f64 >= rank {
            return *value;
        }
    }
    f64::NAN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_last_five_hours() {
        let quantiles = Quantiles::new();
        let rounded = |now| quantiles.values(now).map(|value| (value * 100.0).round());
        assert!(quantiles.values(0).iter().all(|value| value.is_nan()));
        for at in 0..100 {
            quantiles.observe(f64::from(at) / 100.0, 0);
        }
        // A bucket is nine per cent wide.
        for (value, want) in quantiles.values(0).into_iter().zip(QUANTILES) {
            assert!((value / want - 1.0).abs() < 0.1, "{value} for {want}");
        }
        let later = 4 * WINDOW_NANOSECONDS;
        (0..300).for_each(|_| quantiles.observe(0.0, later));
        assert_eq!(rounded(later)[0], 0.0);
        assert_eq!(rounded(later + WINDOW_NANOSECONDS), [0.0; 3]);
        assert!(quantiles.values(3 * later).iter().all(|value| value.is_nan()));
    }
}
