//! Maintains the ConfigMap `extension-apiserver-authentication`, from which extension servers learn how to authenticate
//! users and this server. It is created if missing, and completed if something that this server needs is not in it.

mod combine;

use pintle_cache::{CloseReason, EventType, Filter, Item, WatchStart};
use pintle_engine::{Engine, Target};
use pintle_value::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const PREFIX: &str = "/registry/configmaps/";
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const MANAGER: &str = "kube-apiserver";
/// How often the ConfigMap is checked.
const RESYNC: Duration = Duration::from_secs(60);

/// Maintains the ConfigMap until the cache shuts down. `data` are the keys that this server owns; they can change.
pub(crate) async fn run(engine: Arc<Engine>, mut data: watch::Receiver<Vec<(&'static str, String)>>) {
    loop {
        let Some(resource) = engine.storage().cache().resource(PREFIX) else { return };
        let Ok(mut watcher) = resource.watch(WatchStart::FromNow, own_filter()) else { return };
        reconcile(&engine, &mut data).await;
        loop {
            let next = tokio::select! {
                next = tokio::time::timeout(RESYNC, watcher.next()) => next,
                Ok(()) = data.changed() => {
                    reconcile(&engine, &mut data).await;
                    continue;
                }
            };
            match next {
                Err(_) => reconcile(&engine, &mut data).await,
                Ok(Some(Item::Event(delivery))) => {
                    // As in kube-apiserver, an edit is only corrected by the next resync.
                    if delivery.kind() != EventType::Modified {
                        reconcile(&engine, &mut data).await;
                    }
                }
                Ok(Some(Item::InitialEventsEnd(_) | Item::Bookmark(_))) => {}
                Ok(Some(Item::Closed(CloseReason::Slow))) => break,
                Ok(Some(Item::Closed(_)) | None) => return,
            }
        }
    }
}

/// Selects the ConfigMap, so that others do not wake this controller.
fn own_filter() -> Filter {
    Filter { namespace: Some(NAMESPACE.into()), name: Some(NAME.into()), ..Filter::default() }
}

async fn reconcile(engine: &Engine, data: &mut watch::Receiver<Vec<(&'static str, String)>>) {
    let data = data.borrow_and_update().clone();
    let Some(target) = engine.storage().target("", "v1", "configmaps", NAMESPACE, NAME) else { return };
    if let Err(status) = write(engine, &target, &data).await {
        tracing::warn!(error = %status.message, "the ConfigMap {NAME} could not be written");
    }
}

async fn write(
    engine: &Engine,
    target: &Target,
    data: &[(&'static str, String)],
) -> Result<(), pintle_meta::Status> {
    let now_seconds = engine.storage().clock().now().0;
    let set = |tree: &mut Value| {
        let existing = tree.get("data").cloned().unwrap_or_else(Value::object);
        match combine::combine(&existing, data, now_seconds) {
            Some(combined) => tree.set_at(&["data"], combined),
            None => tracing::warn!("the ConfigMap {NAME} cannot be read and is left as it is"),
        }
    };
    let mut tree = Value::object();
    tree.set_at(&["apiVersion"], "v1".into());
    tree.set_at(&["kind"], "ConfigMap".into());
    tree.set_at(&["metadata", "name"], NAME.into());
    tree.set_at(&["metadata", "namespace"], NAMESPACE.into());
    set(&mut tree);
    engine.writer().ensure(target, MANAGER, tree).await?;
    engine.writer().mutate(target, Some(MANAGER), set).await
}
