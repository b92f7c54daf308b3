//! The `default` service account of each namespace, without which no pod can be created. Beside a
//! kube-controller-manager this does no harm: the second of the two finds the account and leaves it.

use pintle_cache::{CloseReason, Filter, Item};
use pintle_engine::Engine;
use pintle_meta::Status;
use pintle_value::{Str, Value};
use std::sync::Arc;

const NAMESPACES: &str = "/registry/namespaces/";
const ACCOUNTS: &str = "/registry/serviceaccounts/";
const NAME: &str = "default";

/// Runs until the cache shuts down.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut watcher = engine.cache.watch_all(Filter::default());
    ensure_all(&engine).await;
    while let Some(item) = watcher.next().await {
        match item {
            Item::Event(delivery) => {
                let Some(event) = delivery.source() else { continue };
                let object = delivery.object();
                let namespace = match &**event.resource() {
                    NAMESPACES if event.object().is_some() => Some(Str::from(object.name())),
                    ACCOUNTS if event.object().is_none() && object.name() == NAME => {
                        object.namespace().map(Str::from)
                    }
                    _ => None,
                };
                if let Some(namespace) = namespace {
                    report(&namespace, ensure(&engine, &namespace).await);
                }
            }
            Item::Closed(CloseReason::Slow) => {
                watcher = engine.cache.watch_all(Filter::default());
                ensure_all(&engine).await;
            }
            Item::Closed(_) => return,
            Item::InitialEventsEnd(_) | Item::Bookmark(_) => {}
        }
    }
}

fn report(namespace: &str, result: Result<(), Status>) {
    if let Err(status) = result {
        tracing::warn!(%namespace, error = %status.message, "no default service account could be made");
    }
}

async fn ensure_all(engine: &Engine) {
    let Some(resource) = engine.cache.resource(NAMESPACES) else { return };
    let names: Vec<Str> = resource.view().iter().map(|object| Str::from(object.name())).collect();
    for name in names {
        report(&name, ensure(engine, &name).await);
    }
}

/// Makes the account of a namespace that is there and stays.
async fn ensure(engine: &Engine, namespace: &str) -> Result<(), Status> {
    let Some(target) = engine.target("", "v1", "namespaces", "", namespace) else { return Ok(()) };
    let live = engine.object_tree(&target)?;
    if live.is_none_or(|tree| tree.at(&["metadata", "deletionTimestamp"]).is_some()) {
        return Ok(());
    }
    let Some(target) = engine.target("", "v1", "serviceaccounts", namespace, NAME) else { return Ok(()) };
    let mut account = Value::object();
    account.set_at(&["kind"], "ServiceAccount".into());
    account.set_at(&["apiVersion"], "v1".into());
    account.set_at(&["metadata", "name"], NAME.into());
    account.set_at(&["metadata", "namespace"], namespace.into());
    engine.ensure(&target, "kube-controller-manager", account).await
}
