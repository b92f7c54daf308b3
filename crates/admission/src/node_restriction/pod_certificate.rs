//! Certificate requests of kubelets for their pods.

use super::{Case, MIRROR};
use crate::Operation;
use pintle_meta::Status;
use pintle_meta::field::quoted;
use pintle_value::Value;

impl Case<'_> {
    /// Node, pod and service account must be what they are in the cluster. A UID that differs is an error that the client
    /// may retry (500), because kube-apiserver's copy of the object may be old.
    pub(super) fn pod_certificate_request(&self) -> Result<(), Status> {
        let operation = self.request.operation;
        self.refuse_unless(
            operation == Operation::Create,
            &format!("unexpected operation {}", operation.name()),
        )?;
        let subresource = self.request.subresource;
        self.refuse_unless(subresource.is_empty(), &format!("unexpected subresource {subresource}"))?;
        let (node, own) = (self.spec("nodeName"), self.node);
        let why = format!(
            "PodCertificateRequest.Spec.NodeName={}, which is not the requesting node {}",
            quoted(node),
            quoted(own)
        );
        self.refuse_unless(node == own, &why)?;
        let pod_name = self.qualified(self.spec("podName"));
        self.check_requested_node(&pod_name)?;
        let pod = self.check_requested_pod(&pod_name)?;
        self.check_requested_account(&pod_name, &pod)
    }

    fn spec(&self, key: &str) -> &str {
        self.object.str_at(&["spec", key])
    }

    fn qualified(&self, name: &str) -> String {
        quoted(&format!("{}/{name}", self.request.namespace))
    }

    fn check_requested_node(&self, pod_name: &str) -> Result<(), Status> {
        let node = self.spec("nodeName");
        let found = self.cluster.object("", "nodes", "", node);
        let found = found.ok_or_else(|| not_found("node", &quoted(node), "node", node))?;
        check_uid(&found, self.spec("nodeUID"), |uid, wanted| {
            format!(
                "PodCertificateRequest for pod {pod_name} names node UID {wanted}, inconsistent with the running node ({uid})"
            )
        })
    }

    fn check_requested_pod(&self, pod_name: &str) -> Result<Value, Status> {
        let (node, name) = (self.spec("nodeName"), self.spec("podName"));
        let pod = self.cluster.object("", "pods", self.request.namespace, name);
        let pod = pod.ok_or_else(|| not_found("pod", pod_name, "pod", name))?;
        check_uid(&pod, self.spec("podUID"), |uid, wanted| {
            format!(
                "PodCertificateRequest for pod {pod_name} contains pod UID ({wanted}) which differs from running pod {uid}"
            )
        })?;
        let why = format!(
            "pod {pod_name} is not running on node {} named in the PodCertificateRequest",
            quoted(node)
        );
        self.refuse_unless(pod.str_at(&["spec", "nodeName"]) == node, &why)?;
        let is_mirror = pod.at(&["metadata", "annotations", MIRROR]).is_some();
        self.refuse_unless(!is_mirror, &format!("pod {pod_name} is a mirror pod"))?;
        Ok(pod)
    }

    fn check_requested_account(&self, pod_name: &str, pod: &Value) -> Result<(), Status> {
        let (account, running) =
            (self.spec("serviceAccountName"), pod.str_at(&["spec", "serviceAccountName"]));
        let why = format!(
            "PodCertificateRequest for pod {pod_name} contains serviceAccountName ({}) that differs from running pod ({})",
            quoted(account),
            quoted(running)
        );
        self.refuse_unless(account == running, &why)?;
        let found = self.cluster.object("", "serviceaccounts", self.request.namespace, account);
        let found = found.ok_or_else(|| {
            not_found("service account", &self.qualified(account), "serviceaccount", account)
        })?;
        check_uid(&found, self.spec("serviceAccountUID"), |uid, wanted| {
            format!(
                "PodCertificateRequest for pod {pod_name} names service account UID {wanted}, which differs from the running service account ({uid})"
            )
        })
    }
}

/// The error for an object that the request names and that does not exist.
fn not_found(what: &str, name: &str, kind: &str, found: &str) -> Status {
    let found = quoted(found);
    Status::unclassified(format!(
        "while retrieving {what} {name} named in the PodCertificateRequest: {kind} {found} not found"
    ))
}

/// Refuses an object with another UID; `why` gets both UIDs in quotes.
fn check_uid(found: &Value, wanted: &str, why: impl FnOnce(&str, &str) -> String) -> Result<(), Status> {
    let uid = found.str_at(&["metadata", "uid"]);
    if uid == wanted { Ok(()) } else { Err(Status::unclassified(why(&quoted(uid), &quoted(wanted)))) }
}
