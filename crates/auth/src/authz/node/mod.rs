//! The Node authorizer: nodes may read the objects that their pods need, and may write their own objects. It has no
//! opinion on other users.

mod graph;
mod references;

use super::rbac::Rule;
use super::{Attributes, Authorizer, Authorizing, Decision, RulesFound};
use crate::UserInfo;
use graph::{Graph, Named, Owned};
use pintle_metrics::families;
use pintle_value::Value;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
const LEASES_NAMESPACE: &str = "kube-node-lease";

/// The kinds of objects that determine what a node needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum GraphKind {
    Pod,
    PersistentVolume,
    VolumeAttachment,
    ResourceSlice,
    PodCertificateRequest,
}

/// Feature gates that affect the Node authorizer.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeFeatures {
    /// `ClusterTrustBundle`
    pub trust_bundles: bool,
    /// `KubeletServiceAccountTokenForCredentialProviders`
    pub credential_providers: bool,
    /// `PodCertificateRequest`
    pub pod_certificates: bool,
}

/// Authorizes requests of nodes.
pub struct NodeAuthorizer {
    graph: RwLock<Graph>,
    features: NodeFeatures,
    /// Rules for objects that are the same for every node.
    rules: Vec<Rule>,
}

impl NodeAuthorizer {
    /// An authorizer that knows no pods yet.
    pub fn new(features: NodeFeatures) -> Self {
        NodeAuthorizer { graph: RwLock::default(), features, rules: rules(features) }
    }

    /// Adds or updates an object of the graph.
    pub fn insert(&self, kind: GraphKind, key: &str, object: &Value) {
        let node = object.str_at(&["spec", "nodeName"]);
        let (owned, operation) = match kind {
            GraphKind::Pod => {
                let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
                let names = references::of_pod(object, namespace);
                return match node {
                    "" => self.write().remove_pod(key),
                    node => timed("AddPod", || self.write().set_pod(key, node, names)),
                };
            }
            GraphKind::PersistentVolume => {
                let bound = references::of_persistent_volume(object);
                return timed("AddPV", || match bound {
                    None => self.write().remove_volume(key),
                    Some((claim, secrets)) => self.write().set_volume(key, &claim, secrets),
                });
            }
            GraphKind::VolumeAttachment if self.read().owns(node, Owned::VolumeAttachment, key) => return,
            GraphKind::VolumeAttachment => (Owned::VolumeAttachment, "AddVolumeAttachment"),
            GraphKind::ResourceSlice => (Owned::ResourceSlice, "AddResourceSlice"),
            GraphKind::PodCertificateRequest => (Owned::PodCertificateRequest, "AddPodCertificateRequest"),
        };
        timed(operation, || match node {
            "" => self.write().remove_owned(owned, key),
            node => self.write().set_owned(owned, key, node),
        });
    }

    /// Removes an object.
    pub fn remove(&self, kind: GraphKind, key: &str) {
        let owned = |operation, kind| timed(operation, || self.write().remove_owned(kind, key));
        match kind {
            // A pod without a node was never added.
            GraphKind::Pod if !self.knows_pod(key) => {}
            GraphKind::Pod => timed("DeletePod", || self.write().remove_pod(key)),
            GraphKind::PersistentVolume => timed("DeletePV", || self.write().remove_volume(key)),
            GraphKind::VolumeAttachment => owned("DeleteVolumeAttachment", Owned::VolumeAttachment),
            GraphKind::ResourceSlice => owned("DeleteResourceSlice", Owned::ResourceSlice),
            GraphKind::PodCertificateRequest => {
                owned("DeletePodCertificateRequest", Owned::PodCertificateRequest);
            }
        }
    }

    /// Returns whether a pod is known, which means that it is bound to a node.
    pub fn knows_pod(&self, key: &str) -> bool {
        self.read().has_pod(key)
    }

    /// Removes all objects before they are loaded again.
    pub fn clear(&self) {
        *self.write() = Graph::default();
    }

    fn read(&self) -> RwLockReadGuard<'_, Graph> {
        self.graph.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Graph> {
        self.graph.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a change of the graph and records how long it took.
fn timed(operation: &str, change: impl FnOnce()) {
    let began = Instant::now();
    change();
    families::GRAPH_SECONDS.observe(&[operation], began.elapsed().as_secs_f64());
}

/// The node name of a user; `None` for users that are not nodes.
fn node_of(user: &UserInfo) -> Option<&str> {
    user.name.strip_prefix(NODE_PREFIX).filter(|_| user.in_group(NODES))
}

impl Authorizer for NodeAuthorizer {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        let Some(node) = node_of(&attributes.user) else {
            return Decision::NoOpinion(String::new()).into();
        };
        if node.is_empty() {
            let name = pintle_meta::field::quoted(&attributes.user.name);
            return Decision::NoOpinion(format!("unknown node for user {name}")).into();
        }
        let request = Request { node, a: attributes, authorizer: self };
        match request.decide() {
            Ok(()) => Decision::Allow(Default::default()),
            Err(reason) => Decision::NoOpinion(reason),
        }
        .into()
    }

    fn rules_for(&self, user: &UserInfo, _namespace: &str) -> RulesFound {
        match node_of(user) {
            None => RulesFound::default(),
            Some(_) => RulesFound::unknown("node authorizer does not support user rule resolution"),
        }
    }
}

/// The reason of a denial; "" if kube-apiserver gives none.
type Verdict = Result<(), String>;

fn refuse(reason: &str) -> Verdict {
    Err(reason.to_string())
}

/// One request of a node.
struct Request<'a> {
    node: &'a str,
    a: &'a Attributes,
    authorizer: &'a NodeAuthorizer,
}

