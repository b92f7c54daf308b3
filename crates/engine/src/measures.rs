//! Metrics of the store and the cache, under kube-apiserver's names.

use crate::Target;
use pintle_metrics::families;
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
        let kind = &self.target.kind;
        let labels = [kind.group.as_str(), self.operation, kind.plural.as_str()];
        families::ETCD_DURATION.observe(&labels, self.began.elapsed().as_secs_f64());
        families::ETCD_REQUESTS.inc(&labels);
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
pub(crate) fn compared(is_same: bool, took: Duration) {
    let path = if is_same { "equal_objects" } else { "unequal_objects_fast" };
    families::OBJECT_COMPARISON.observe(&[path], took.as_secs_f64());
}
