//! The graph of owner references, and which of its nodes must be processed.

use memchr::memmem::Finder;
use pintle_cache::{Event, Object};
use pintle_value::{Str, Value};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: Str,
    pub(super) api_version: Str,
    pub(super) kind: Str,
    pub(super) name: Str,
    /// Whether the dependent blocks a foreground deletion of the owner.
    pub(super) blocks: bool,
}

/// The collector's view of an object.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Store prefix of its resource.
    pub(super) resource: Arc<str>,
    /// `namespace/name` or `name`.
    pub(super) key: Str,
    pub(super) owners: Vec<Owner>,
    pub(super) deleting: bool,
    pub(super) foreground: bool,
    pub(super) orphans: bool,
}

/// Only objects that have owners or are being deleted have a node: most have neither, and a node for each would take more
/// memory than the rest of the collector.
#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<Str, Node>,
    dependents: HashMap<Str, BTreeSet<Str>>,
    work: BTreeSet<Str>,
    /// Failed nodes, which are retried after a while.
    later: BTreeSet<Str>,
}

impl Graph {
    /// Records the current state of an object.
    pub(super) fn put(&mut self, resource: &Arc<str>, object: &Object) {
        if object.uid().is_empty() {
            return;
        }
        let Some(node) = read(resource, object) else { return self.forget(object.uid()) };
        let uid = Str::from(object.uid());
        let old = self.nodes.get(&uid).map(|n| n.owners.clone()).unwrap_or_default();
        for owner in old.iter().filter(|o| !node.owners.contains(o)) {
            self.unlink(&owner.uid, &uid);
        }
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        if node.deleting && node.foreground {
            // Its dependents are processed first.
            let dependents = self.dependents.get(&uid).cloned().unwrap_or_default();
            self.work.extend(dependents);
        }
        self.work.insert(uid.clone());
        self.nodes.insert(uid, node);
    }

    /// Records that an object was deleted.
    pub(super) fn remove(&mut self, uid: &str) {
        self.forget(uid);
        if let Some(dependents) = self.dependents.get(uid) {
            self.work.extend(dependents.iter().cloned());
        }
    }

    /// Removes the node of an object that has no owners any more or was deleted.
    fn forget(&mut self, uid: &str) {
        if self.nodes.is_empty() {
            return;
        }
        let Some(node) = self.nodes.remove(uid) else { return };
        for owner in &node.owners {
            self.unlink(&owner.uid, uid);
        }
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
        // An owner that waits for its dependents may now be complete.
        if self.nodes.get(owner).is_some_and(|node| node.deleting && node.foreground) {
            self.work.insert(owner.into());
        }
    }

    pub(super) fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects that refer to this owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Str> {
        self.dependents.get(uid).into_iter().flatten()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// The next node to process.
    pub(super) fn take_work(&mut self) -> Option<Str> {
        self.work.pop_first()
    }

    /// Queues a node for a later retry.
    pub(super) fn retry_later(&mut self, uid: Str) {
        self.later.insert(uid);
    }

    pub(super) fn has_failed_work(&self) -> bool {
        !self.later.is_empty()
    }

    /// Queues the failed nodes again.
    pub(super) fn retry(&mut self) {
        self.work.append(&mut self.later);
    }
}

/// Returns whether an event can change the graph or cause work: the object is gone, or it has or had a node.
pub(super) fn concerns(event: &Event) -> bool {
    event.object().is_none_or(|object| may_have_node(object))
        || event.previous().is_some_and(|previous| may_have_node(previous))
}

/// Returns whether an object may have owners or may be being deleted. Most objects have no owners, are not being deleted
/// and need not be parsed.
fn may_have_node(object: &Object) -> bool {
    static KEYS: LazyLock<[Finder<'static>; 2]> =
        LazyLock::new(|| ["\"ownerReferences\"", "\"deletionTimestamp\""].map(Finder::new));
    KEYS.iter().any(|key| key.find(object.json()).is_some())
}

/// Reads the owners of an object; `None` if it has no owners and is not being deleted.
fn read(resource: &Arc<str>, object: &Object) -> Option<Node> {
    if !may_have_node(object) {
        return None;
    }
    let json = object.json();
    let tree = pintle_value::json::parse(json).ok()?.value;
    let deleting = tree.at(&["metadata", "deletionTimestamp"]).is_some();
    let owners: Vec<Owner> = tree.items_at(&["metadata", "ownerReferences"]).iter().map(read_owner).collect();
    if owners.is_empty() && !deleting {
        return None;
    }
    let held =
        |name: &str| tree.items_at(&["metadata", "finalizers"]).iter().any(|f| f.as_str() == Some(name));
    let (resource, key) = (resource.clone(), object.key().as_str().into());
    Some(Node {
        resource,
        key,
        owners,
        deleting,
        foreground: held("foregroundDeletion"),
        orphans: held("orphan"),
    })
}

fn read_owner(reference: &Value) -> Owner {
    Owner {
        uid: reference.str_at(&["uid"]).into(),
        api_version: reference.str_at(&["apiVersion"]).into(),
        kind: reference.str_at(&["kind"]).into(),
        name: reference.str_at(&["name"]).into(),
        blocks: reference.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or(false),
    }
}