impl Request<'_> {
    fn decide(&self) -> Verdict {
        if !self.a.resource_request {
            return self.by_rules();
        }
        match (self.a.group.as_str(), self.a.resource.as_str()) {
            ("", "secrets") => self.read_object(|graph, node, key| graph.needs(node, Named::Secret, key)),
            ("", "configmaps") => {
                self.read_object(|graph, node, key| graph.needs(node, Named::ConfigMap, key))
            }
            ("", "persistentvolumeclaims") => self.decide_claim(),
            ("", "persistentvolumes") => self.get(Graph::mounts),
            ("resource.k8s.io", "resourceclaims") => {
                self.get(|graph, node, key| graph.needs(node, Named::ResourceClaim, key))
            }
            ("storage.k8s.io", "volumeattachments") => {
                self.get(|graph, node, key| graph.owns(node, Owned::VolumeAttachment, key))
            }
            ("", "serviceaccounts") => self.decide_service_account(),
            ("coordination.k8s.io", "leases") => self.decide_lease(),
            ("storage.k8s.io", "csinodes") => self.csi_node(),
            ("resource.k8s.io", "resourceslices") => self.decide_resource_slice(),
            ("", "nodes") => self.own_node(),
            ("", "pods") => self.decide_pod(),
            ("certificates.k8s.io", "podcertificaterequests") => self.pod_certificate(),
            _ => self.by_rules(),
        }
    }

    fn by_rules(&self) -> Verdict {
        if self.authorizer.rules.iter().any(|rule| rule.allows(self.a)) { Ok(()) } else { refuse("") }
    }

    /// Requires that the graph relates the object to the node.
    fn related(&self, leads: impl Fn(&Graph, &str, &str) -> bool) -> Verdict {
        if self.a.name.is_empty() {
            return refuse("No Object name found");
        }
        let unrelated = format!("no relationship found between node '{}' and this object", self.node);
        let key = match self.a.namespace.as_str() {
            // An access review may contain any name; a name with a slash must not be taken for a namespace and a
            // name.
            "" if self.a.name.contains('/') => return Err(unrelated),
            "" => self.a.name.clone(),
            namespace => format!("{namespace}/{}", self.a.name),
        };
        if leads(&self.authorizer.read(), self.node, &key) { Ok(()) } else { Err(unrelated) }
    }

    fn get(&self, leads: impl Fn(&Graph, &str, &str) -> bool) -> Verdict {
        match () {
            () if self.a.verb != "get" => refuse("can only get individual resources of this type"),
            () if !self.a.subresource.is_empty() => refuse("cannot get subresource"),
            () => self.related(leads),
        }
    }

    fn read_object(&self, leads: impl Fn(&Graph, &str, &str) -> bool) -> Verdict {
        match () {
            () if !matches!(self.a.verb.as_str(), "get" | "list" | "watch") => {
                refuse("can only read resources of this type")
            }
            () if !self.a.subresource.is_empty() => refuse("cannot read subresource"),
            () if self.a.namespace.is_empty() => refuse("can only read namespaced object of this type"),
            () => self.related(leads),
        }
    }

    fn decide_claim(&self) -> Verdict {
        let leads =
            |graph: &Graph, node: &str, key: &str| graph.needs(node, Named::PersistentVolumeClaim, key);
        match (self.a.subresource.as_str(), self.a.verb.as_str()) {
            ("status", "update" | "patch") => self.related(leads),
            ("status", _) => refuse("can only get/update/patch this type"),
            _ => self.get(leads),
        }
    }

    fn decide_service_account(&self) -> Verdict {
        let leads = |graph: &Graph, node: &str, key: &str| graph.needs(node, Named::ServiceAccount, key);
        let NodeFeatures { credential_providers, pod_certificates, .. } = self.authorizer.features;
        match (self.a.verb.as_str(), self.a.subresource.as_str()) {
            ("get", "") if !credential_providers && !pod_certificates => {
                refuse("not allowed to get service accounts")
            }
            ("get", "") => self.read_object(leads),
            ("create", _) if self.a.name.is_empty() => {
                refuse("can only create tokens for individual service accounts")
            }
            ("create", "token") => self.related(leads),
            ("create", _) => refuse("can only create token subresource of serviceaccount"),
            _ => refuse("can only create tokens for individual service accounts"),
        }
    }

    fn decide_lease(&self) -> Verdict {
        let verb = self.a.verb.as_str();
        match () {
            () if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") => {
                refuse("can only get, create, update, patch, or delete a node lease")
            }
            () if self.a.namespace != LEASES_NAMESPACE => {
                Err(format!("can only access leases in the \"{LEASES_NAMESPACE}\" system namespace"))
            }
            // The name of a new object is not known here; the plugin NodeRestriction checks it.
            () if verb != "create" && self.a.name != self.node => {
                refuse("can only access node lease with the same name as the requesting node")
            }
            () => Ok(()),
        }
    }

    fn csi_node(&self) -> Verdict {
        let verb = self.a.verb.as_str();
        match () {
            () if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") => {
                refuse("can only get, create, update, patch, or delete a CSINode")
            }
            () if !self.a.subresource.is_empty() => refuse("cannot authorize CSINode subresources"),
            () if verb != "create" && self.a.name != self.node => {
                refuse("can only access CSINode with the same name as the requesting node")
            }
            () => Ok(()),
        }
    }

    fn decide_resource_slice(&self) -> Verdict {
        if !self.a.subresource.is_empty() {
            return refuse("cannot authorize ResourceSlice subresources");
        }
        match self.a.verb.as_str() {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                self.related(|graph, node, key| graph.owns(node, Owned::ResourceSlice, key))
            }
            "watch" | "list" | "deletecollection" => self.selects_node(
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => refuse(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        }
    }

    fn pod_certificate(&self) -> Verdict {
        match self.a.verb.as_str() {
            _ if !self.authorizer.features.pod_certificates => refuse(""),
            _ if !self.a.subresource.is_empty() => {
                refuse("nodes may not access the status subresource of PodCertificateRequests")
            }
            "create" => Ok(()),
            "get" => self.related(|graph, node, key| graph.owns(node, Owned::PodCertificateRequest, key)),
            "list" | "watch" => {
                self.selects_node("can only list/watch podcertificaterequests with nodeName field selector")
            }
            verb => Err(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    fn own_node(&self) -> Verdict {
        let node = self.node;
        match (self.a.subresource.as_str(), self.a.verb.as_str()) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") => match self.a.name.as_str() {
                name if name == node => Ok(()),
                "" => Err(format!("node '{node}' cannot read all nodes, only its own Node object")),
                name => Err(format!("node '{node}' cannot read '{name}', only its own Node object")),
            },
            _ => refuse(""),
        }
    }

    fn decide_pod(&self) -> Verdict {
        let leads = |graph: &Graph, node: &str, key: &str| graph.owns(node, Owned::Pod, key);
        match (self.a.subresource.as_str(), self.a.verb.as_str()) {
            ("", "get") => self.get(leads),
            ("", "list" | "watch") => {
                let selects = self.selects_node("can only list/watch pods with spec.nodeName field selector");
                match selects {
                    Err(_) if !self.a.name.is_empty() => self.related(leads),
                    other => other,
                }
            }
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => refuse(""),
        }
    }

    /// Requires that the request only selects objects of the node.
    fn selects_node(&self, otherwise: &str) -> Verdict {
        let mut terms = self.a.field_selector.terms().iter();
        if terms.any(|term| term.equal && term.field == "spec.nodeName" && term.value == self.node) {
            Ok(())
        } else {
            refuse(otherwise)
        }
    }
}

/// The rules for every node. The graph decides what differs between nodes.
fn rules(features: NodeFeatures) -> Vec<Rule> {
    const READ: [&str; 3] = ["get", "list", "watch"];
    let rule = |verbs: &[&str], groups: &[&str], resources: &[&str]| {
        let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        Rule {
            verbs: texts(verbs),
            api_groups: texts(groups),
            resources: texts(resources),
            ..Rule::default()
        }
    };
    let mut out = vec![
        rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews", "localsubjectaccessreviews"]),
        rule(&READ, &[""], &["services"]),
        rule(&["create", "update", "patch"], &["", "events.k8s.io"], &["events"]),
        rule(&["get"], &[""], &["endpoints"]),
        rule(&["create", "get", "list", "watch"], &["certificates.k8s.io"], &["certificatesigningrequests"]),
        rule(&READ, &["storage.k8s.io"], &["csidrivers"]),
        rule(&READ, &["node.k8s.io"], &["runtimeclasses"]),
    ];
    if features.trust_bundles {
        out.push(rule(&READ, &["certificates.k8s.io"], &["clustertrustbundles"]));
    }
    out
}

#[cfg(test)]
mod tests;
