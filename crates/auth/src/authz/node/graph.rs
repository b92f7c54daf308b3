//! The graph of the objects that nodes need: pods lead to nodes; secrets, config maps, claims and accounts lead to
//! pods; volumes lead to claims. It knows neither requests nor object trees.
//!
//! kube-apiserver walks a graph for each decision. This one counts, for each object, how often each node needs it, so
//! that a decision costs two lookups however many pods there are. Memory only grows with the pods and the objects
//! that they refer to.

use std::collections::HashMap;
use std::sync::Arc;

/// `namespace/name` of an object, or its name.
pub(super) type Key = Arc<str>;

/// Kinds of objects that pods refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    Secret,
    ConfigMap,
    PersistentVolumeClaim,
    ResourceClaim,
    ServiceAccount,
}

/// Kinds of objects that belong to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owned {
    Pod,
    VolumeAttachment,
    ResourceSlice,
    PodCertificateRequest,
}

/// The objects that nodes need.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Nodes,
    named: ByNamed,
    owned: ByOwned,
    /// The objects that each pod names.
    pods: HashMap<Key, Box<[(Named, Key)]>>,
    volumes: HashMap<Key, Volume>,
    /// The volumes that are bound to a claim.
    volumes_of_claims: HashMap<Key, Vec<Key>>,
}

#[derive(Debug)]
struct Volume {
    claim: Key,
    secrets: Box<[Key]>,
}

type NodeId = u32;

impl Graph {
    /// Adds or updates a pod on this node.
    pub(super) fn set_pod(
        &mut self,
        pod: &str,
        node: &str,
        names: impl IntoIterator<Item = (Named, String)>,
    ) {
        self.remove_pod(pod);
        self.set_owned(Owned::Pod, pod, node);
        let id = self.nodes.acquire(node);
        let mut names: Vec<(Named, Key)> =
            names.into_iter().map(|(kind, key)| (kind, self.shared_key(kind, &key))).collect();
        names.sort_unstable();
        names.dedup();
        for (kind, key) in &names {
            self.add_use(*kind, key, id, 1);
        }
        self.nodes.release_node_id(id);
        if !names.is_empty() {
            self.pods.insert(pod.into(), names.into());
        }
    }

    /// Removes a pod.
    pub(super) fn remove_pod(&mut self, pod: &str) {
        let node = self.owned.of(Owned::Pod).get(pod).copied();
        if let (Some(node), Some(names)) = (node, self.pods.remove(pod)) {
            for (kind, key) in &names {
                self.remove_use(*kind, key, node, 1);
            }
        }
        self.remove_owned(Owned::Pod, pod);
    }

    /// Adds an object that belongs to this node.
    pub(super) fn set_owned(&mut self, kind: Owned, key: &str, node: &str) {
        self.remove_owned(kind, key);
        let node = self.nodes.acquire(node);
        self.owned.of_mut(kind).insert(key.into(), node);
    }

    /// Removes an object that belongs to a node.
    pub(super) fn remove_owned(&mut self, kind: Owned, key: &str) {
        if let Some(node) = self.owned.of_mut(kind).remove(key) {
            self.nodes.release_node_id(node);
        }
    }

    /// Adds a volume that is bound to a claim, with the secrets that nodes need to mount it.
    pub(super) fn set_volume(
        &mut self,
        volume: &str,
        claim: &str,
        secrets: impl IntoIterator<Item = String>,
    ) {
        self.remove_volume(volume);
        let claim = self.shared_key(Named::PersistentVolumeClaim, claim);
        let mut secrets: Vec<Key> =
            secrets.into_iter().map(|key| self.shared_key(Named::Secret, &key)).collect();
        secrets.sort();
        secrets.dedup();
        for (node, count) in self.users_of_claim(&claim) {
            for secret in &secrets {
                self.add(Named::Secret, secret, node, count);
            }
        }
        let volume: Key = volume.into();
        self.volumes_of_claims.entry(claim.clone()).or_default().push(volume.clone());
        self.volumes.insert(volume, Volume { claim, secrets: secrets.into() });
    }

