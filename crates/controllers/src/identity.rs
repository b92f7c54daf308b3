//! The identity Lease of this server in `kube-system`: other servers and people see from it which servers are alive.

use pintle_engine::{Engine, Target};
use pintle_meta::{Status, Timestamp};
use pintle_value::Value;
use std::sync::Arc;
use std::time::Duration;

const NAMESPACE: &str = "kube-system";
const MANAGER: &str = "kube-apiserver";
/// How long a server counts as alive after it renewed its Lease.
const DURATION_SECONDS: i64 = 3600;
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// Who this server is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name of the Lease. Servers of one host share it, as in kube-apiserver.
    pub name: String,
    /// Name of the host.
    pub hostname: String,
    /// This process: the name and a random part.
    pub holder: String,
}

/// Renews the Lease until the cache shuts down.
pub async fn run(engine: Arc<Engine>, identity: Identity) {
    loop {
        if let Err(status) = renew(&engine, &identity).await {
            tracing::warn!(lease = %identity.name, error = %status.message, "the identity lease could not be renewed");
        }
        // The wait ends early only when the cache shuts down: nothing ever reaches this revision.
        let _ = engine.cache.wait_for(u64::MAX, RENEW_EVERY).await;
        if engine.cache.is_closed() {
            return;
        }
    }
}

async fn renew(engine: &Engine, identity: &Identity) -> Result<(), Status> {
    let Some(target) = engine.target("coordination.k8s.io", "v1", "leases", NAMESPACE, &identity.name) else {
        return Ok(());
    };
    let (seconds, nanos) = engine.clock.now();
    let now = Timestamp { seconds, nanos }.rfc3339_micro().to_string();
    engine.ensure(&target, MANAGER, lease(identity, &now)).await?;
    renew_existing(engine, &target, identity, &now).await
}

async fn renew_existing(
    engine: &Engine,
    target: &Target,
    identity: &Identity,
    now: &str,
) -> Result<(), Status> {
    let change = |lease: &mut Value| {
        lease.set_at(&["spec", "holderIdentity"], identity.holder.as_str().into());
        lease.set_at(&["spec", "leaseDurationSeconds"], DURATION_SECONDS.into());
        lease.set_at(&["spec", "renewTime"], now.into());
    };
    engine.mutate(target, Some(MANAGER), change).await
}

fn lease(identity: &Identity, now: &str) -> Value {
    let mut lease = Value::object();
    for (path, text) in [
        (&["kind"] as &[&str], "Lease"),
        (&["apiVersion"], "coordination.k8s.io/v1"),
        (&["metadata", "name"], &identity.name),
        (&["metadata", "namespace"], NAMESPACE),
        (&["metadata", "labels", "apiserver.kubernetes.io/identity"], "kube-apiserver"),
        (&["metadata", "labels", "kubernetes.io/hostname"], &identity.hostname),
        (&["spec", "holderIdentity"], &identity.holder),
        (&["spec", "renewTime"], now),
    ] {
        lease.set_at(path, text.into());
    }
    lease.set_at(&["spec", "leaseDurationSeconds"], DURATION_SECONDS.into());
    lease
}
