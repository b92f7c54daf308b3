//! Terminates one definition: deletes its objects, waits until they are gone, then removes the definition.

use super::MANAGER;
use pintle_cache::{Filter, Item, WatchStart};
use pintle_engine::{Engine, ListRequest, Target};
use pintle_kinds::definition::{CLEANUP_FINALIZER, Condition};
use pintle_meta::Status;
use pintle_meta::options::DeleteOptions;
use pintle_value::{Str, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The first and the longest delay before a failed termination is retried.
const RETRY: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// How long objects may take to disappear before that is reported and the termination starts again.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Terminates a definition and returns its name. Retries until the definition is gone.
pub(super) async fn end(engine: Arc<Engine>, target: Target) -> Str {
    let mut pause = RETRY;
    loop {
        match try_end(&engine, &target).await {
            Ok(()) => return target.name,
            Err(status) => {
                tracing::warn!(definition = %target.name, error = %status.message, "end of a definition will be tried again");
            }
        }
        tokio::time::sleep(pause).await;
        pause = RETRY_MAX.min(pause.saturating_mul(2));
    }
}

async fn try_end(engine: &Engine, target: &Target) -> Result<(), Status> {
    let in_progress =
        terminating("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress");
    set_condition(engine, target, &in_progress).await?;
    let Some(definition) = engine.reader().object_tree(target)? else { return Ok(()) };
    let last = if Condition::is_true(&definition, "Established") {
        if let Err(Held { reason, message }) = remove_objects(engine, &definition).await {
            set_condition(engine, target, &terminating("True", reason, &message)).await?;
            return Err(Status::unclassified(message));
        }
        terminating("False", "InstanceDeletionCompleted", "removed all instances")
    } else {
        terminating("False", "NeverEstablished", "resource was never established")
    };
    let now = engine.storage().now_text();
    engine
        .writer()
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

async fn set_condition(engine: &Engine, target: &Target, condition: &Condition<'_>) -> Result<(), Status> {
    let now = engine.storage().now_text();
    engine
        .writer()
        .mutate(&target.sub("status"), Some(MANAGER), |definition| condition.set(definition, &now))
        .await
}

/// The reason why a definition cannot be removed yet.
struct Held {
    reason: &'static str,
    message: String,
}

impl Held {
    fn failed(what: &str, why: &str) -> Held {
        Held { reason: "InstanceDeletionFailed", message: format!("could not {what}: {why}") }
    }
}

/// Deletes all objects and waits until they are gone.
async fn remove_objects(engine: &Engine, definition: &Value) -> Result<(), Held> {
    let kinds = engine.storage().registry().kinds();
    let plural = definition.str_at(&["status", "acceptedNames", "plural"]);
    let Some(kind) = kinds.defined_by_plural(definition.str_at(&["spec", "group"]), plural) else {
        return Ok(());
    };
    let all = ListRequest::all(Target {
        kind: kind.clone(),
        version: kind.storage,
        namespace: Str::default(),
        name: Str::default(),
        subresource: Str::default(),
    });
    let listed = engine.reader().list(&all).await;
    let listed = listed.map_err(|status| Held::failed("list instances", &status.message))?;
    let namespaces: BTreeSet<Str> =
        listed.items.iter().map(|object| Str::from(object.namespace().unwrap_or_default())).collect();
    delete_all(engine, &all, namespaces).await?;
    let gone = tokio::time::timeout(WAIT_MAX, emptied(engine, &kind.store_prefix)).await;
    gone.map_err(|_| Held {
        reason: "InstanceDeletionCheck",
        message: "could not confirm zero CustomResources remaining: context deadline exceeded".to_string(),
    })
}

/// Deletes all objects, one namespace after another.
async fn delete_all(engine: &Engine, all: &ListRequest, namespaces: BTreeSet<Str>) -> Result<(), Held> {
    let mut errors: Vec<String> = Vec::new();
    for namespace in namespaces {
        let mut list = all.clone();
        list.target.namespace = namespace;
        let deleted = engine
            .writer()
            .delete_collection(
                &list,
                &DeleteOptions::default(),
                &engine.storage().system_user(),
                &mut Vec::new(),
            )
            .await;
        // Report each message once.
        errors.extend(deleted.err().map(|status| status.message).filter(|message| !errors.contains(message)));
    }
    match errors.as_slice() {
        [] => Ok(()),
        [only] => Err(Held::failed("issue all deletes", only)),
        several => Err(Held::failed("issue all deletes", &format!("[{}]", several.join(", ")))),
    }
}

/// Waits until the resource has no objects, or is no longer registered.
async fn emptied(engine: &Engine, prefix: &str) {
    // Look it up each time: if the definition changes during termination, its objects are reloaded.
    while let Some(resource) = engine.storage().cache().resource(prefix) {
        let Ok(mut watcher) = resource.watch(WatchStart::FromNow, Filter::default()) else { return };
        while !resource.view().is_empty() {
            match watcher.next().await {
                Some(Item::Closed(_)) | None => break,
                Some(_) => {}
            }
        }
        if resource.view().is_empty() {
            return;
        }
    }
}
