//! The identity Lease of this server in `kube-system`, which shows which servers are alive.

use pintle_engine::{Engine, Target};
use pintle_meta::options::DeleteOptions;
use pintle_meta::{Status, Timestamp};
use pintle_value::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const NAMESPACE: &str = "kube-system";
const MANAGER: &str = "kube-apiserver";
const LEASES: &str = "/registry/leases/";
const LABEL: &str = "apiserver.kubernetes.io/identity";
const LABEL_VALUE: &str = "kube-apiserver";
/// How long a server counts as alive after renewing its Lease.
const DURATION_SECONDS: i64 = 3600;
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How often expired Leases of other servers are collected.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);
/// How long a stopping server tries to remove its Lease.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The identity of this server.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name of the Lease. Servers of one host share it, as in kube-apiserver.
    pub name: String,
    /// Name of the host.
    pub hostname: String,
    /// Identifies this process: the name and a random part.
    pub holder: String,
    /// The address at which other servers reach this one, if it is published.
    pub peer: Option<String>,
}

/// Renews the Lease until the server stops.
pub struct Heartbeat {
    engine: Arc<Engine>,
    identity: Identity,
    /// Locked during a renewal, so that no renewal follows the removal.
    stopped: tokio::sync::Mutex<bool>,
}

impl Heartbeat {
    /// A heartbeat that has not begun.
    pub fn new(engine: Arc<Engine>, identity: Identity) -> Arc<Heartbeat> {
        Arc::new(Heartbeat { engine, identity, stopped: tokio::sync::Mutex::new(false) })
    }

    /// Renews the Lease until [`Heartbeat::stop`] is called or the cache shuts down. A Lease of an earlier process is
    /// removed first, so that it does not appear alive.
    pub async fn run(self: Arc<Heartbeat>) {
        self.report(self.remove().await);
        loop {
            {
                let stopped = self.stopped.lock().await;
                if *stopped {
                    return;
                }
                self.report(self.renew().await);
            }
            if wait(&self.engine, RENEW_EVERY).await {
                return;
            }
        }
    }

    /// Removes the Lease.
    pub async fn stop(&self) {
        let remove = async {
            *self.stopped.lock().await = true;
            self.report(self.remove().await);
        };
        if timeout(STOP_MAX, remove).await.is_err() {
            tracing::warn!(lease = %self.identity.name, "the identity lease could not be removed in time");
        }
    }

    fn report(&self, result: Result<(), Status>) {
        if let Err(status) = result {
            let lease = &self.identity.name;
            tracing::warn!(%lease, error = %status.message, "the identity lease could not be written");
        }
    }

    fn target(&self) -> Option<Target> {
        self.engine.storage().target("coordination.k8s.io", "v1", "leases", NAMESPACE, &self.identity.name)
    }

    async fn remove(&self) -> Result<(), Status> {
        match self.target() {
            Some(target) => delete(&self.engine, &target).await,
            None => Ok(()),
        }
    }

    async fn renew(&self) -> Result<(), Status> {
        let Some(target) = self.target() else { return Ok(()) };
        let (seconds, nanos) = self.engine.storage().clock().now();
        let now = Timestamp { seconds, nanos }.rfc3339_micro().to_string();
        self.engine.writer().ensure(&target, MANAGER, new_lease(&self.identity, &now)).await?;
        let change = |lease: &mut Value| {
            lease.set_at(&["spec", "renewTime"], now.as_str().into());
            set_identity(&self.identity, lease);
        };
        self.engine.writer().mutate(&target, Some(MANAGER), change).await
    }
}

/// Removes expired Leases of other servers, until the cache shuts down.
pub async fn collect_expired(engine: Arc<Engine>) {
    loop {
        for name in expired_identities(&engine) {
            let Some(target) =
                engine.storage().target("coordination.k8s.io", "v1", "leases", NAMESPACE, &name)
            else {
                return;
            };
            if let Err(status) = delete(&engine, &target).await {
                tracing::warn!(lease = %name, error = %status.message, "an expired identity lease stays for now");
            }
        }
        if wait(&engine, COLLECT_EVERY).await {
            return;
        }
    }
}

