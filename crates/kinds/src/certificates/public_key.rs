//! The public keys of PodCertificateRequests, and the signatures that prove their possession.

use super::key::Key;
use super::podcertificaterequest::SPEC;
use super::request_signature::signature_error;
use crate::fields::text;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P521_SHA256_ASN1, ED25519,
    RSA_PSS_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use pintle_meta::FieldErrors;
use pintle_meta::field::{ErrorKind, Named};
use pintle_value::{Path, Value};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

const UNKNOWN: &str = "unknown public key type; supported types are Ed25519, ECDSA, and RSA";

/// Whether a public key is allowed.
enum Allowed {
    /// The key is allowed; the algorithm verifies its proofs.
    Yes(&'static dyn VerificationAlgorithm),
    /// An elliptic curve that is not allowed.
    NotCurve(&'static str),
    /// An RSA key of this many bits, which is not allowed.
    NotBits(usize),
    Unknown,
}

fn classify(info: &SubjectPublicKeyInfo<'_>) -> Allowed {
    match Key::of(info) {
        Ok(Some(Key::Ed25519)) => Allowed::Yes(&ED25519),
        Ok(Some(Key::P256)) => Allowed::Yes(&ECDSA_P256_SHA256_ASN1),
        Ok(Some(Key::P384)) => Allowed::Yes(&ECDSA_P384_SHA256_ASN1),
        Ok(Some(Key::P521)) => Allowed::Yes(&ECDSA_P521_SHA256_ASN1),
        Ok(Some(Key::P224)) => Allowed::NotCurve("P-224"),
        // kube-apiserver measures a modulus in whole bytes.
        Ok(Some(Key::Rsa { bits })) => match bits.next_multiple_of(8) {
            3072 | 4096 => Allowed::Yes(&RSA_PSS_2048_8192_SHA256),
            bits => Allowed::NotBits(bits),
        },
        Ok(None) | Err(_) => Allowed::Unknown,
    }
}

/// Validates a certificate request, whose only content is a key and its signature.
pub(super) fn validate_request(bytes: &[u8], path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(request) = parse(bytes) else {
        return errors.push(ErrorKind::Invalid, path, None, "must be a valid PKCS#10 CSR");
    };
    match classify(&request.certification_request_info.subject_pki) {
        Allowed::NotCurve(name) => {
            let why = "elliptic public keys must use curve P256, P384, or P521";
            errors.invalid(path, format!("curve {name}").as_str(), why);
        }
        Allowed::NotBits(bits) => report_unsupported_key_size(bits, path, errors),
        Allowed::Unknown => errors.push(ErrorKind::Invalid, path, None, UNKNOWN),
        Allowed::Yes(_) if signature_error(&request).is_none() => {}
        Allowed::Yes(_) => errors.push(ErrorKind::Invalid, path, None, "invalid signature"),
    }
}

/// Validates a key and the signature of the pod's UID that was made with it.
pub(super) fn validate_proof(
    spec: &Value,
    (key, proof): (&[u8], &[u8]),
    pod_uid: &str,
    errors: &mut FieldErrors,
) {
    let path = SPEC.field("pkixPublicKey");
    let given = Named(text(spec, "pkixPublicKey"));
    let parsed = SubjectPublicKeyInfo::from_der(key).ok().filter(|(rest, _)| rest.is_empty());
    let Some((_, info)) = parsed else {
        return errors.invalid(&path, given, "must be a valid PKIX-serialized public key");
    };
    match classify(&info) {
        Allowed::NotCurve(name) => {
            let why = "elliptic public keys must use curve P256 or P384";
            errors.invalid(&path, format!("curve {name}").as_str(), why);
        }
        Allowed::NotBits(bits) => report_unsupported_key_size(bits, &path, errors),
        Allowed::Unknown => errors.invalid(&path, given, UNKNOWN),
        Allowed::Yes(algorithm) => {
            let key = UnparsedPublicKey::new(algorithm, info.subject_public_key.data.as_ref());
            if key.verify(pod_uid.as_bytes(), proof).is_err() {
                let why = "could not verify proof-of-possession signature";
                errors.push(ErrorKind::Invalid, &SPEC.field("proofOfPossession"), None, why);
            }
        }
    }
}

fn report_unsupported_key_size(bits: usize, path: &Path<'_>, errors: &mut FieldErrors) {
    let why = "RSA keys must have modulus size 3072 or 4096";
    errors.invalid(path, format!("{bits}-bit modulus").as_str(), why);
}

/// The DER of the key in a certificate request.
pub(super) fn of_request(bytes: &[u8]) -> Option<Vec<u8>> {
    parse(bytes).map(|request| request.certification_request_info.subject_pki.raw.to_vec())
}

fn parse(bytes: &[u8]) -> Option<X509CertificationRequest<'_>> {
    let parsed = X509CertificationRequest::from_der(bytes).ok();
    parsed.filter(|(rest, _)| rest.is_empty()).map(|(_, request)| request)
}
