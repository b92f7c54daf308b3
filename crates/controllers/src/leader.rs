//! Leader election by a Lease, as client-go does it: of the servers that share a store, one runs the controllers.
//!
//! A candidate takes the Lease if it has no holder or if its holder did not renew it within its duration, measured by the
//! candidate's own clock: the clocks of the servers are never compared. A leader that could not renew in time ends its
//! controllers before another server may take over.

use pintle_cache::{Filter, Item, WatchStart, Watcher};
use pintle_engine::{Engine, Target};
use pintle_meta::{Status, Timestamp};
use pintle_value::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

const NAMESPACE: &str = "kube-system";
const MANAGER: &str = "kube-apiserver";
const LEASES: &str = "/registry/leases/";
/// The shortest interval between attempts to take the Lease.
const ATTEMPT_MIN: Duration = Duration::from_millis(50);
/// How long a stopping server may take to release the Lease.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// A Lease in `kube-system` and its times.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The name of the Lease.
    pub name: &'static str,
    /// How long a renewed Lease is valid.
    pub duration: Duration,
    /// How long a leader tries to renew the Lease before it steps down.
    pub renew_deadline: Duration,
    /// The interval between attempts.
    pub retry: Duration,
}

impl Terms {
    /// The Lease of the controllers, with client-go's default times.
    pub const CONTROLLERS: Terms = Terms {
        name: "apiserver-controllers",
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };

    fn seconds(&self) -> Value {
        Value::Int(i64::try_from(self.duration.as_secs()).unwrap_or(i64::MAX))
    }
}

/// A candidate for leadership; [`Candidate::resign`] ends it.
pub struct Candidate {
    resigned: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Candidate {
    /// Campaigns for leadership as `holder`. `start` starts the controllers each time the election is won; they are
    /// aborted when leadership is lost.
    pub fn start(
        engine: Arc<Engine>,
        terms: Terms,
        holder: String,
        start: impl Fn() -> Vec<JoinHandle<()>> + Send + 'static,
    ) -> Candidate {
        let (resigned, receiver) = watch::channel(false);
        let election = Election { engine, terms, holder, observed: None };
        let task = tokio::spawn(election.run(start, receiver));
        Candidate { resigned, task }
    }

    /// Stops the controllers and releases the Lease, so that another server takes over at once.
    pub async fn resign(self) {
        self.resigned.send_replace(true);
        if timeout(RELEASE_MAX, self.task).await.is_err() {
            tracing::warn!("the Lease of the controllers could not be given back in time");
        }
    }
}

struct Election {
    engine: Arc<Engine>,
    terms: Terms,
    holder: String,
    /// The last observed change of the Lease, and when it was first seen.
    observed: Option<(Value, Instant)>,
}

impl Election {
    async fn run(
        mut self,
        start: impl Fn() -> Vec<JoinHandle<()>> + Send + 'static,
        mut resigned: watch::Receiver<bool>,
    ) {
        loop {
            tokio::select! {
                () = self.acquire() => {}
                _ = resigned.wait_for(|resigned| *resigned) => return,
            }
            tracing::info!(lease = self.terms.name, holder = self.holder, "this server runs the controllers");
            let tasks = start();
            let resigns = tokio::select! {
                () = self.renew_until_lost() => false,
                _ = resigned.wait_for(|resigned| *resigned) => true,
            };
            for task in tasks {
                task.abort();
                // The result of an aborted task does not matter, but it must have ended before the Lease is released.
                let _ = task.await;
            }
            if resigns {
                return self.release().await;
            }
            tracing::warn!(
                lease = self.terms.name,
                holder = self.holder,
                "another server runs the controllers"
            );
        }
    }

    /// Returns when the Lease is held.
    async fn acquire(&mut self) {
        let mut changes = self.watch();
        loop {
            match self.try_acquire().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(status) => tracing::debug!(error = %status.message, "the Lease could not be taken"),
            }
            // A released or acquired Lease wakes the candidate; one that expires silently does not.
            let wait = self.remaining().min(self.terms.retry).max(ATTEMPT_MIN);
            let Some(watcher) = &mut changes else {
                tokio::time::sleep(wait).await;
                changes = self.watch();
                continue;
            };
            if let Ok(None | Some(Item::Closed(_))) = timeout(wait, watcher.next()).await {
                changes = None;
            }
        }
    }

