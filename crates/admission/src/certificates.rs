//! The certificate plugins: who may approve and sign certificate requests, and what they must not request.

use crate::escalation::only_for_gc;
use crate::{Attributes, Operation, Plugin, Resources, Validation};
use pintle_auth::authz::Attributes as Question;
use pintle_auth::{Authorizer, UserInfo};
use pintle_kinds::RequestSubject;
use pintle_meta::Status;
use pintle_meta::field::quoted;
use pintle_value::{Value, base64};
use std::sync::Arc;

const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn is_ours(request: &Attributes<'_>, operation: Operation, subresource: &str) -> bool {
    request.is("certificates.k8s.io", "certificatesigningrequests")
        && request.operation == operation
        && request.subresource == subresource
}

/// Returns whether a user may use a verb on a signer, by its name or by its domain.
fn may(authorizer: &dyn Authorizer, user: &UserInfo, verb: &str, signer: &str) -> bool {
    let ways = Question::for_signer(user, verb, signer);
    ways.iter().any(|question| authorizer.authorize(question).wait().is_allowed())
}

/// Rejects the request unless its user may use the verb on the signer of the old object.
fn require(
    authorizer: &dyn Authorizer,
    request: &Attributes<'_>,
    object: Option<&Value>,
    verb: &str,
    old: &Value,
) -> Result<(), Status> {
    let signer = old.str_at(&["spec", "signerName"]);
    if may(authorizer, request.user, verb, signer) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {}", quoted(signer));
    Err(request.forbidden(object, &why))
}

/// Requires the right to approve for the signer.
pub(crate) struct CertificateApproval(pub(crate) Arc<dyn Authorizer>);

impl Plugin for CertificateApproval {
    fn resources(&self) -> Resources {
        &[("certificates.k8s.io", "certificatesigningrequests")]
    }

    fn validate(&self, Validation { request, object, .. }: Validation<'_>) -> Result<(), Status> {
        let Some(old) = request.old.filter(|_| is_ours(request, Operation::Update, "approval")) else {
            return Ok(());
        };
        require(&*self.0, request, object, "approve", old)
    }
}

/// Requires the right to sign for the signer.
pub(crate) struct CertificateSigning(pub(crate) Arc<dyn Authorizer>);

impl Plugin for CertificateSigning {
    fn resources(&self) -> Resources {
        &[("certificates.k8s.io", "certificatesigningrequests")]
    }

    fn validate(&self, Validation { request, object, .. }: Validation<'_>) -> Result<(), Status> {
        let (Some(old), Some(new)) = (request.old, object) else { return Ok(()) };
        let same = |key: &str| old.at(&["status", key]) == new.at(&["status", key]);
        if !is_ours(request, Operation::Update, "status") || (same("certificate") && same("conditions")) {
            return Ok(());
        }
        require(&*self.0, request, object, "sign", old)
    }
}

/// Requires the right to attest for the signer of a trust bundle.
pub(crate) struct ClusterTrustBundleAttest(pub(crate) Arc<dyn Authorizer>);

impl Plugin for ClusterTrustBundleAttest {
    fn resources(&self) -> Resources {
        &[("certificates.k8s.io", "clustertrustbundles")]
    }

    fn validate(&self, Validation { request, object, .. }: Validation<'_>) -> Result<(), Status> {
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        let is_ours = writes && request.is("certificates.k8s.io", "clustertrustbundles");
        let Some(bundle) = object.filter(|_| is_ours) else { return Ok(()) };
        let signer = bundle.str_at(&["spec", "signerName"]);
        let is_collected = request.old.is_some_and(|old| only_for_gc(bundle, old));
        if signer.is_empty() || is_collected || may(&*self.0, request.user, "attest", signer) {
            return Ok(());
        }
        let why = format!("user not permitted to attest for signerName {}", quoted(signer));
        Err(request.forbidden(object, &why))
    }
}

/// Refuses requests for client certificates of the group `system:masters`.
pub(crate) struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn resources(&self) -> Resources {
        &[("certificates.k8s.io", "certificatesigningrequests")]
    }

    fn validate(&self, Validation { request, object, .. }: Validation<'_>) -> Result<(), Status> {
        let Some(csr) = object.filter(|_| is_ours(request, Operation::Create, "")) else { return Ok(()) };
        if csr.str_at(&["spec", "signerName"]) != CLIENT_SIGNER {
            return Ok(());
        }
        let pem = base64::decode(csr.str_at(&["spec", "request"])).unwrap_or_default();
        let Some(subject) = RequestSubject::of_pem(&pem) else {
            return Err(request.forbidden(object, "failed to parse CSR: malformed certificate request"));
        };
        if subject.organizations.iter().any(|group| group == UserInfo::MASTERS) {
            let why = format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed");
            return Err(request.forbidden(object, &why));
        }
        Ok(())
    }
}
