//! Garbage collection: dependents follow their owners, in the background, in the foreground, or are orphaned.
//!
//! A graph of owner references is kept from the change feed; what it says is checked against the cache before
//! anything is deleted.

mod graph;

use graph::{Graph, Node, Owner};
use pintle_cache::{CloseReason, Filter, Item};
use pintle_engine::{Engine, Target};
use pintle_meta::options::{DeleteOptions, Preconditions, Propagation};
use pintle_meta::{GroupVersion, Status};
use pintle_value::{Str, Value};
use std::sync::Arc;
use std::time::Duration;

/// How long a failed piece of work waits for its next try.
const RETRY: Duration = Duration::from_secs(1);

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Runs until the cache shuts down.
pub(crate) async fn run(engine: Arc<Engine>) {
    loop {
        let mut watcher = engine.cache.watch_all(Filter::default());
        let mut graph = Graph::default();
        for resource in engine.cache.resources() {
            for object in resource.view().iter() {
                graph.put(resource.prefix(), object);
            }
        }
        loop {
            work(&engine, &mut graph).await;
            let next = match graph.has_work() {
                true => tokio::time::timeout(RETRY, watcher.next()).await,
                false => Ok(watcher.next().await),
            };
            match next {
                Err(_) => {}
                Ok(Some(Item::Event(delivery))) => {
                    let Some(event) = delivery.source() else { continue };
                    match event.object() {
                        Some(object) => graph.put(event.resource(), object),
                        None => {
                            if let Some(last) = event.previous() {
                                graph.remove(last.uid());
                            }
                        }
                    }
                }
                Ok(Some(Item::Closed(CloseReason::Slow))) => break,
                Ok(Some(Item::Closed(_)) | None) => return,
                Ok(Some(Item::InitialEventsEnd(_) | Item::Bookmark(_))) => {}
            }
        }
    }
}

/// Looks at every node that something happened to; what fails stays for later.
async fn work(engine: &Engine, graph: &mut Graph) {
    for uid in graph.take_work() {
        let Some(node) = graph.node(&uid).cloned() else { continue };
        match attend(engine, graph, &uid, &node).await {
            Err(status) if status.code != 404 => {
                tracing::debug!(object = %node.key, error = %status.message, "garbage collection will retry");
                graph.again(uid);
            }
            _ => {}
        }
    }
}

/// Does what one node needs now.
async fn attend(engine: &Engine, graph: &Graph, uid: &str, node: &Node) -> Result<(), Status> {
    let Some(target) = target(engine, node) else { return Ok(()) };
    if node.deleting && node.orphans {
        return orphan_dependents(engine, graph, uid, &target).await;
    }
    if node.deleting && node.foreground {
        return finish_foreground(engine, graph, uid, &target).await;
    }
    if node.owners.is_empty() || node.deleting {
        return Ok(());
    }
    collect(engine, graph, uid, node, &target).await
}

fn target(engine: &Engine, node: &Node) -> Option<Target> {
    let kinds = engine.registry.kinds();
    let kind = kinds.by_prefix(&node.resource)?.clone();
    let (namespace, name) = node.key.split_once('/').unwrap_or(("", &node.key));
    Some(Target {
        version: kind.storage,
        kind,
        namespace: namespace.into(),
        name: name.into(),
        subresource: Str::default(),
    })
}

/// What an owner reference leads to.
#[derive(PartialEq, Eq)]
enum Found {
    /// An owner that stays.
    Solid,
    /// An owner that waits for its dependents to go.
    Waiting,
    /// Nothing.
    Dangling,
}

fn look_up(engine: &Engine, graph: &Graph, owner: &Owner, namespace: &str) -> Found {
    if let Some(node) = graph.node(&owner.uid) {
        // A namespaced owner in another namespace is no owner.
        let elsewhere = node.key.split_once('/').is_some_and(|(ns, _)| ns != namespace);
        if elsewhere {
            return Found::Dangling;
        }
        return if node.deleting && node.foreground { Found::Waiting } else { Found::Solid };
    }
    // A kind that is not served cannot be judged: leave its dependents alone.
    let Ok(version) = GroupVersion::parse(&owner.api_version) else { return Found::Solid };
    let kinds = engine.registry.kinds();
    let known =
        kinds.groups().get(&version.group).is_some_and(|all| all.iter().any(|k| k.kind == owner.kind));
    if known { Found::Dangling } else { Found::Solid }
}

