//! NodeRestriction: restricts kubelets to their own node and to its pods and leases, whatever their roles allow.

mod pod_certificate;
mod references;

use crate::{Attributes, ClusterState, Mutation, Operation, Plugin};
use pintle_auth::authz::Attributes as Question;
use pintle_auth::{Authorizer, UserInfo};
use pintle_kinds::RequestSubject;
use pintle_meta::field::quoted;
use pintle_meta::{GroupResource, Status};
use pintle_value::{Value, base64};
use std::collections::BTreeSet;
use std::sync::Arc;

const USER_PREFIX: &str = "system:node:";
const NODES_GROUP: &str = "system:nodes";
const MIRROR: &str = "kubernetes.io/config.mirror";
const LEASE_NAMESPACE: &str = "kube-node-lease";
const KUBELET_SIGNERS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];
const RESTRICTED_LABELS: &str = "node-restriction.kubernetes.io";
/// Labels of Kubernetes' own domains that kubelets set on their nodes.
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
const KUBELET_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

pub(crate) struct NodeRestriction(pub(crate) Arc<dyn Authorizer>);

impl Plugin for NodeRestriction {
    fn mutate(&self, Mutation { request, object, cluster }: Mutation<'_>) -> Result<(), Status> {
        self.check(request, Some(object), cluster)
    }

    fn admit_deletion(&self, request: &Attributes<'_>, cluster: &dyn ClusterState) -> Result<(), Status> {
        self.check(request, None, cluster)
    }
}

/// The node name of a kubelet's user; `None` for other users.
fn node_of(user: &UserInfo) -> Option<&str> {
    user.name.strip_prefix(USER_PREFIX).filter(|_| user.in_group(NODES_GROUP))
}

impl NodeRestriction {
    fn check(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        cluster: &dyn ClusterState,
    ) -> Result<(), Status> {
        let Some(node) = node_of(request.user) else { return Ok(()) };
        let case = Case { node, request, object: object.unwrap_or(&Value::Null), cluster };
        if node.is_empty() {
            return case
                .refuse(&format!("could not determine node from user {}", quoted(&request.user.name)));
        }
        match (request.kind.group.as_str(), request.kind.plural.as_str(), request.subresource) {
            ("", "pods", "") => case.check_pod(),
            ("", "pods", "status") => case.pod_status(),
            ("", "pods", "eviction") => case.check_eviction(),
            ("", "pods", other) => case.refuse(&format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                quoted(other)
            )),
            ("", "nodes", _) => case.check_node(),
            ("", "persistentvolumeclaims", "status") => case.claim_status(),
            ("", "persistentvolumeclaims", _) => case.refuse("may only update PVC status"),
            ("", "serviceaccounts", "token") => case.token(&*self.0),
            ("coordination.k8s.io", "leases", _) => case.check_lease(),
            ("storage.k8s.io", "csinodes", _) => {
                case.own_name("can only access CSINode with the same name as the requesting node")
            }
            ("resource.k8s.io", "resourceslices", _) => case.check_resource_slice(),
            ("certificates.k8s.io", "certificatesigningrequests", _) => case.check_certificate_request(),
            ("certificates.k8s.io", "podcertificaterequests", _) => case.pod_certificate_request(),
            _ => Ok(()),
        }
    }
}

/// A request of a node.
struct Case<'a> {
    node: &'a str,
    request: &'a Attributes<'a>,
    /// Null on deletion.
    object: &'a Value,
    cluster: &'a dyn ClusterState,
}

