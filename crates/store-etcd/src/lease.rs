//! Leases that many writes share, as in kube-apiserver: one lease per time to live, until it would expire too early.

use crate::channel::{Channel, Method};
use crate::grpc::CallError;
use crate::message;
use crate::options::Options;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A lease lasts longer than requested by this percentage (or by [`Options::lease_reuse`], if that is less).
const REUSE_PERCENT: u64 = 5;

struct Lease {
    id: i64,
    ends: Instant,
    writes: u32,
}

/// The leases that can be used again, by the time to live in seconds.
#[derive(Default)]
pub(crate) struct Leases(Mutex<BTreeMap<u64, Lease>>);

impl Leases {
    /// A lease that lives at least `ttl`.
    pub(crate) async fn lease(
        &self,
        channel: &Channel,
        options: &Options,
        ttl: Duration,
    ) -> Result<i64, CallError> {
        if let Some(id) = self.reusable_lease(options, ttl) {
            return Ok(id);
        }
        let longer = ttl.as_secs().saturating_mul(REUSE_PERCENT).wrapping_div(100);
        let seconds = ttl.as_secs().saturating_add(longer.min(options.lease_reuse.as_secs()));
        let ends = Instant::now().checked_add(Duration::from_secs(seconds));
        let request = message::lease_grant(i64::try_from(seconds).unwrap_or(i64::MAX));
        let answer = channel.call(Method::LeaseGrant, &request).await?;
        let id = message::granted_lease(&answer).map_err(|error| CallError::malformed(&error))?;
        if let Some(ends) = ends {
            self.lock().insert(ttl.as_secs(), Lease { id, ends, writes: 1 });
        }
        Ok(id)
    }

    fn reusable_lease(&self, options: &Options, ttl: Duration) -> Option<i64> {
        let mut leases = self.lock();
        let lease = leases.get_mut(&ttl.as_secs())?;
        let lives = lease.ends.saturating_duration_since(Instant::now()) >= ttl;
        let usable = lives && lease.writes < options.lease_writes_max;
        usable.then(|| {
            lease.writes = lease.writes.saturating_add(1);
            lease.id
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
