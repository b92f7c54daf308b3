//! Histograms that are updated under the caller's lock, and histograms of a ratio over time. `take` returns the
//! observations since the last call, which the metrics registry adds.

use std::time::Duration;

/// The maximum number of buckets of a histogram here.
const BUCKETS_MAX: usize = 16;

/// Observations since the last [`Histogram::take`].
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: [u64; BUCKETS_MAX],
    count: u64,
    sum: f64,
}

impl Histogram {
    /// An empty histogram; `bounds` are the upper bounds of its buckets.
    pub fn new(bounds: &'static [f64]) -> Self {
        Histogram { bounds, counts: [0; BUCKETS_MAX], count: 0, sum: 0.0 }
    }

    /// Counts an observation.
    pub fn observe(&mut self, value: f64) {
        self.observe_in(self.bucket_of(value), value, 1);
    }

    fn bucket_of(&self, value: f64) -> usize {
        // Not a binary search: most values are in the first buckets.
        self.bounds.iter().take_while(|bound| **bound < value).count()
    }

    #[expect(clippy::cast_precision_loss, reason = "a weight")]
    fn observe_in(&mut self, bucket: usize, value: f64, times: u64) {
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(times);
        }
        self.count = self.count.saturating_add(times);
        self.sum += value * times as f64;
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Observations by bucket; those above the last bound are only in [`Histogram::count`].
    pub fn counts(&self) -> &[u64] {
        self.counts.get(..self.bounds.len()).unwrap_or(&[])
    }

    /// All observations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the observed values.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Returns the observations since the last call.
    pub fn take(&mut self) -> Histogram {
        std::mem::replace(self, Histogram::new(self.bounds))
    }
}

/// A ratio over time: a histogram in which every nanosecond counts once.
#[derive(Clone, Debug)]
pub(crate) struct TimingRatio {
    histogram: Histogram,
    updated: Duration,
    numerator: f64,
    denominator: f64,
    ratio: f64,
    bucket: usize,
}

/// The observations of a [`TimingRatio`] since the last report.
pub type TimingReport = Histogram;

impl TimingRatio {
    pub(crate) fn new(bounds: &'static [f64], now: Duration) -> Self {
        let histogram = Histogram::new(bounds);
        TimingRatio { histogram, updated: now, numerator: 0.0, denominator: 1.0, ratio: 0.0, bucket: 0 }
    }

    pub(crate) fn set(&mut self, now: Duration, numerator: f64) {
        if numerator != self.numerator {
            self.advance(now);
            self.numerator = numerator;
            self.update();
        }
    }

    /// A denominator of zero counts as one: a level without seats can have requests.
    pub(crate) fn set_denominator(&mut self, now: Duration, denominator: f64) {
        self.advance(now);
        self.denominator = if denominator > 0.0 { denominator } else { 1.0 };
        self.update();
    }

    fn update(&mut self) {
        self.ratio = self.numerator / self.denominator;
        self.bucket = self.histogram.bucket_of(self.ratio);
    }

    fn advance(&mut self, now: Duration) {
        let time = now.saturating_sub(self.updated);
        self.updated = self.updated.max(now);
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.observe_in(self.bucket, self.ratio, nanoseconds);
    }

    pub(crate) fn take(&mut self, now: Duration) -> TimingReport {
        self.advance(now);
        self.histogram.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nanosecond_counts() {
        let at = Duration::from_nanos;
        let mut ratio = TimingRatio::new(&[0.0, 0.5, 1.0], at(0));
        ratio.set_denominator(at(0), 4.0);
        ratio.set(at(10), 2.0);
        ratio.set(at(30), 8.0);
        let seen = ratio.take(at(35));
        assert_eq!((seen.counts(), seen.count()), ([10, 20, 0].as_slice(), 35));
        assert!((seen.sum() - (20.0 * 0.5 + 5.0 * 2.0)).abs() < 1e-9);
        assert_eq!(ratio.take(at(36)).count(), 1);
    }
}
