//! Native histograms (feature gate `NativeHistograms`): exponential buckets beside those with fixed bounds, with the resolution
//! and the limits that kube-apiserver gives to the client library of Prometheus. Only the protobuf format has them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The first resolution: eight buckets for each power of two.
const SCHEMA: i32 = 3;
/// The coarsest resolution.
const SCHEMA_MIN: i32 = -4;
/// With more buckets than this, the resolution is halved.
const BUCKETS_MAX: usize = 160;
/// Values up to this one count as zero: 2^-128.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;
/// The bounds within one power of two at [`SCHEMA`]; coarser ones use every second, fourth or eighth of them.
const BOUNDS: [f64; 8] = [
    0.5,
    0.545_253_866_332_628_8,
    0.594_603_557_501_360_5,
    0.648_419_777_325_504_8,
    0.707_106_781_186_547_5,
    0.771_105_412_703_970_4,
    0.840_896_415_253_714_4,
    0.917_004_043_204_671_1,
];

/// The histograms that have native buckets: those that kube-apiserver registers after it has read its feature gates.
const FAMILIES: &[&str] = &[
    "apiserver_authentication_jwt_authenticator_latency_seconds",
    "apiserver_authorization_match_condition_evaluation_seconds",
    "apiserver_authorization_webhook_duration_seconds",
    "apiserver_crd_conversion_webhook_duration_seconds",
    "apiserver_flowcontrol_request_execution_seconds",
    "apiserver_flowcontrol_request_queue_length_after_enqueue",
    "apiserver_flowcontrol_request_wait_duration_seconds",
    "apiserver_flowcontrol_watch_count_samples",
    "apiserver_flowcontrol_work_estimated_seats",
    "apiserver_impersonation_attempts_duration_seconds",
    "apiserver_impersonation_authorization_attempts_duration_seconds",
    "apiserver_request_body_size_bytes",
    "apiserver_request_duration_seconds",
    "apiserver_request_filter_duration_seconds",
    "apiserver_request_sli_duration_seconds",
    "apiserver_request_timestamp_comparison_time",
    "apiserver_response_sizes",
    "apiserver_watch_cache_read_wait_seconds",
    "apiserver_watch_events_sizes",
    "apiserver_watch_list_duration_seconds",
    "etcd_lease_object_counts",
    "etcd_request_duration_seconds",
    "field_validation_request_duration_seconds",
    "kube_apiserver_clusterip_allocator_allocation_duration_seconds",
];

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Lets histograms count in native buckets too. Must be called before anything is observed.
pub fn enable_native_histograms() {
    ENABLED.store(true, Ordering::Relaxed);
}

/// Returns whether a family has native buckets.
pub(crate) fn is_native(family: &str) -> bool {
    ENABLED.load(Ordering::Relaxed) && FAMILIES.binary_search(&family).is_ok()
}

/// The native buckets of one series.
pub(crate) struct Native(Mutex<Counts>);

/// Observations in exponential buckets.
#[derive(Clone)]
pub(crate) struct Counts {
    schema: i32,
    zero: u64,
    /// Observations by the index of their bucket.
    positive: BTreeMap<i32, u64>,
    negative: BTreeMap<i32, u64>,
}

/// A copy of the buckets, as they are exported.
pub(crate) struct Snapshot {
    pub(crate) schema: i32,
    pub(crate) zero_threshold: f64,
    pub(crate) zero: u64,
    pub(crate) positive: Spans,
    pub(crate) negative: Spans,
}

/// Runs of buckets: the gap before each run and its length; and of each bucket the difference to the one before it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Spans {
    pub(crate) spans: Vec<(i32, u32)>,
    pub(crate) deltas: Vec<i64>,
}

impl Native {
    pub(crate) fn new() -> Self {
        Native(Mutex::new(Counts::new()))
    }

    pub(crate) fn observe(&self, value: f64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).observe(value);
    }

    pub(crate) fn reset(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Counts::new();
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Snapshot {
            schema: counts.schema,
            zero_threshold: ZERO_THRESHOLD,
            zero: counts.zero,
            positive: Spans::of(&counts.positive),
            negative: Spans::of(&counts.negative),
        }
    }
}

impl Counts {
    pub(crate) fn new() -> Self {
        Counts { schema: SCHEMA, zero: 0, positive: BTreeMap::new(), negative: BTreeMap::new() }
    }

    pub(crate) fn observe(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        let buckets = match value {
            _ if value > ZERO_THRESHOLD => &mut self.positive,
            _ if value < -ZERO_THRESHOLD => &mut self.negative,
            _ => {
                self.zero = self.zero.saturating_add(1);
                return;
            }
        };
        let count = buckets.entry(index(value.abs(), self.schema)).or_default();
        *count = count.saturating_add(1);
        if self.positive.len().saturating_add(self.negative.len()) > BUCKETS_MAX && self.schema > SCHEMA_MIN {
            self.schema = self.schema.saturating_sub(1);
            self.positive = merged(&self.positive);
            self.negative = merged(&self.negative);
        }
    }
}

