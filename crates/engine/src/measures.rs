//! Metrics of the store and the cache, under kube-apiserver's names.

use crate::Target;
use pintle_apply::Comparison;
use pintle_kinds::Kind;
use pintle_metrics::{Handle, families};
use pintle_value::Str;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Measures one request to the store until it is dropped.
pub(crate) struct StoreRequest<'a> {
    target: &'a Target,
    operation: &'static str,
    began: Instant,
}

impl<'a> StoreRequest<'a> {
    /// A request that begins now.
    pub(crate) fn begin(target: &'a Target, operation: &'static str) -> Self {
        StoreRequest { target, operation, began: Instant::now() }
    }
}

impl Drop for StoreRequest<'_> {
    fn drop(&mut self) {
        let seconds = self.began.elapsed().as_secs_f64();
        LAST_STORE_SERIES.with_borrow_mut(|last| {
            let kind = &self.target.kind;
            let series = match last {
                Some(series) if series.is_of(self.operation, kind) => series,
                _ => last.insert(StoreSeries::new(self.operation, kind)),
            };
            series.duration.observe(families::ETCD_DURATION.buckets(), seconds);
            series.requests.add(1);
        });
    }
}

/// The series of requests to the store of one operation and resource.
struct StoreSeries {
    operation: &'static str,
    group: Str,
    plural: Str,
    duration: Handle,
    requests: Handle,
}

thread_local! {
    /// The series that this thread used last: most requests are like the one before, and looking a series up takes longer
    /// than counting.
    static LAST_STORE_SERIES: RefCell<Option<StoreSeries>> = const { RefCell::new(None) };
}

impl StoreSeries {
    fn new(operation: &'static str, kind: &Kind) -> Self {
        let labels = [kind.group.as_str(), operation, kind.plural.as_str()];
        StoreSeries {
            operation,
            group: kind.group.as_str().into(),
            plural: kind.plural.as_str().into(),
            duration: families::ETCD_DURATION.with(&labels),
            requests: families::ETCD_REQUESTS.with(&labels),
        }
    }

    fn is_of(&self, operation: &str, kind: &Kind) -> bool {
        self.operation == operation && self.plural == kind.plural && self.group == kind.group
    }
}

/// Records a consistent list and how long the cache took to reach the required revision.
pub(crate) fn consistent_read(target: &Target, waited: Duration) {
    let kind = &target.kind;
    families::CONSISTENT_READS.inc(&["false", &kind.group, &kind.plural, "true"]);
    families::READ_WAIT.observe(&[&kind.group, &kind.plural], waited.as_secs_f64());
}

/// Records a list from the cache: how many objects were examined and how many returned.
pub(crate) fn listed(target: &Target, fetched: usize, returned: usize) {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let (group, plural) = (target.kind.group.as_str(), target.kind.plural.as_str());
    families::CACHE_LISTS.inc(&[group, "", plural]);
    families::CACHE_LIST_FETCHED.add(&[group, "", plural], count(fetched));
    families::CACHE_LIST_RETURNED.add(&[group, plural], count(returned));
}

/// Records a write of one of the server's own controllers.
pub(crate) fn self_request(target: &Target, verb: &str) {
    let kind = &target.kind;
    families::SELF_REQUESTS.inc(&[&kind.group, &kind.plural, &target.subresource, verb]);
}

/// Records that an update was compared with the stored object.
pub(crate) fn compared(comparison: Comparison, took: Duration) {
    static SERIES: [OnceLock<Handle>; 3] = [const { OnceLock::new() }; 3];
    let [fast, slow, equal] = &SERIES;
    let (series, path) = match comparison {
        Comparison::UnequalFast => (fast, "unequal_objects_fast"),
        Comparison::UnequalSlow => (slow, "unequal_objects_slow"),
        Comparison::Equal => (equal, "equal_objects"),
    };
    let series = series.get_or_init(|| families::OBJECT_COMPARISON.with(&[path]));
    series.observe(families::OBJECT_COMPARISON.buckets(), took.as_secs_f64());
}