    /// Removes a volume.
    pub(super) fn remove_volume(&mut self, volume: &str) {
        let Some(Volume { claim, secrets }) = self.volumes.remove(volume) else { return };
        for (node, count) in self.users_of_claim(&claim) {
            for secret in &secrets {
                self.remove(Named::Secret, secret, node, count);
            }
        }
        if let Some(volumes) = self.volumes_of_claims.get_mut(&claim) {
            volumes.retain(|other| **other != *volume);
            if volumes.is_empty() {
                self.volumes_of_claims.remove(&claim);
            }
        }
    }

    /// Returns whether this node needs an object that pods refer to.
    pub(super) fn needs(&self, node: &str, kind: Named, key: &str) -> bool {
        let node = self.nodes.find(node);
        let users = self.named.of(kind).get(key);
        node.zip(users).is_some_and(|(node, users)| users.contains(node))
    }

    /// Whether an object belongs to this node.
    pub(super) fn owns(&self, node: &str, kind: Owned, key: &str) -> bool {
        let node = self.nodes.find(node);
        node.is_some() && self.owned.of(kind).get(key).copied() == node
    }

    /// Whether the graph has a pod.
    pub(super) fn has_pod(&self, key: &str) -> bool {
        self.owned.pods.contains_key(key)
    }

    /// Whether this node mounts a volume.
    pub(super) fn mounts(&self, node: &str, volume: &str) -> bool {
        let volume = self.volumes.get(volume);
        volume.is_some_and(|volume| self.needs(node, Named::PersistentVolumeClaim, &volume.claim))
    }

    /// Returns the key that is already in use, so that each text is stored once.
    fn shared_key(&self, kind: Named, key: &str) -> Key {
        match self.named.of(kind).get_key_value(key) {
            Some((known, _)) => known.clone(),
            None => key.into(),
        }
    }

    fn users_of_claim(&self, claim: &str) -> Vec<(NodeId, u32)> {
        let users = self.named.of(Named::PersistentVolumeClaim).get(claim);
        users.map(|users| users.0.clone()).unwrap_or_default()
    }

    /// Counts a use, and the uses of a claim's secrets.
    fn add_use(&mut self, kind: Named, key: &Key, node: NodeId, count: u32) {
        self.add(kind, key, node, count);
        for secret in self.secrets_of(kind, key) {
            self.add(Named::Secret, &secret, node, count);
        }
    }

    fn remove_use(&mut self, kind: Named, key: &Key, node: NodeId, count: u32) {
        self.remove(kind, key, node, count);
        for secret in self.secrets_of(kind, key) {
            self.remove(Named::Secret, &secret, node, count);
        }
    }

    /// The secrets of all volumes that are bound to a claim; a secret of two volumes occurs twice.
    fn secrets_of(&self, kind: Named, key: &str) -> Vec<Key> {
        if kind != Named::PersistentVolumeClaim {
            return Vec::new();
        }
        let volumes = self.volumes_of_claims.get(key).into_iter().flatten();
        let volumes = volumes.filter_map(|volume| self.volumes.get(volume));
        volumes.flat_map(|volume| volume.secrets.iter().cloned()).collect()
    }

    fn add(&mut self, kind: Named, key: &Key, node: NodeId, count: u32) {
        if self.named.of_mut(kind).entry(key.clone()).or_default().add(node, count) {
            self.nodes.retain_node_id(node);
        }
    }

    fn remove(&mut self, kind: Named, key: &Key, node: NodeId, count: u32) {
        let all = self.named.of_mut(kind);
        let Some(users) = all.get_mut(key) else { return };
        let is_last = users.remove(node, count);
        if users.0.is_empty() {
            all.remove(key);
        }
        if is_last {
            self.nodes.release_node_id(node);
        }
    }
}

/// The users of the objects of each kind.
#[derive(Debug, Default)]
struct ByNamed {
    secrets: HashMap<Key, Users>,
    config_maps: HashMap<Key, Users>,
    claims: HashMap<Key, Users>,
    resource_claims: HashMap<Key, Users>,
    accounts: HashMap<Key, Users>,
}

impl ByNamed {
    fn of(&self, kind: Named) -> &HashMap<Key, Users> {
        match kind {
            Named::Secret => &self.secrets,
            Named::ConfigMap => &self.config_maps,
            Named::PersistentVolumeClaim => &self.claims,
            Named::ResourceClaim => &self.resource_claims,
            Named::ServiceAccount => &self.accounts,
        }
    }