impl Counts {
    /// A value of each bucket, in the middle of its bounds, with the number of its observations.
    pub(crate) fn values(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let width = f64::from(self.schema.saturating_neg()).exp2();
        let middle = move |index: i32| ((f64::from(index) - 0.5) * width).exp2();
        let negative = self.negative.iter().map(move |(index, count)| (-middle(*index), *count));
        let positive = self.positive.iter().map(move |(index, count)| (middle(*index), *count));
        negative.chain([(0.0, self.zero)]).chain(positive).filter(|(_, count)| *count > 0)
    }
}

/// The index of the bucket of a positive value. Infinity has the one after the largest number's.
#[expect(clippy::arithmetic_side_effects, reason = "exponents have 11 bits, schemas are between -4 and 3")]
fn index(value: f64, schema: i32) -> i32 {
    let (finite, beyond) = if value.is_finite() { (value, 0) } else { (f64::MAX, 1) };
    // The value is above the zero threshold, so it is a normal number: fraction · 2^exponent, 0.5 <= fraction < 1.
    let bits = finite.to_bits();
    let exponent = i32::try_from(bits >> 52 & 0x7ff).unwrap_or(0) - 1022;
    let fraction = f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52);
    let index = if schema > 0 {
        let step = 1 << (SCHEMA - schema);
        let below = BOUNDS.iter().step_by(step).filter(|bound| **bound < fraction).count();
        i32::try_from(below).unwrap_or(0) + (exponent - 1) * (1 << schema)
    } else {
        let exponent = if fraction == 0.5 { exponent - 1 } else { exponent };
        (exponent + (1 << -schema) - 1) >> -schema
    };
    index + beyond
}

/// Joins each two buckets to one of twice the width.
fn merged(buckets: &BTreeMap<i32, u64>) -> BTreeMap<i32, u64> {
    let mut out = BTreeMap::new();
    for (index, count) in buckets {
        let index = if *index > 0 { index.saturating_add(1) } else { *index };
        let sum: &mut u64 = out.entry(index / 2).or_default();
        *sum = sum.saturating_add(*count);
    }
    out
}

impl Spans {
    /// Gaps of one or two buckets are filled with empty ones.
    fn of(buckets: &BTreeMap<i32, u64>) -> Self {
        let mut out = Spans::default();
        let (mut next, mut previous) = (0_i32, 0_i64);
        for (at, count) in buckets {
            let gap = at.saturating_sub(next);
            if out.spans.is_empty() || gap > 2 {
                out.spans.push((gap, 0));
            } else {
                (0..gap).for_each(|_| out.push(0, &mut previous));
            }
            out.push(i64::try_from(*count).unwrap_or(i64::MAX), &mut previous);
            next = at.saturating_add(1);
        }
        out
    }

    fn push(&mut self, count: i64, previous: &mut i64) {
        if let Some((_, length)) = self.spans.last_mut() {
            *length = length.saturating_add(1);
        }
        self.deltas.push(count.saturating_sub(*previous));
        *previous = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_families_can_be_searched() {
        assert!(FAMILIES.is_sorted());
        let known = crate::families::sorted();
        assert!(FAMILIES.iter().all(|name| known.iter().any(|(known, _)| known == name)));
    }

    #[test]
    fn values_are_counted_in_exponential_buckets() {
        // Upper bounds belong to their bucket: index 0 ends at 1.
        for (value, schema, want) in [
            (1.0, 3, 0),
            (1.000_001, 3, 1),
            (2.0, 3, 8),
            (0.5, 3, -8),
            (1.5, 3, 5),
            (1.5, 2, 3),
            (1.0, 0, 0),
            (1.5, 0, 1),
            (4.0, 0, 2),
            (4.0, -1, 1),
            (5.0, -1, 2),
            (f64::MAX, 0, 1024),
            (f64::INFINITY, 0, 1025),
        ] {
            assert_eq!(index(value, schema), want, "{value} at {schema}");
        }
    }

    #[test]
    fn small_gaps_are_filled() {
        let buckets = [(-5, 2), (-4, 3), (-1, 1), (9, 4)].into();
        let spans = Spans::of(&buckets);
        assert_eq!(spans, Spans { spans: vec![(-5, 5), (9, 1)], deltas: vec![2, 1, -3, 0, 1, 3] });
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let native = Native::new();
        (-500..500).for_each(|exponent| native.observe(2_f64.powi(exponent)));
        native.observe(0.0);
        native.observe(-1.0);
        native.observe(f64::NAN);
        let counts = native.0.lock().unwrap().clone();
        assert!(counts.positive.len() + counts.negative.len() <= BUCKETS_MAX);
        // 2^-500 to 2^-128 count as zero.
        assert_eq!(counts.positive.values().sum::<u64>(), 1000 - 373);
        assert_eq!((counts.zero, counts.negative.len()), (373 + 1, 1));
    }
}
