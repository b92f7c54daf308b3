//! The public keys of PodCertificateRequests, and the signatures that prove their possession.

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
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

const UNKNOWN: &str = "unknown public key type; supported types are Ed25519, ECDSA, and RSA";
const ED25519_ID: &str = "1.3.101.112";
/// The curves that Go knows: identifier, name, and the algorithm of proofs for those that are allowed.
const CURVES: [(&str, &str, Option<&dyn VerificationAlgorithm>); 4] = [
    ("1.3.132.0.33", "P-224", None),
    ("1.2.840.10045.3.1.7", "P-256", Some(&ECDSA_P256_SHA256_ASN1)),
    ("1.3.132.0.34", "P-384", Some(&ECDSA_P384_SHA256_ASN1)),
    ("1.3.132.0.35", "P-521", Some(&ECDSA_P521_SHA256_ASN1)),
];

/// The properties of a public key that validation depends on.
enum Key {
    /// A key that is allowed, and the algorithm of its proofs.
    Good(&'static dyn VerificationAlgorithm),
    /// An elliptic curve that is not allowed.
    Curve(&'static str),
    /// An RSA key of this many bits, which is not allowed.
    Bits(usize),
    Unknown,
}

fn classify(info: &SubjectPublicKeyInfo<'_>) -> Key {
    if info.algorithm.algorithm.to_id_string() == ED25519_ID {
        return Key::Good(&ED25519);
    }
    match info.parsed() {
        Ok(PublicKey::RSA(key)) => {
            let bytes = key.modulus.iter().skip_while(|byte| **byte == 0).count();
            match bytes.saturating_mul(8) {
                3072 | 4096 => Key::Good(&RSA_PSS_2048_8192_SHA256),
                bits => Key::Bits(bits),
            }
        }
        Ok(PublicKey::EC(_)) => {
            let id = info.algorithm.parameters.as_ref().and_then(|p| p.as_oid().ok());
            let id = id.map(|id| id.to_id_string()).unwrap_or_default();
            match CURVES.into_iter().find(|(known, ..)| *known == id) {
                Some((.., Some(algorithm))) => Key::Good(algorithm),
                Some((_, name, None)) => Key::Curve(name),
                None => Key::Unknown,
            }
        }
        _ => Key::Unknown,
    }
}

/// Validates a certificate request, whose only content is a key and its signature.
pub(super) fn validate_request(bytes: &[u8], path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(request) = parse(bytes) else {
        return errors.push(ErrorKind::Invalid, path, None, "must be a valid PKCS#10 CSR");
    };
    match classify(&request.certification_request_info.subject_pki) {
        Key::Curve(name) => {
            let why = "elliptic public keys must use curve P256, P384, or P521";
            errors.invalid(path, format!("curve {name}").as_str(), why);
        }
        Key::Bits(bits) => refuse_bits(bits, path, errors),
        Key::Unknown => errors.push(ErrorKind::Invalid, path, None, UNKNOWN),
        Key::Good(_) if signature_error(&request).is_none() => {}
        Key::Good(_) => errors.push(ErrorKind::Invalid, path, None, "invalid signature"),
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
        Key::Curve(name) => {
            let why = "elliptic public keys must use curve P256 or P384";
            errors.invalid(&path, format!("curve {name}").as_str(), why);
        }
        Key::Bits(bits) => refuse_bits(bits, &path, errors),
        Key::Unknown => errors.invalid(&path, given, UNKNOWN),
        Key::Good(algorithm) => {
            let key = UnparsedPublicKey::new(algorithm, info.subject_public_key.data.as_ref());
            if key.verify(pod_uid.as_bytes(), proof).is_err() {
                let why = "could not verify proof-of-possession signature";
                errors.push(ErrorKind::Invalid, &SPEC.field("proofOfPossession"), None, why);
            }
        }
    }
}

fn refuse_bits(bits: usize, path: &Path<'_>, errors: &mut FieldErrors) {
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
