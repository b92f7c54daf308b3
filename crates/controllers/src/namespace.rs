//! Namespace deletion: deletes the content of a terminating namespace (pods first), reports in its conditions what
//! remains, and removes the finalizer when it is empty.

use crate::feed::Feed;
use pintle_cache::{Delivery, Item};
use pintle_engine::{Engine, ListRequest, Target};
use pintle_kinds::Kind;
use pintle_meta::Status;
use pintle_meta::options::{DeleteOptions, Propagation};
use pintle_value::{Str, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often terminating namespaces are processed without an event.
const RETRY: Duration = Duration::from_secs(5);

/// The finalizer that this controller removes.
const FINALIZER: &str = "kubernetes";

/// Runs until the cache shuts down.
pub(crate) async fn run(engine: Arc<Engine>) {
    let ending = Arc::new(Mutex::new(BTreeSet::new()));
    let mut watcher = watch(&engine, &ending);
    let mut due = read_ending(&engine, &ending);
    loop {
        for name in std::mem::take(&mut due) {
            if let Err(status) = delete_content(&engine, &name).await {
                tracing::warn!(namespace = %name, error = %status.message, "namespace deletion failed, will retry");
            }
        }
        let mut item = match tokio::time::timeout(RETRY, watcher.next()).await {
            Ok(item) => item,
            Err(_) => {
                due = lock(&ending).clone();
                continue;
            }
        };
        // Read all pending events before processing a namespace: a hundred thousand deletions in it must not cause as
        // many passes.
        loop {
            match item {
                Some(Item::Event(delivery)) => note(&delivery, &mut lock(&ending), &mut due),
                Some(Item::Closed(pintle_cache::CloseReason::Slow)) => {
                    watcher = watch(&engine, &ending);
                    due = read_ending(&engine, &ending);
                }
                Some(Item::InitialEventsEnd(_) | Item::Bookmark(_)) => {}
                Some(Item::Closed(_)) | None => return,
            }
            match watcher.try_next() {
                None => break,
                next => item = next,
            }
        }
    }
}

/// The terminating namespaces.
type Ending = Arc<Mutex<BTreeSet<Str>>>;

fn lock(ending: &Ending) -> MutexGuard<'_, BTreeSet<Str>> {
    ending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows namespaces, and the objects of terminating ones. An object that changes before its namespace is recorded as
/// terminating is in the cache when the content of the namespace is read after that.
fn watch(engine: &Engine, ending: &Ending) -> Feed {
    let ending = ending.clone();
    Feed::new(engine.storage().cache().watch_where(move |event| match event.key().namespace() {
        Some(namespace) => lock(&ending).contains(namespace),
        None => &**event.resource() == NAMESPACES,
    }))
}

/// Records the terminating namespaces and those in which something changed.
fn note(delivery: &Delivery, ending: &mut BTreeSet<Str>, due: &mut BTreeSet<Str>) {
    let object = delivery.object();
    let Some(event) = delivery.source() else { return };
    if &**event.resource() == NAMESPACES {
        let name = Str::from(object.name());
        let gone = event.object().is_none();
        if !gone && is_ending(object.json()) {
            ending.insert(name.clone());
            due.insert(name);
        } else if gone {
            ending.remove(&name);
        }
    } else if let Some(name) = object.namespace().filter(|name| ending.contains(*name)) {
        due.insert(name.into());
    }
}

const NAMESPACES: &str = "/registry/namespaces/";

fn is_ending(json: &[u8]) -> bool {
    memchr::memmem::find(json, b"\"deletionTimestamp\"").is_some()
}

/// Reads all terminating namespaces.
fn read_ending(engine: &Engine, ending: &Ending) -> BTreeSet<Str> {
    let Some(resource) = engine.storage().cache().resource(NAMESPACES) else { return BTreeSet::new() };
    let view = resource.view();
    let found: BTreeSet<Str> =
        view.iter().filter(|o| is_ending(o.json())).map(|o| Str::from(o.name())).collect();
    lock(ending).clone_from(&found);
    found
}

/// The remaining content of a namespace.
#[derive(Default)]
struct Remaining {
    by_resource: BTreeMap<String, usize>,
    by_finalizer: BTreeMap<String, usize>,
    failures: Vec<String>,
}

/// Deletes the content of the namespace, reports what remains, and finalizes it when it is empty.
async fn delete_content(engine: &Engine, name: &str) -> Result<(), Status> {
    let Some(target) = engine.storage().target("", "v1", "namespaces", "", name) else { return Ok(()) };
    let Some(namespace) = engine.reader().object_tree(&target)? else { return Ok(()) };
    let deleting = namespace.at(&["metadata", "deletionTimestamp"]).is_some();
    let ours = namespace.items_at(&["spec", "finalizers"]).iter().any(|f| f.as_str() == Some(FINALIZER));
    if !deleting || !ours {
        return Ok(());
    }
    let mut remaining = Remaining::default();
    let kinds = engine.storage().registry().kinds();
    let deletable = |kind: &&Arc<Kind>| kind.namespaced && kind.verbs.delete && kind.verbs.list;
    let is_pods = |kind: &&Arc<Kind>| kind.group.is_empty() && kind.plural == "pods";
    for kind in kinds.all().filter(deletable).filter(is_pods) {
        delete_all(engine, kind, name, &mut remaining).await;
    }
    let pods_left = !remaining.by_resource.is_empty();
    if !pods_left {
        for kind in kinds.all().filter(deletable).filter(|kind| !is_pods(kind)) {
            delete_all(engine, kind, name, &mut remaining).await;
        }
    }
    let now = engine.storage().now_text();
    engine
        .writer()
        .mutate(&target.sub("status"), Some("kube-controller-manager"), |namespace| {
            update_conditions(namespace, &remaining, pods_left, &now);
            if remaining.by_resource.is_empty() && remaining.failures.is_empty() {
                finish(namespace);
            }
        })
        .await?;
    Ok(())
}

/// Removes our finalizer.
fn finish(namespace: &mut Value) {
    let left: Vec<Value> = namespace
        .items_at(&["spec", "finalizers"])
        .iter()
        .filter(|f| f.as_str() != Some(FINALIZER))
        .cloned()
        .collect();
    if left.is_empty() {
        namespace.remove_at(&["spec", "finalizers"]);
    } else {
        namespace.set_at(&["spec", "finalizers"], Value::Array(left));
    }
}

/// Deletes all objects of one kind in a namespace and counts those that remain.
async fn delete_all(engine: &Engine, kind: &Arc<Kind>, namespace: &str, remaining: &mut Remaining) {
    let Some(resource) = engine.storage().cache().resource(&kind.store_prefix) else { return };
    if resource.view().range(Some(namespace), None).next().is_none() {
        return;
    }
    let target = Target {
        kind: kind.clone(),
        version: kind.storage,
        namespace: namespace.into(),
        name: Str::default(),
        subresource: Str::default(),
    };
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let list = ListRequest::all(target);
    if let Err(status) = engine
        .writer()
        .delete_collection(&list, &options, &engine.storage().system_user(), &mut Vec::new())
        .await
    {
        remaining.failures.push(status.message);
    }
    let view = resource.view();
    let left: Vec<_> = view.range(Some(namespace), None).collect();
    if left.is_empty() {
        return;
    }
    remaining.by_resource.insert(format!("{}.{}", kind.plural, kind.group), left.len());
    for object in left {
        let Ok(parsed) = pintle_value::json::parse(object.json()) else { continue };
        for finalizer in parsed.value.items_at(&["metadata", "finalizers"]).iter().filter_map(Value::as_str) {
            let count = remaining.by_finalizer.entry(finalizer.to_string()).or_default();
            *count = count.saturating_add(1);
        }
    }
}

/// The conditions: type, and the reason and message of success.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

fn update_conditions(namespace: &mut Value, remaining: &Remaining, pods_left: bool, now: &str) {
    let mut conditions = namespace.items_at(&["status", "conditions"]).to_vec();
    for (kind, reason, message) in CONDITIONS {
        let bad = failure(kind, remaining, pods_left);
        let (status, reason, message) = match &bad {
            Some((reason, message)) => ("True", *reason, message.as_str()),
            None => ("False", reason, message),
        };
        set_condition(&mut conditions, kind, status, reason, message, now);
    }
    namespace.set_at(&["status", "conditions"], Value::Array(conditions));
}

/// Reason and message of a failed condition.
fn failure(kind: &str, remaining: &Remaining, pods_left: bool) -> Option<(&'static str, String)> {
    match kind {
        "NamespaceDeletionContentFailure" if !remaining.failures.is_empty() => {
            let mut failures = remaining.failures.clone();
            failures.sort();
            let text = failures.join(", ");
            let message =
                format!("Failed to delete all resource types, {} remaining: {text}", failures.len());
            Some(("ContentDeletionFailed", message))
        }
        "NamespaceContentRemaining" if !pods_left && !remaining.by_resource.is_empty() => {
            let list = remaining.by_resource.iter().map(|(r, n)| format!("{r} has {n} resource instances"));
            let list: Vec<String> = list.collect();
            Some(("SomeResourcesRemain", format!("Some resources are remaining: {}", list.join(", "))))
        }
        "NamespaceFinalizersRemaining" if !pods_left && !remaining.by_finalizer.is_empty() => {
            let list = remaining.by_finalizer.iter().map(|(f, n)| format!("{f} in {n} resource instances"));
            let list: Vec<String> = list.collect();
            let message =
                format!("Some content in the namespace has finalizers remaining: {}", list.join(", "));
            Some(("SomeFinalizersRemain", message))
        }
        _ => None,
    }
}

/// Sets one condition; its transition time only changes with its status.
fn set_condition(
    conditions: &mut Vec<Value>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let found = conditions.iter_mut().find(|c| c.str_at(&["type"]) == kind);
    let condition = match found {
        Some(condition) => condition,
        None => {
            conditions.push(Value::object());
            let Some(new) = conditions.last_mut() else { return };
            new
        }
    };
    if condition.str_at(&["status"]) != status {
        condition.set_at(&["lastTransitionTime"], now.into());
    }
    for (key, text) in [("type", kind), ("status", status), ("reason", reason), ("message", message)] {
        condition.set_at(&[key], text.into());
    }
}
