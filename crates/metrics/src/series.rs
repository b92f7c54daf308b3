//! One series of a family: atomics that are updated without a lock.

use crate::native::Native;
use crate::quantiles::Quantiles;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A counter, gauge or histogram with fixed label values.
pub struct Series {
    /// How often the series was counted or observed.
    count: AtomicU64,
    /// The bits of a float: a gauge's value or the sum of observations.
    value: AtomicU64,
    /// Observations by bucket, each in one bucket only.
    buckets: Box<[AtomicU64]>,
    native: Option<Box<Native>>,
    /// Of a summary.
    quantiles: Option<Box<Quantiles>>,
    /// When the series began to count, in nanoseconds since 1970.
    created: AtomicU64,
}

/// A series that a caller retains, to count without a lookup.
pub type Handle = Arc<Series>;

impl Series {
    pub(crate) fn new(bounds: &[f64], native: bool) -> Self {
        Series {
            count: AtomicU64::new(0),
            value: AtomicU64::new(0),
            buckets: bounds.iter().map(|_| AtomicU64::new(0)).collect(),
            native: native.then(|| Box::new(Native::new())),
            quantiles: None,
            created: AtomicU64::new(now()),
        }
    }

    /// A series of a summary.
    pub(crate) fn summary() -> Self {
        Series { quantiles: Some(Box::new(Quantiles::new())), ..Series::new(&[], false) }
    }

    /// Counts this many.
    pub fn add(&self, count: u64) {
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    /// Sets a counter that is counted elsewhere.
    pub fn set_count(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// Starts again at zero.
    pub(crate) fn zero(&self) {
        let all = [&self.count, &self.value].into_iter().chain(&self.buckets);
        all.for_each(|number| number.store(0, Ordering::Relaxed));
        self.native.iter().for_each(|native| native.reset());
        self.quantiles.iter().for_each(|quantiles| quantiles.reset());
        self.created.store(now(), Ordering::Relaxed);
    }

    /// Sets a gauge.
    pub fn set(&self, value: f64) {
        self.value.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Adds to a gauge.
    pub fn shift(&self, by: f64) {
        let add = |bits| Some((f64::from_bits(bits) + by).to_bits());
        _ = self.value.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Counts an observation; `bounds` are those of the family.
    pub fn observe(&self, bounds: &[f64], value: f64) {
        // Not a binary search: most requests are fast, and their durations in the first buckets.
        let bucket = bounds.iter().take_while(|bound| **bound < value).count();
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(native) = &self.native {
            native.observe(value);
        }
        if let Some(quantiles) = &self.quantiles {
            quantiles.observe(value, now());
        }
        self.shift(value);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an observation of zero, which is in the first bucket.
    pub fn count_zero(&self) {
        if let Some(bucket) = self.buckets.first() {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds observations that were counted elsewhere, with the same buckets.
    pub fn merge(&self, buckets: &[u64], count: u64, sum: f64) {
        for (bucket, more) in self.buckets.iter().zip(buckets) {
            bucket.fetch_add(*more, Ordering::Relaxed);
        }
        self.shift(sum);
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn bucket_counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed))
    }

    pub(crate) fn native(&self) -> Option<&Native> {
        self.native.as_deref()
    }

    /// The values of [`crate::quantiles::QUANTILES`].
    pub(crate) fn quantiles(&self) -> Option<[f64; 3]> {
        self.quantiles.as_ref().map(|quantiles| quantiles.values(now()))
    }

    /// When the series began to count, in nanoseconds since 1970.
    pub(crate) fn created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn value(&self) -> f64 {
        f64::from_bits(self.value.load(Ordering::Relaxed))
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