/// Deletes a dependent whose owners are all gone, or takes the references to gone owners from it.
async fn collect(
    engine: &Engine,
    graph: &Graph,
    uid: &str,
    node: &Node,
    target: &Target,
) -> Result<(), Status> {
    let found = |owner: &Owner| look_up(engine, graph, owner, &target.namespace);
    let solid = node.owners.iter().any(|o| found(o) == Found::Solid);
    let waiting = node.owners.iter().any(|o| found(o) == Found::Waiting);
    let gone: Vec<Str> =
        node.owners.iter().filter(|o| found(o) != Found::Solid).map(|o| o.uid.clone()).collect();
    if gone.is_empty() {
        return Ok(());
    }
    if solid {
        return drop_references(engine, target, uid, &gone).await;
    }
    let has_dependents = graph.dependents(uid).next().is_some();
    let policy = if (waiting && has_dependents) || node.foreground {
        Propagation::Foreground
    } else if node.orphans {
        Propagation::Orphan
    } else {
        Propagation::Background
    };
    let options = DeleteOptions {
        propagation: Some(policy),
        preconditions: Some(Preconditions { uid: Some(uid.into()), resource_version: None }),
        ..DeleteOptions::default()
    };
    engine.delete(target, &options, &engine.system_user(), &mut Vec::new()).await.map(|_| ())
}

/// Takes the references to `owners` from an object, if it is still the one with this uid.
async fn drop_references(engine: &Engine, target: &Target, uid: &str, owners: &[Str]) -> Result<(), Status> {
    engine
        .mutate(target, Some("kube-controller-manager"), |object| {
            if object.str_at(&["metadata", "uid"]) != uid {
                return;
            }
            let left = object.items_at(&["metadata", "ownerReferences"]).iter();
            let left: Vec<Value> =
                left.filter(|r| !owners.iter().any(|o| o == r.str_at(&["uid"]))).cloned().collect();
            set_list(object, "ownerReferences", left);
        })
        .await
}

fn set_list(object: &mut Value, field: &str, items: Vec<Value>) {
    if items.is_empty() {
        object.remove_at(&["metadata", field]);
    } else {
        object.set_at(&["metadata", field], Value::Array(items));
    }
}

/// Lets dependents go their own way, then lets the owner go.
async fn orphan_dependents(engine: &Engine, graph: &Graph, uid: &str, owner: &Target) -> Result<(), Status> {
    for dependent in graph.dependents(uid) {
        let Some(target) = graph.node(dependent).and_then(|node| target(engine, node)) else { continue };
        match drop_references(engine, &target, dependent, &[uid.into()]).await {
            Err(status) if status.code != 404 => return Err(status),
            _ => {}
        }
    }
    drop_finalizer(engine, owner, uid, ORPHAN).await
}

/// Lets the owner go when no dependent blocks it any more. Its dependents attend to themselves.
async fn finish_foreground(engine: &Engine, graph: &Graph, uid: &str, owner: &Target) -> Result<(), Status> {
    let blocks = |dependent: &Str| {
        graph.node(dependent).is_some_and(|node| node.owners.iter().any(|o| &*o.uid == uid && o.blocks))
    };
    if graph.dependents(uid).any(blocks) {
        return Ok(());
    }
    drop_finalizer(engine, owner, uid, FOREGROUND).await
}

async fn drop_finalizer(engine: &Engine, target: &Target, uid: &str, finalizer: &str) -> Result<(), Status> {
    engine
        .mutate(target, Some("kube-controller-manager"), |object| {
            if object.str_at(&["metadata", "uid"]) != uid {
                return;
            }
            let left = object.items_at(&["metadata", "finalizers"]).iter();
            let left: Vec<Value> = left.filter(|f| f.as_str() != Some(finalizer)).cloned().collect();
            set_list(object, "finalizers", left);
        })
        .await
}
