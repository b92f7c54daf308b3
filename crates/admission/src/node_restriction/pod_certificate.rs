//! Certificate requests of kubelets for their pods.

use super::{Case, MIRROR};
use crate::Operation;
use pintle_meta::Status;
use pintle_meta::field::quoted;

impl Case<'_> {
    /// Node, pod and service account must be what they are in the cluster. A UID that differs is an error that the client
    /// may retry (500), because kube-apiserver's copy of the object may be old.
    pub(super) fn pod_certificate_request(&self) -> Result<(), Status> {
        let operation = self.request.operation;
        self.unless(operation == Operation::Create, &format!("unexpected operation {}", operation.name()))?;
        let subresource = self.request.subresource;
        self.unless(subresource.is_empty(), &format!("unexpected subresource {subresource}"))?;
        let spec = |key: &str| self.object.str_at(&["spec", key]);
        let (node, own) = (spec("nodeName"), self.node);
        let why = format!(
            "PodCertificateRequest.Spec.NodeName={}, which is not the requesting node {}",
            quoted(node),
            quoted(own)
        );
        self.unless(node == own, &why)?;
        let qualified = |name: &str| quoted(&format!("{}/{name}", self.request.namespace));
        let pod_name = qualified(spec("podName"));
        let missing = |what: &str, name: &str, kind: &str, found: &str| {
            let found = quoted(found);
            let why = format!(
                "while retrieving {what} {name} named in the PodCertificateRequest: {kind} {found} not found"
            );
            Status::unclassified(why)
        };
        let found = self.cluster.object("", "nodes", "", node);
        let found = found.ok_or_else(|| missing("node", &quoted(node), "node", node))?;
        let (uid, wanted) = (found.str_at(&["metadata", "uid"]), spec("nodeUID"));
        if uid != wanted {
            let (uid, wanted) = (quoted(uid), quoted(wanted));
            return Err(Status::unclassified(format!(
                "PodCertificateRequest for pod {pod_name} names node UID {wanted}, inconsistent with the running node ({uid})"
            )));
        }
        let namespace = self.request.namespace;
        let pod = self.cluster.object("", "pods", namespace, spec("podName"));
        let pod = pod.ok_or_else(|| missing("pod", &pod_name, "pod", spec("podName")))?;
        let (uid, wanted) = (pod.str_at(&["metadata", "uid"]), spec("podUID"));
        if uid != wanted {
            let (uid, wanted) = (quoted(uid), quoted(wanted));
            return Err(Status::unclassified(format!(
                "PodCertificateRequest for pod {pod_name} contains pod UID ({wanted}) which differs from running pod {uid}"
            )));
        }
        let why = format!(
            "pod {pod_name} is not running on node {} named in the PodCertificateRequest",
            quoted(node)
        );
        self.unless(pod.str_at(&["spec", "nodeName"]) == node, &why)?;
        let is_mirror = pod.at(&["metadata", "annotations", MIRROR]).is_some();
        self.unless(!is_mirror, &format!("pod {pod_name} is a mirror pod"))?;
        let (account, running) = (spec("serviceAccountName"), pod.str_at(&["spec", "serviceAccountName"]));
        let why = format!(
            "PodCertificateRequest for pod {pod_name} contains serviceAccountName ({}) that differs from running pod ({})",
            quoted(account),
            quoted(running)
        );
        self.unless(account == running, &why)?;
        let found = self.cluster.object("", "serviceaccounts", namespace, account);
        let what = "service account";
        let found = found.ok_or_else(|| missing(what, &qualified(account), "serviceaccount", account))?;
        let (uid, wanted) = (found.str_at(&["metadata", "uid"]), spec("serviceAccountUID"));
        if uid != wanted {
            let (uid, wanted) = (quoted(uid), quoted(wanted));
            return Err(Status::unclassified(format!(
                "PodCertificateRequest for pod {pod_name} names service account UID {wanted}, which differs from the running service account ({uid})"
            )));
        }
        Ok(())
    }
}
