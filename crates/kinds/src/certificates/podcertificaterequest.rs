//! PodCertificateRequest: a kubelet's request for a certificate of one of its pods.

use super::certificatesigningrequest::validate_signer_name;
use super::{issued, public_key};
use crate::{Hooks, Scope, fields};
use pintle_meta::conditions::validate_conditions;
use pintle_meta::field::{ErrorKind, Named};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value, base64};

const UID_BYTES_MAX: usize = 128;
const KEY_BYTES_MAX: usize = 10 * 1024;
const EXPIRATION_SECONDS_MIN: i64 = 60 * 60;
const EXPIRATION_SECONDS_MAX: i64 = 91 * 24 * 60 * 60;
/// The limit for the signers of Kubernetes.
const OWN_EXPIRATION_SECONDS_MAX: i64 = 24 * 60 * 60;
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
const END_STATES: [&str; 3] = ["Issued", "Denied", "Failed"];
pub(super) const SPEC: Path<'static> = Path::of("spec");
const STATUS: Path<'static> = Path::of("status");

pub(crate) struct PodCertificateRequest;

impl Hooks for PodCertificateRequest {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(object.get("spec").unwrap_or(&Value::Null), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            validate_status(object, old, errors);
        }
    }
}

/// The bytes of a field.
pub(super) fn bytes(spec: &Value, field: &str) -> Vec<u8> {
    base64::decode(fields::text(spec, field)).unwrap_or_default()
}

fn validate_spec(spec: &Value, errors: &mut FieldErrors) {
    validate_signer_name(fields::text(spec, "signerName"), &SPEC.field("signerName"), errors);
    validate_annotations(spec, errors);
    let identities =
        [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")];
    for (name, uid) in identities {
        let given = fields::text(spec, name);
        for why in names::dns_subdomain(given, false) {
            match name {
                "nodeName" => errors.invalid(&SPEC.field(name), Named(given), &why),
                _ => errors.invalid(&SPEC.field(name), given, &why),
            }
        }
        match fields::text(spec, uid).len() {
            0 => errors.invalid(&SPEC.field(uid), Named(""), "must not be empty"),
            length if length > UID_BYTES_MAX => errors.too_long(&SPEC.field(uid), UID_BYTES_MAX),
            _ => {}
        }
    }
    let Some(seconds) = fields::opt_int(spec, "maxExpirationSeconds") else {
        return errors.required(&SPEC.field("maxExpirationSeconds"), "must be set");
    };
    let host = fields::text(spec, "signerName").split('/').next().unwrap_or_default();
    let is_own = host == "kubernetes.io" || host.ends_with(".kubernetes.io");
    let max = if is_own { OWN_EXPIRATION_SECONDS_MAX } else { EXPIRATION_SECONDS_MAX };
    if !(EXPIRATION_SECONDS_MIN..=max).contains(&seconds) {
        let why = format!("must be in the range [{EXPIRATION_SECONDS_MIN}, {max}]");
        errors.invalid(&SPEC.field("maxExpirationSeconds"), seconds, &why);
    }
    validate_key(spec, errors);
}

fn validate_annotations(spec: &Value, errors: &mut FieldErrors) {
    let path = SPEC.field("unverifiedUserAnnotations");
    let mut size = 0_usize;
    for (key, value) in fields::entries(spec.get("unverifiedUserAnnotations")) {
        names::domain_prefixed_key(&path, &key.to_lowercase(), errors);
        size = size.saturating_add(key.len()).saturating_add(value.as_str().map_or(0, str::len));
    }
    if size > ANNOTATIONS_BYTES_MAX {
        errors.too_long(&path, ANNOTATIONS_BYTES_MAX);
    }
}

/// The key is in a request that is signed with it, or by itself with a proof that the kubelet has it.
fn validate_key(spec: &Value, errors: &mut FieldErrors) {
    let [request, key, proof] =
        ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"].map(|field| bytes(spec, field));
    let too_long = |field: &str, bytes: &[u8], errors: &mut FieldErrors| {
        let is_long = bytes.len() > KEY_BYTES_MAX;
        if is_long {
            errors.too_long(&SPEC.field(field), KEY_BYTES_MAX);
        }
        is_long
    };
    match (request.is_empty(), key.is_empty(), proof.is_empty()) {
        (false, true, true) => {
            if !too_long("stubPKCS10Request", &request, errors) {
                public_key::validate_request(&request, &SPEC.field("stubPKCS10Request"), errors);
            }
        }
        (true, false, false) => {
            if !too_long("pkixPublicKey", &key, errors) && !too_long("proofOfPossession", &proof, errors) {
                let pod = fields::text(spec, "podUID");
                public_key::validate_proof(spec, (&key, &proof), pod, errors);
            }
        }
        _ => {
            let why = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
            errors.push(ErrorKind::Invalid, &SPEC, None, why);
        }
    }
}

fn conditions(object: &Value) -> &[Value] {
    object.items_at(&["status", "conditions"])
}

fn has_ended(object: &Value, states: &[&str]) -> bool {
    let ended = |c: &Value| states.contains(&fields::text(c, "type")) && fields::text(c, "status") == "True";
    conditions(object).iter().any(ended)
}

fn validate_status(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let before = errors.0.len();
    validate_end_states(object, errors);
    validate_conditions(conditions(object), &STATUS.field("conditions"), errors);
    if errors.0.len() > before {
        return;
    }
    let mut refuse = |why: &str| errors.push(ErrorKind::Invalid, &STATUS, None, why);
    let is_same = object.get("status") == old.get("status");
    if has_ended(old, &END_STATES) {
        if !is_same {
            refuse("immutable after PodCertificateRequest is issued, denied, or failed");
        }
    } else if has_ended(object, &["Denied", "Failed"]) {
        let members = fields::entries(object.get("status"));
        if members.into_iter().any(|(key, value)| key != "conditions" && is_set(value)) {
            refuse(
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest",
            );
        }
    } else if has_ended(object, &["Issued"]) {
        issued::validate(object, errors);
    } else if !is_same {
        refuse("status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"");
    }
}

fn is_set(value: &Value) -> bool {
    !value.is_null() && value.as_str() != Some("")
}

/// There is at most one end state, and its status is True.
fn validate_end_states(object: &Value, errors: &mut FieldErrors) {
    let path = STATUS.field("conditions");
    let mut ends = 0_usize;
    for (at, condition) in conditions(object).iter().enumerate() {
        let (kind, status) = (fields::text(condition, "type"), fields::text(condition, "status"));
        // kube-apiserver writes the index as a field of its own.
        let index = format!("[{at}]");
        let item = path.field(&index);
        if !END_STATES.contains(&kind) {
            errors.not_supported(&item.field("type"), kind, &END_STATES);
            continue;
        }
        ends = ends.saturating_add(1);
        if ends > 1 {
            let why = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.invalid(&item.field("type"), kind, why);
        }
        if status != "True" {
            errors.not_supported(&item.field("status"), Named(status), &["True"]);
        }
    }
}
