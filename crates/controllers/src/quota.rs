//! Recomputes the status of quotas from their spec and the objects of their namespace. Admission only adds the usage of
//! new objects.

use pintle_admission::quota::recount;
use pintle_cache::{CloseReason, Item, Watcher};
use pintle_engine::Engine;
use pintle_meta::Status;
use pintle_value::{Str, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const QUOTAS: &str = "/registry/resourcequotas/";
/// How long changes are batched before a namespace is recounted.
const PAUSE: Duration = Duration::from_millis(50);
/// How many times longer the pause is than the last recount took, if that took long, and how long it is at most.
const PAUSE_PER_RECOUNT: u32 = 10;
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often everything is recounted without an event.
const RESYNC: Duration = Duration::from_secs(300);

/// Runs until the cache shuts down.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut watcher = watch(&engine);
    let mut due = with_quotas(&engine);
    loop {
        let began = Instant::now();
        for namespace in std::mem::take(&mut due) {
            count_usage(&engine, &namespace).await;
        }
        let pause = began.elapsed().saturating_mul(PAUSE_PER_RECOUNT).clamp(PAUSE, PAUSE_MAX);
        let mut item = match timeout(RESYNC, watcher.next()).await {
            Ok(item) => item,
            Err(_) => {
                due = with_quotas(&engine);
                continue;
            }
        };
        // One timer for all changes of the pause: each change would otherwise wake this task.
        sleep(pause).await;
        loop {
            match item {
                Some(Item::Event(delivery)) => due.extend(delivery.object().namespace().map(Str::from)),
                Some(Item::Closed(CloseReason::Slow)) => {
                    watcher = watch(&engine);
                    due = with_quotas(&engine);
                }
                Some(Item::Closed(_)) | None => return,
                Some(Item::InitialEventsEnd(_) | Item::Bookmark(_)) => {}
            }
            match watcher.try_next() {
                None => break,
                next => item = next,
            }
        }
    }
}

/// Follows quotas, and the objects of namespaces that have quotas.
fn watch(engine: &Engine) -> Watcher {
    let cache = Arc::downgrade(engine.storage().cache());
    let has_quotas = move |namespace: &str| {
        let quotas = cache.upgrade().and_then(|cache| cache.resource(QUOTAS));
        quotas.is_some_and(|quotas| quotas.view().range(Some(namespace), None).next().is_some())
    };
    engine.storage().cache().watch_where(move |event| {
        &**event.resource() == QUOTAS || event.key().namespace().is_some_and(&has_quotas)
    })
}

fn with_quotas(engine: &Engine) -> BTreeSet<Str> {
    let Some(resource) = engine.storage().cache().resource(QUOTAS) else { return BTreeSet::new() };
    resource.view().iter().filter_map(|quota| quota.namespace().map(Str::from)).collect()
}

async fn count_usage(engine: &Engine, namespace: &str) {
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
