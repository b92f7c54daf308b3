//! Recomputes the status of quotas from their spec and the objects of their namespace. Admission only adds the usage of
//! new objects.

use pintle_admission::quota::recount;
use pintle_cache::{CloseReason, Filter, Item};
use pintle_engine::Engine;
use pintle_meta::Status;
use pintle_value::{Str, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const QUOTAS: &str = "/registry/resourcequotas/";
/// How long changes are batched before a namespace is recounted.
const PAUSE: Duration = Duration::from_millis(50);
/// How often everything is recounted without an event.
const RESYNC: Duration = Duration::from_secs(300);

/// Runs until the cache shuts down.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut watcher = engine.storage().cache().watch_all(Filter::default());
    let mut due = with_quotas(&engine);
    loop {
        let wait = if due.is_empty() { RESYNC } else { PAUSE };
        match tokio::time::timeout(wait, watcher.next()).await {
            Err(_) if due.is_empty() => due = with_quotas(&engine),
            Err(_) => {
                for namespace in std::mem::take(&mut due) {
                    count(&engine, &namespace).await;
                }
            }
            Ok(Some(Item::Event(delivery))) => due.extend(delivery.object().namespace().map(Str::from)),
            Ok(Some(Item::Closed(CloseReason::Slow))) => {
                watcher = engine.storage().cache().watch_all(Filter::default());
                due = with_quotas(&engine);
            }
            Ok(Some(Item::Closed(_)) | None) => return,
            Ok(Some(Item::InitialEventsEnd(_) | Item::Bookmark(_))) => {}
        }
    }
}

fn with_quotas(engine: &Engine) -> BTreeSet<Str> {
    let Some(resource) = engine.storage().cache().resource(QUOTAS) else { return BTreeSet::new() };
    resource.view().iter().filter_map(|quota| quota.namespace().map(Str::from)).collect()
}

async fn count(engine: &Engine, namespace: &str) {
    let Some(resource) = engine.storage().cache().resource(QUOTAS) else { return };
    let names: Vec<Str> = resource.view().range(Some(namespace), None).map(|q| Str::from(q.name())).collect();
    for name in names {
        if let Err(status) = count_one(engine, namespace, &name).await {
            tracing::warn!(%namespace, quota = %name, error = %status.message, "a quota could not be counted");
        }
    }
}

async fn count_one(engine: &Engine, namespace: &str, name: &str) -> Result<(), Status> {
    let Some(target) = engine.storage().target("", "v1", "resourcequotas", namespace, name) else {
        return Ok(());
    };
    let kinds: Vec<(Str, Str)> = engine
        .storage()
        .registry()
        .kinds()
        .all()
        .filter(|kind| kind.namespaced && kind.verbs.watch)
        .map(|kind| (kind.group.clone(), kind.plural.clone()))
        .collect();
    engine
        .writer()
        .mutate(&target.sub("status"), Some("kube-controller-manager"), |quota| {
            let used = recount(quota, namespace, &kinds, &**engine.storage());
            if let Some(hard) = quota.at(&["spec", "hard"]).cloned() {
                quota.set_at(&["status", "hard"], hard);
                quota.set_at(&["status", "used"], used);
            } else {
                quota.set_at(&["status"], Value::object());
            }
        })
        .await
}