    /// Returns when the Lease could not be renewed in time or another server holds it.
    async fn renew_until_lost(&self) {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.terms.retry).await;
            let left = self.terms.renew_deadline.saturating_sub(renewed.elapsed());
            let began = Instant::now();
            match timeout(left, self.renew()).await {
                Ok(Ok(true)) => renewed = began,
                Ok(Ok(false)) => return,
                Ok(Err(status)) => {
                    tracing::warn!(error = %status.message, "the Lease of the controllers could not be renewed");
                }
                Err(_) => {}
            }
            if renewed.elapsed() >= self.terms.renew_deadline {
                return;
            }
        }
    }

    /// How long the Lease, as last observed, is still valid.
    fn remaining(&self) -> Duration {
        let Some((lease, since)) = &self.observed else { return Duration::ZERO };
        let seconds = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_int).unwrap_or(0);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).saturating_sub(since.elapsed())
    }

    async fn try_acquire(&mut self) -> Result<bool, Status> {
        let Some(target) = self.target() else { return Ok(false) };
        let now = self.now();
        let Some(live) = self.engine.reader().object_tree(&target)? else {
            self.engine.writer().ensure(&target, MANAGER, self.new_lease(&now)).await?;
            return self.is_held(&target);
        };
        if self.observed.as_ref().is_none_or(|(seen, _)| *seen != live) {
            self.observed = Some((live.clone(), Instant::now()));
        }
        let holder = live.str_at(&["spec", "holderIdentity"]);
        if !holder.is_empty() && holder != self.holder && !self.remaining().is_zero() {
            return Ok(false);
        }
        let take = |lease: &mut Value| {
            // Another candidate was faster: the Lease has changed since it was evaluated.
            if lease.get("spec") != live.get("spec") {
                return;
            }
            let transitions = lease.at(&["spec", "leaseTransitions"]).and_then(Value::as_int).unwrap_or(0);
            lease.set_at(&["spec", "holderIdentity"], self.holder.as_str().into());
            lease.set_at(&["spec", "leaseDurationSeconds"], self.terms.seconds());
            lease.set_at(&["spec", "acquireTime"], now.as_str().into());
            lease.set_at(&["spec", "renewTime"], now.as_str().into());
            lease.set_at(&["spec", "leaseTransitions"], transitions.saturating_add(1).into());
        };
        self.engine.writer().mutate(&target, Some(MANAGER), take).await?;
        self.is_held(&target)
    }

    async fn renew(&self) -> Result<bool, Status> {
        let Some(target) = self.target() else { return Ok(false) };
        let now = self.now();
        let renew = |lease: &mut Value| {
            if lease.str_at(&["spec", "holderIdentity"]) == self.holder {
                lease.set_at(&["spec", "renewTime"], now.as_str().into());
            }
        };
        self.engine.writer().mutate(&target, Some(MANAGER), renew).await?;
        self.is_held(&target)
    }

    /// As client-go's `ReleaseOnCancel`: writes a Lease without holder that expires after a second.
    async fn release(&self) {
        let Some(target) = self.target() else { return };
        let now = self.now();
        let release = |lease: &mut Value| {
            if lease.str_at(&["spec", "holderIdentity"]) == self.holder {
                lease.set_at(&["spec", "holderIdentity"], "".into());
                lease.set_at(&["spec", "leaseDurationSeconds"], 1.into());
                lease.set_at(&["spec", "acquireTime"], now.as_str().into());
                lease.set_at(&["spec", "renewTime"], now.as_str().into());
            }
        };
        if let Err(status) = self.engine.writer().mutate(&target, Some(MANAGER), release).await {
            tracing::warn!(error = %status.message, "the Lease of the controllers could not be given back");
        }
    }

    fn is_held(&self, target: &Target) -> Result<bool, Status> {
        let live = self.engine.reader().object_tree(target)?;
        Ok(live.is_some_and(|lease| lease.str_at(&["spec", "holderIdentity"]) == self.holder))
    }

    fn target(&self) -> Option<Target> {
        self.engine.storage().target("coordination.k8s.io", "v1", "leases", NAMESPACE, self.terms.name)
    }

    fn watch(&self) -> Option<Watcher> {
        let filter = Filter {
            namespace: Some(NAMESPACE.into()),
            name: Some(self.terms.name.into()),
            ..Filter::default()
        };
        self.engine.storage().cache().resource(LEASES)?.watch(WatchStart::FromNow, filter).ok()
    }

    fn now(&self) -> String {
        let (seconds, nanos) = self.engine.storage().clock().now();
        Timestamp { seconds, nanos }.rfc3339_micro().to_string()
    }

    fn new_lease(&self, now: &str) -> Value {
        let mut lease = Value::object();
        for (path, text) in [
            (&["kind"] as &[&str], "Lease"),
            (&["apiVersion"], "coordination.k8s.io/v1"),
            (&["metadata", "name"], self.terms.name),
            (&["metadata", "namespace"], NAMESPACE),
            (&["spec", "holderIdentity"], &self.holder),
            (&["spec", "acquireTime"], now),
            (&["spec", "renewTime"], now),
        ] {
            lease.set_at(path, text.into());
        }
        lease.set_at(&["spec", "leaseDurationSeconds"], self.terms.seconds());
        lease.set_at(&["spec", "leaseTransitions"], 0.into());
        lease
    }
}
