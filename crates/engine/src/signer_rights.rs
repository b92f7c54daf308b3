//! Checks the status of a PodCertificateRequest: the user who writes it must be allowed to sign for its signer, and a
//! certificate must be valid from now on.

use crate::write::WriteRequest;
use crate::{Target, Writer};
use pintle_auth::authz::Attributes;
use pintle_meta::field::quoted;
use pintle_meta::{FieldErrors, Status, Timestamp};
use pintle_value::{Path, Value};

/// How far `notBefore` may be from the current time.
const SKEW_SECONDS: u64 = 5 * 60;

/// Returns whether the target is the status subresource of a PodCertificateRequest.
pub(crate) fn applies_to(target: &Target) -> bool {
    target.subresource == "status"
        && target.kind.group == "certificates.k8s.io"
        && target.kind.kind == "PodCertificateRequest"
}

impl Writer {
    /// Refuses a changed status that the user may not write. Must be called after validation.
    pub(crate) async fn check_signer_rights(
        &self,
        request: &WriteRequest,
        new: &Value,
        old: &Value,
    ) -> Result<(), Status> {
        if new.get("status") == old.get("status") {
            return Ok(());
        }
        let mut errors = FieldErrors::new();
        let signer = old.str_at(&["spec", "signerName"]);
        let given = new.at(&["status", "notBefore"]);
        let start = given.and_then(Value::as_str).and_then(|time| Timestamp::parse(time).ok());
        let now = Timestamp::parse(&self.storage.now_text()).ok();
        let skew = start.zip(now).map(|(start, now)| start.seconds.abs_diff(now.seconds));
        if skew.is_some_and(|seconds| seconds >= SKEW_SECONDS) {
            let why = "must be set to within 5 minutes of kube-apiserver's current time";
            errors.invalid(&Path::of("status.notBefore"), given, why);
        } else if !self.may_sign(request, signer).await {
            let (user, signer) = (quoted(&request.user.name), quoted(signer));
            let why = format!("User {user} is not permitted to \"sign\" for signer {signer}");
            errors.forbidden(&Path::of("spec.signerName"), &why);
        }
        if errors.is_empty() {
            Ok(())
        } else {
            let name = new.str_at(&["metadata", "name"]);
            Err(Status::invalid(&request.target.kind.group_kind(), name, &errors))
        }
    }

    /// Returns whether the user may sign for a signer, by its name or by its domain.
    async fn may_sign(&self, request: &WriteRequest, signer: &str) -> bool {
        for question in Attributes::for_signer(&request.user, "sign", signer) {
            if self.admission.authorizer.authorize(&question).await.is_allowed() {
                return true;
            }
        }
        false
    }
}