fn expired_identities(engine: &Engine) -> Vec<String> {
    let (now, _) = engine.storage().clock().now();
    let all = identity_leases(engine).into_iter();
    all.filter(|(_, lease)| is_expired(lease, now)).map(|(name, _)| name).collect()
}

/// The holders of all identity Leases that have one, by name.
pub(crate) fn holders(engine: &Engine) -> BTreeMap<String, String> {
    let holder = |lease: &Value| lease.at(&["spec", "holderIdentity"])?.as_str().map(str::to_string);
    let all = identity_leases(engine).into_iter();
    all.filter_map(|(name, lease)| Some((name, holder(&lease)?))).collect()
}

fn identity_leases(engine: &Engine) -> Vec<(String, Value)> {
    let Some(leases) = engine.storage().cache().resource(LEASES) else { return Vec::new() };
    let view = leases.view();
    let own = view.range(Some(NAMESPACE), None).filter(|lease| lease.label(LABEL) == Some(LABEL_VALUE));
    let read = own.filter_map(|lease| {
        let tree = pintle_value::json::parse(lease.json()).ok()?.value;
        Some((lease.name().to_owned(), tree))
    });
    read.collect()
}

/// Returns whether a Lease has expired. As in kube-apiserver, one without renewTime or duration has.
fn is_expired(lease: &Value, now: i64) -> bool {
    let renewed = Timestamp::parse(lease.str_at(&["spec", "renewTime"])).ok().map(|time| time.seconds);
    let duration = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_int);
    match (renewed, duration) {
        (Some(renewed), Some(duration)) => renewed.saturating_add(duration) < now,
        _ => true,
    }
}

pub(crate) async fn delete(engine: &Engine, target: &Target) -> Result<(), Status> {
    if engine.reader().object_tree(target)?.is_none() {
        return Ok(());
    }
    let user = engine.storage().system_user();
    match engine.writer().delete(target, &DeleteOptions::default(), &user, &mut Vec::new()).await {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}

/// Waits; returns whether the cache was shut down in the meantime.
async fn wait(engine: &Engine, time: Duration) -> bool {
    engine.storage().cache().closed_within(time).await
}

fn set_identity(identity: &Identity, lease: &mut Value) {
    lease.set_at(&["metadata", "labels", LABEL], LABEL_VALUE.into());
    lease.set_at(&["metadata", "labels", "kubernetes.io/hostname"], identity.hostname.as_str().into());
    if let Some(peer) = &identity.peer {
        let annotation = ["metadata", "annotations", "kubernetes.io/peer-advertise-address"];
        lease.set_at(&annotation, peer.as_str().into());
    }
}

fn new_lease(identity: &Identity, now: &str) -> Value {
    let mut lease = Value::object();
    for (path, text) in [
        (&["kind"] as &[&str], "Lease"),
        (&["apiVersion"], "coordination.k8s.io/v1"),
        (&["metadata", "name"], &identity.name),
        (&["metadata", "namespace"], NAMESPACE),
        (&["spec", "holderIdentity"], &identity.holder),
        (&["spec", "renewTime"], now),
    ] {
        lease.set_at(path, text.into());
    }
    set_identity(identity, &mut lease);
    lease.set_at(&["spec", "leaseDurationSeconds"], DURATION_SECONDS.into());
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_expire() {
        for (renewed, duration, is) in [
            (Some("1970-01-01T00:01:40.000000Z"), Some(100), false),
            (Some("1970-01-01T00:01:39.000000Z"), Some(100), true),
            (None, Some(100), true),
            (Some("1970-01-01T00:03:20.000000Z"), None, true),
        ] {
            let mut lease = Value::object();
            if let Some(text) = renewed {
                lease.set_at(&["spec", "renewTime"], text.into());
            }
            if let Some(seconds) = duration {
                lease.set_at(&["spec", "leaseDurationSeconds"], Value::Int(seconds));
            }
            assert_eq!(is_expired(&lease, 200), is, "{renewed:?} {duration:?}");
        }
    }
}