    fn of_mut(&mut self, kind: Named) -> &mut HashMap<Key, Users> {
        match kind {
            Named::Secret => &mut self.secrets,
            Named::ConfigMap => &mut self.config_maps,
            Named::PersistentVolumeClaim => &mut self.claims,
            Named::ResourceClaim => &mut self.resource_claims,
            Named::ServiceAccount => &mut self.accounts,
        }
    }
}

/// The owners of the objects of each kind.
#[derive(Debug, Default)]
struct ByOwned {
    pods: HashMap<Key, NodeId>,
    attachments: HashMap<Key, NodeId>,
    slices: HashMap<Key, NodeId>,
    certificate_requests: HashMap<Key, NodeId>,
}

impl ByOwned {
    fn of(&self, kind: Owned) -> &HashMap<Key, NodeId> {
        match kind {
            Owned::Pod => &self.pods,
            Owned::VolumeAttachment => &self.attachments,
            Owned::ResourceSlice => &self.slices,
            Owned::PodCertificateRequest => &self.certificate_requests,
        }
    }

    fn of_mut(&mut self, kind: Owned) -> &mut HashMap<Key, NodeId> {
        match kind {
            Owned::Pod => &mut self.pods,
            Owned::VolumeAttachment => &mut self.attachments,
            Owned::ResourceSlice => &mut self.slices,
            Owned::PodCertificateRequest => &mut self.certificate_requests,
        }
    }
}

/// How often each node uses an object, sorted by node.
#[derive(Clone, Debug, Default)]
struct Users(Vec<(NodeId, u32)>);

impl Users {
    fn contains(&self, node: NodeId) -> bool {
        self.0.binary_search_by_key(&node, |(id, _)| *id).is_ok()
    }

    /// Returns whether the node did not use the object before.
    fn add(&mut self, node: NodeId, count: u32) -> bool {
        match self.0.binary_search_by_key(&node, |(id, _)| *id) {
            Ok(at) => {
                if let Some((_, held)) = self.0.get_mut(at) {
                    *held = held.saturating_add(count);
                }
                false
            }
            Err(at) => {
                self.0.insert(at, (node, count));
                true
            }
        }
    }

    /// Returns whether the node no longer uses the object.
    fn remove(&mut self, node: NodeId, count: u32) -> bool {
        let Ok(at) = self.0.binary_search_by_key(&node, |(id, _)| *id) else { return false };
        let Some((_, held)) = self.0.get_mut(at) else { return false };
        *held = held.saturating_sub(count);
        if *held > 0 {
            return false;
        }
        self.0.remove(at);
        true
    }
}

/// Numbers of nodes, reused once nothing refers to a node.
#[derive(Debug, Default)]
struct Nodes {
    ids: HashMap<Key, NodeId>,
    /// The name of each number, and its reference count.
    entries: Vec<(Key, u64)>,
    free: Vec<NodeId>,
}

impl Nodes {
    fn find(&self, name: &str) -> Option<NodeId> {
        self.ids.get(name).copied()
    }

