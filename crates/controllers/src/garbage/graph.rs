//! The graph of owner references, and which of its nodes need to be looked at.

use pintle_cache::Object;
use pintle_value::{Str, Value};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: Str,
    pub(super) api_version: Str,
    pub(super) kind: Str,
    /// Whether the dependent keeps an owner that is deleted in the foreground.
    pub(super) blocks: bool,
}

/// What the collector knows of an object.
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

#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<Str, Node>,
    dependents: HashMap<Str, BTreeSet<Str>>,
    work: BTreeSet<Str>,
}

impl Graph {
    /// Takes note of an object as it is now.
    pub(super) fn put(&mut self, resource: &Arc<str>, object: &Object) {
        let uid = Str::from(object.uid());
        if uid.is_empty() {
            return;
        }
        let node = read(resource, object);
        let old = self.nodes.get(&uid).map(|n| n.owners.clone()).unwrap_or_default();
        for owner in old.iter().filter(|o| !node.owners.contains(o)) {
            self.unlink(&owner.uid, &uid);
        }
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        if node.deleting && node.foreground {
            // Its dependents go first.
            let dependents = self.dependents.get(&uid).cloned().unwrap_or_default();
            self.work.extend(dependents);
        }
        if !node.owners.is_empty() || node.deleting {
            self.work.insert(uid.clone());
        }
        self.nodes.insert(uid, node);
    }

    /// Takes note that an object is gone.
    pub(super) fn remove(&mut self, uid: &str) {
        let Some(node) = self.nodes.remove(uid) else { return };
        for owner in &node.owners {
            self.unlink(&owner.uid, uid);
        }
        if let Some(dependents) = self.dependents.get(uid) {
            self.work.extend(dependents.iter().cloned());
        }
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
        // An owner that waits for its dependents may be done.
        if self.nodes.get(owner).is_some_and(|node| node.deleting && node.foreground) {
            self.work.insert(owner.into());
        }
    }

    pub(super) fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects that name this owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Str> {
        self.dependents.get(uid).into_iter().flatten()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    pub(super) fn take_work(&mut self) -> BTreeSet<Str> {
        std::mem::take(&mut self.work)
    }

    /// Puts a node back for a later try.
    pub(super) fn again(&mut self, uid: Str) {
        self.work.insert(uid);
    }
}

/// Reads what the collector must know; most objects have none of it and are not parsed.
fn read(resource: &Arc<str>, object: &Object) -> Node {
    let mut node = Node {
        resource: resource.clone(),
        key: object.key().as_str().into(),
        owners: Vec::new(),
        deleting: false,
        foreground: false,
        orphans: false,
    };
    let json = object.json();
    let mentions = |word: &[u8]| memchr::memmem::find(json, word).is_some();
    if !mentions(b"\"ownerReferences\"")
        && !mentions(b"\"deletionTimestamp\"")
        && !mentions(b"\"finalizers\"")
    {
        return node;
    }
    let Ok(parsed) = pintle_value::json::parse(json) else { return node };
    let tree = parsed.value;
    node.deleting = tree.at(&["metadata", "deletionTimestamp"]).is_some();
    let held =
        |name: &str| tree.items_at(&["metadata", "finalizers"]).iter().any(|f| f.as_str() == Some(name));
    (node.foreground, node.orphans) = (held("foregroundDeletion"), held("orphan"));
    node.owners = tree.items_at(&["metadata", "ownerReferences"]).iter().map(owner).collect();
    node
}

fn owner(reference: &Value) -> Owner {
    Owner {
        uid: reference.str_at(&["uid"]).into(),
        api_version: reference.str_at(&["apiVersion"]).into(),
        kind: reference.str_at(&["kind"]).into(),
        blocks: reference.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or(false),
    }
}
