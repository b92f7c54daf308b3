//! The end of one definition: its objects are deleted, it waits until the last one is gone, then it goes.

use super::MANAGER;
use pintle_cache::{Filter, Item, Resource, WatchStart};
use pintle_engine::{Engine, ListRequest, Target};
use pintle_kinds::definition::{CLEANUP_FINALIZER, Condition};
use pintle_meta::Status;
use pintle_meta::options::DeleteOptions;
use pintle_value::{Str, Value};
use std::sync::Arc;
use std::time::Duration;

/// How often the deletion of objects that are still there is asked for again.
const RETRY: Duration = Duration::from_secs(5);

/// Ends a definition; answers with its name. What fails is tried again until the definition is gone.
pub(super) async fn end(engine: Arc<Engine>, target: Target) -> Str {
    loop {
        match try_end(&engine, &target).await {
            Ok(()) => return target.name,
            Err(status) => {
                tracing::warn!(definition = %target.name, error = %status.message, "end of a definition will be tried again");
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn try_end(engine: &Engine, target: &Target) -> Result<(), Status> {
    let in_progress =
        terminating("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress");
    note(engine, target, &in_progress).await?;
    let Some(definition) = engine.object_tree(target)? else { return Ok(()) };
    let last = if Condition::is_true(&definition, "Established") {
        if let Err(status) = remove_objects(engine, &definition).await {
            let message = format!("could not issue all deletes: {}", status.message);
            note(engine, target, &terminating("True", "InstanceDeletionFailed", &message)).await?;
            return Err(status);
        }
        terminating("False", "InstanceDeletionCompleted", "removed all instances")
    } else {
        terminating("False", "NeverEstablished", "resource was never established")
    };
    let now = engine.now_text();
    engine
        .mutate(&target.sub("status"), Some(MANAGER), |definition| {
            last.set(definition, &now);
            let held = |f: &&Value| f.as_str() != Some(CLEANUP_FINALIZER);
            let left: Vec<Value> =
                definition.items_at(&["metadata", "finalizers"]).iter().filter(held).cloned().collect();
            definition.set_at(&["metadata", "finalizers"], Value::Array(left));
        })
        .await
}

fn terminating<'a>(status: &'a str, reason: &'a str, message: &'a str) -> Condition<'a> {
    Condition { kind: "Terminating", status, reason, message }
}

async fn note(engine: &Engine, target: &Target, condition: &Condition<'_>) -> Result<(), Status> {
    let now = engine.now_text();
    engine.mutate(&target.sub("status"), Some(MANAGER), |definition| condition.set(definition, &now)).await
}

/// Deletes all objects and waits until they are gone.
async fn remove_objects(engine: &Engine, definition: &Value) -> Result<(), Status> {
    let kinds = engine.registry.kinds();
    let plural = definition.str_at(&["status", "acceptedNames", "plural"]);
    let Some(kind) = kinds.by_plural(definition.str_at(&["spec", "group"]), plural) else { return Ok(()) };
    let target = Target {
        kind: kind.clone(),
        version: kind.storage,
        namespace: Str::default(),
        name: Str::default(),
        subresource: Str::default(),
    };
    let list = ListRequest::all(target);
    // Asked for each time: a definition that is changed while it ends has its objects read anew.
    while let Some(resource) = engine.cache.resource(&kind.store_prefix) {
        if resource.view().iter().next().is_none() {
            break;
        }
        engine
            .delete_collection(&list, &DeleteOptions::default(), &engine.system_user(), &mut Vec::new())
            .await?;
        _ = tokio::time::timeout(RETRY, emptied(&resource)).await;
    }
    Ok(())
}

/// Waits until the resource has no objects, or is no more.
async fn emptied(resource: &Arc<Resource>) {
    let Ok(mut watcher) = resource.watch(WatchStart::FromNow, Filter::default()) else { return };
    while resource.view().iter().next().is_some() {
        match watcher.next().await {
            Some(Item::Closed(_)) | None => return,
            Some(_) => {}
        }
    }
}