    /// Returns the number of a node and adds a reference.
    fn acquire(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.find(name) {
            self.retain_node_id(id);
            return id;
        }
        let name: Key = name.into();
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                // So many nodes would not fit into memory.
                let id = NodeId::try_from(self.entries.len()).unwrap_or(NodeId::MAX);
                self.entries.push((name.clone(), 0));
                id
            }
        };
        if let Some(entry) = self.entries.get_mut(id as usize) {
            *entry = (name.clone(), 1);
        }
        self.ids.insert(name, id);
        id
    }

    fn retain_node_id(&mut self, id: NodeId) {
        if let Some((_, references)) = self.entries.get_mut(id as usize) {
            *references = references.saturating_add(1);
        }
    }

    fn release_node_id(&mut self, id: NodeId) {
        let Some((name, references)) = self.entries.get_mut(id as usize) else { return };
        *references = references.saturating_sub(1);
        if *references == 0 {
            self.ids.remove(name);
            self.free.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: Named, key: &str) -> (Named, String) {
        (kind, key.to_string())
    }

    #[test]
    fn nodes_need_what_their_pods_name_until_the_pods_are_gone() {
        use Named::{ConfigMap, PersistentVolumeClaim, Secret};
        let mut graph = Graph::default();
        graph.set_volume("v", "x/claim", ["y/s2".to_string()]);
        graph.set_pod("x/p", "n1", [named(Secret, "x/s1"), named(PersistentVolumeClaim, "x/claim")]);
        graph.set_pod("x/q", "n1", [named(Secret, "x/s1"), named(ConfigMap, "x/c")]);
        assert!(graph.needs("n1", Secret, "x/s1") && graph.needs("n1", Secret, "y/s2"));
        assert!(graph.mounts("n1", "v") && graph.owns("n1", Owned::Pod, "x/p"));
        assert!(!graph.needs("n2", Secret, "x/s1") && !graph.needs("n1", Secret, "x/c"));
        graph.remove_pod("x/p");
        assert!(graph.needs("n1", Secret, "x/s1"), "the other pod names it too");
        assert!(!graph.needs("n1", Secret, "y/s2") && !graph.mounts("n1", "v"));
        graph.remove_pod("x/q");
        assert!(!graph.needs("n1", Secret, "x/s1") && !graph.owns("n1", Owned::Pod, "x/q"));
        graph.remove_volume("v");
        assert!(graph.named.secrets.is_empty() && graph.named.claims.is_empty());
        assert!(graph.volumes_of_claims.is_empty() && graph.volumes.is_empty());
        assert!(graph.nodes.ids.is_empty() && graph.pods.is_empty());
    }

    #[test]
    fn volumes_that_come_after_their_pods_count_too() {
        let mut graph = Graph::default();
        graph.set_pod("x/p", "n", [named(Named::PersistentVolumeClaim, "x/claim")]);
        graph.set_volume("v", "x/claim", ["x/s".to_string()]);
        assert!(graph.needs("n", Named::Secret, "x/s"));
        graph.set_volume("v", "x/other", ["x/s".to_string()]);
        assert!(!graph.needs("n", Named::Secret, "x/s") && !graph.mounts("n", "v"));
    }

    /// Compares the result with a walk over all objects, as kube-apiserver does it.
    #[test]
    fn counts_agree_with_a_walk() {
        let mut seed = 7_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut graph = Graph::default();
        let mut pods: HashMap<String, (String, Vec<(Named, String)>)> = HashMap::new();
        let mut volumes: HashMap<String, (String, Vec<String>)> = HashMap::new();
        for step in 0..4000 {
            let pod = format!("x/p{}", random(12));
            let volume = format!("v{}", random(4));
            match random(6) {
                0 => {
                    graph.remove_pod(&pod);
                    pods.remove(&pod);
                }
                1 => {
                    graph.remove_volume(&volume);
                    volumes.remove(&volume);
                }
                2 => {
                    let claim = format!("x/claim{}", random(4));
                    let secrets: Vec<String> = (0..random(3)).map(|_| format!("x/s{}", random(5))).collect();
                    graph.set_volume(&volume, &claim, secrets.clone());
                    volumes.insert(volume, (claim, secrets));
                }
                _ => {
                    let node = format!("n{}", random(4));
                    let mut names = vec![named(Named::Secret, &format!("x/s{}", random(5)))];
                    names.push(named(Named::PersistentVolumeClaim, &format!("x/claim{}", random(4))));
                    graph.set_pod(&pod, &node, names.clone());
                    pods.insert(pod, (node, names));
                }
            }
            for node in (0..4).map(|n| format!("n{n}")) {
                let mine = || pods.values().filter(|(of, _)| *of == node).flat_map(|(_, names)| names);
                let claims = |claim: &str| mine().any(|n| *n == named(Named::PersistentVolumeClaim, claim));
                for secret in (0..5).map(|s| format!("x/s{s}")) {
                    let want = mine().any(|n| *n == named(Named::Secret, &secret))
                        || volumes.values().any(|(claim, all)| all.contains(&secret) && claims(claim));
                    assert_eq!(graph.needs(&node, Named::Secret, &secret), want, "{step} {node} {secret}");
                }
            }
        }
    }
}
