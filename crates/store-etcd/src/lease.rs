//! Leases that many writes share, as in kube-apiserver: one lease per time to live, until it would expire too early.

use crate::channel::{Channel, Method};
use crate::grpc::CallError;
use crate::message;
use crate::options::Options;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A lease lives this part longer than asked for (or for [`Options::lease_reuse`], if that is less).
const REUSE_PERCENT: u32 = 5;

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
        if let Some(id) = self.reuse(options, ttl) {
            return Ok(id);
        }
        let longer = (ttl * REUSE_PERCENT / 100).min(options.lease_reuse);
        let seconds = ttl.as_secs() + longer.as_secs();
        let granted = Instant::now() + Duration::from_secs(seconds);
        let request = message::lease_grant(i64::try_from(seconds).unwrap_or(i64::MAX));
        let answer = channel.call(Method::LeaseGrant, &request).await?;
        let id = message::granted_lease(answer).map_err(|error| CallError::malformed(&error))?;
        self.lock().insert(ttl.as_secs(), Lease { id, ends: granted, writes: 1 });
        Ok(id)
    }

    fn reuse(&self, options: &Options, ttl: Duration) -> Option<i64> {
        let mut leases = self.lock();
        let lease = leases.get_mut(&ttl.as_secs())?;
        let usable = Instant::now() + ttl <= lease.ends && lease.writes < options.lease_writes_max;
        usable.then(|| {
            lease.writes += 1;
            lease.id
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