impl Case<'_> {
    fn refuse(&self, why: &str) -> Result<(), Status> {
        Err(self.request.forbidden(Some(self.object), why))
    }

    fn refuse_unless(&self, holds: bool, why: &str) -> Result<(), Status> {
        if holds { Ok(()) } else { self.refuse(why) }
    }

    fn unexpected(&self) -> Result<(), Status> {
        self.refuse(&format!("unexpected operation {}", quoted(self.request.operation.name())))
    }

    fn pod_named(&self, name: &str) -> Result<Value, Status> {
        let missing = || Status::not_found(&GroupResource::new("", "pod"), name);
        self.cluster.object("", "pods", self.request.namespace, name).ok_or_else(missing)
    }

    /// Returns whether a pod runs on the node.
    fn runs(&self, pod: &Value) -> bool {
        pod.str_at(&["spec", "nodeName"]) == self.node
    }

    fn check_pod(&self) -> Result<(), Status> {
        let node = quoted(self.node);
        match self.request.operation {
            Operation::Create => self.mirror_pod(),
            // The deletion of a collection has no name. kube-apiserver finds no pod then, and skips it.
            Operation::Delete => self.refuse_unless(
                self.runs(&self.pod_named(self.request.name)?),
                &format!("node {node} can only delete pods with spec.nodeName set to itself"),
            ),
            other => self.refuse(&format!(
                "unexpected operation {}, node {node} can only create and delete mirror pods",
                quoted(other.name())
            )),
        }
    }

    fn mirror_pod(&self) -> Result<(), Status> {
        let (pod, node) = (self.object, quoted(self.node));
        if pod.at(&["metadata", "annotations", MIRROR]).is_none() {
            let why = format!(
                "pod does not have {} annotation, node {node} can only create mirror pods",
                quoted(MIRROR)
            );
            return self.refuse(&why);
        }
        let only = |what: &str| format!("node {node} can only create pods with {what} set to itself");
        self.refuse_unless(self.runs(pod), &only("spec.nodeName"))?;
        let owner = match pod.items_at(&["metadata", "ownerReferences"]) {
            [owner] => owner,
            [] => return self.refuse(&only("an owner reference")),
            _ => return self.refuse(&only("a single owner reference")),
        };
        let is_true = |key: &str| owner.get(key).and_then(Value::as_bool) == Some(true);
        let names_node = owner.str_at(&["apiVersion"]) == "v1"
            && owner.str_at(&["kind"]) == "Node"
            && owner.str_at(&["name"]) == self.node;
        self.refuse_unless(names_node, &only("an owner reference"))?;
        self.refuse_unless(is_true("controller"), &only("a controller owner reference"))?;
        self.refuse_unless(
            !is_true("blockOwnerDeletion"),
            &format!("node {node} must not set blockOwnerDeletion on an owner reference"),
        )?;
        let Some(live) = self.cluster.object("", "nodes", "", self.node) else {
            return Err(Status::not_found(&GroupResource::new("", "node"), self.node));
        };
        let (wanted, uid) = (owner.str_at(&["uid"]), live.str_at(&["metadata", "uid"]));
        let mismatch = format!("node {} UID mismatch: expected {wanted} got {uid}", self.node);
        self.refuse_unless(wanted == uid, &mismatch)?;
        match references::api_reference(pod) {
            Ok(Some(what)) => self.refuse(&format!("node {node} can not create pods that reference {what}")),
            Ok(None) => Ok(()),
            Err(why) => self.refuse(&format!("error checking mirror pod for API references: {why}")),
        }
    }

    fn pod_status(&self) -> Result<(), Status> {
        let (Operation::Update, Some(old)) = (self.request.operation, self.request.old) else {
            return self.unexpected();
        };
        let node = quoted(self.node);
        let same = |path: &[&str]| old.at(path) == self.object.at(path);
        self.refuse_unless(
            self.runs(old),
            &format!("node {node} can only update pod status for pods with spec.nodeName set to itself"),
        )?;
        for (path, why) in [
            (["metadata", "labels"], "cannot update labels through pod status"),
            (["status", "resourceClaimStatuses"], "cannot update resource claim statues"),
            (["status", "extendedResourceClaimStatus"], "cannot update extended resource claim status"),
        ] {
            self.refuse_unless(same(&path), &format!("node {node} {why}"))?;
        }
        Ok(())
    }

    fn check_eviction(&self) -> Result<(), Status> {
        let name = match self.request.name {
            "" => self.object.str_at(&["metadata", "name"]),
            name => name,
        };
        self.refuse_unless(!name.is_empty(), "could not determine pod from request data")?;
        let why = format!("node {} can only evict pods with spec.nodeName set to itself", self.node);
        self.refuse_unless(self.runs(&self.pod_named(name)?), &why)
    }

    fn check_node(&self) -> Result<(), Status> {
        let node = quoted(self.node);
        let name = self.request.name;
        self.refuse_unless(
            name == self.node,
            &format!("node {node} is not allowed to modify node {}", quoted(name)),
        )?;
        let config = self.object.at(&["spec", "configSource"]);
        match (self.request.operation, self.request.old) {
            (Operation::Create, _) => {
                self.refuse_unless(
                    config.is_none(),
                    &format!("node {node} is not allowed to create pods with a non-nil configSource"),
                )?;
                let labels = forbidden_labels(self.object, &Value::Null);
                let why = format!("node {node} is not allowed to set the following labels: {labels}");
                self.refuse_unless(labels.is_empty(), &why)
            }
            (Operation::Update, Some(old)) => {
                let same = |path: &[&str]| old.at(path) == self.object.at(path);
                for (holds, what) in [
                    (
                        config.is_none() || same(&["spec", "configSource"]),
                        "update configSource to a new non-nil configSource",
                    ),
                    (same(&["spec", "taints"]), "modify taints"),
                    (same(&["metadata", "ownerReferences"]), "modify ownerReferences"),
                ] {
                    self.refuse_unless(holds, &format!("node {node} is not allowed to {what}"))?;
                }
                let labels = forbidden_labels(self.object, old);
                self.refuse_unless(labels.is_empty(), &format!("is not allowed to modify labels: {labels}"))
            }
            _ => Ok(()),
        }
    }

    fn claim_status(&self) -> Result<(), Status> {
        let (Operation::Update, Some(old)) = (self.request.operation, self.request.old) else {
            return self.unexpected();
        };
        let rest = |claim: &Value| {
            let mut rest = claim.clone();
            for path in [
                ["metadata", "resourceVersion"],
                ["metadata", "managedFields"],
                ["status", "capacity"],
                ["status", "conditions"],
                ["status", "allocatedResourceStatuses"],
                ["status", "allocatedResources"],
            ] {
                rest.remove_at(&path);
            }
            rest
        };
        let why = format!(
            "node {} is not allowed to update fields other than status.quantity and status.conditions",
            quoted(self.node)
        );
        self.refuse_unless(rest(old) == rest(self.object), &why)
    }

    /// Allows a token only for a pod on the node and for an audience that the pod uses or that the node may request.
    fn token(&self, authorizer: &dyn Authorizer) -> Result<(), Status> {
        let reference = self.object.at(&["spec", "boundObjectRef"]).unwrap_or(&Value::Null);
        let name = reference.str_at(&["name"]);
        let is_pod = reference.str_at(&["apiVersion"]) == "v1" && reference.str_at(&["kind"]) == "Pod";
        self.refuse_unless(is_pod && !name.is_empty(), "node requested token not bound to a pod")?;
        let uid = reference.str_at(&["uid"]);
        self.refuse_unless(!uid.is_empty(), "node requested token with a pod binding without a uid")?;
        let pod = self.pod_named(name)?;
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        self.refuse_unless(pod.str_at(&["metadata", "uid"]) == uid, &why)?;
        self.refuse_unless(
            self.runs(&pod),
            "node requested token bound to a pod scheduled on a different node",
        )?;
        let audience = match self.object.items_at(&["spec", "audiences"]) {
            [] => "",
            [one] => one.as_str().unwrap_or(""),
            _ => return self.refuse("node may only request 0 or 1 audiences"),
        };
        match references::has_audience(&pod, audience, self.request.namespace, self.cluster) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(why) => {
                return self.refuse(&format!("error validating audience {}: {why}", quoted(audience)));
            }
        }
        let question = Question {
            user: self.request.user.clone().into(),
            verb: "request-serviceaccounts-token-audience".into(),
            namespace: self.request.namespace.into(),
            version: "v1".into(),
            resource: audience.into(),
            name: self.request.name.into(),
            resource_request: true,
            ..Question::default()
        };
        let allowed = authorizer.authorize(&question).wait().is_allowed();
        let why = format!(
            "audience {} not found in pod spec volume, {} is not authorized to request tokens for this audience",
            quoted(audience),
            self.request.user.name
        );
        self.refuse_unless(allowed, &why)
    }

    fn check_lease(&self) -> Result<(), Status> {
        let why = format!("can only access leases in the {} system namespace", quoted(LEASE_NAMESPACE));
        self.refuse_unless(self.request.namespace == LEASE_NAMESPACE, &why)?;
        self.own_name("can only access node lease with the same name as the requesting node")
    }

    fn own_name(&self, why: &str) -> Result<(), Status> {
        self.refuse_unless(self.request.name == self.node, why)
    }

    fn check_resource_slice(&self) -> Result<(), Status> {
        let (slice, verb) = match self.request.operation {
            Operation::Create => (self.object, "create"),
            Operation::Delete => (self.request.old.unwrap_or(&Value::Null), "delete"),
            Operation::Update | Operation::Connect => return Ok(()),
        };
        let why = format!("can only {verb} ResourceSlice with the same NodeName as the requesting node");
        self.refuse_unless(slice.str_at(&["spec", "nodeName"]) == self.node, &why)
    }

    fn check_certificate_request(&self) -> Result<(), Status> {
        let signer = self.object.str_at(&["spec", "signerName"]);
        if self.request.operation != Operation::Create || !KUBELET_SIGNERS.contains(&signer) {
            return Ok(());
        }
        let pem = base64::decode(self.object.str_at(&["spec", "request"])).unwrap_or_default();
        let Some(subject) = RequestSubject::of_pem(&pem) else {
            return self.refuse("unable to parse csr: PEM block type must be CERTIFICATE REQUEST");
        };
        let why = format!("can only create a node CSR with CN={USER_PREFIX}{}", self.node);
        self.refuse_unless(subject.common_name.strip_prefix(USER_PREFIX) == Some(self.node), &why)
    }
}

/// Changed labels that kubelets may not set, comma separated.
fn forbidden_labels(new: &Value, old: &Value) -> String {
    let labels = |object: &Value| {
        object.at(&["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (new, old) = (labels(new), labels(old));
    let keys: BTreeSet<&str> = new.iter().chain(old.iter()).map(|(key, _)| key.as_str()).collect();
    let differs = |key: &&str| new.get(key) != old.get(key);
    keys.into_iter().filter(differs).filter(|key| is_forbidden(key)).collect::<Vec<_>>().join(", ")
}

fn is_forbidden(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|front| front.ends_with('.'))
    };
    let of_kubelet = KUBELET_LABELS.contains(&label) || KUBELET_DOMAINS.iter().any(|d| within(d));
    within(RESTRICTED_LABELS) || ((within("kubernetes.io") || within("k8s.io")) && !of_kubelet)
}

#[cfg(test)]
mod tests;
