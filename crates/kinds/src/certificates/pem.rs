//! Certificates and requests for them, as PEM.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1,
    ECDSA_P521_SHA512_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

/// The error of an invalid certificate request; it must be signed by its own key.
pub(super) fn request_error(bytes: &[u8]) -> Option<String> {
    let block = Pem::iter_from_buffer(bytes).next().and_then(Result::ok);
    let Some(block) = block.filter(|block| block.label == "CERTIFICATE REQUEST") else {
        return Some("PEM block type must be CERTIFICATE REQUEST".to_string());
    };
    let Ok((rest, request)) = X509CertificationRequest::from_der(&block.contents) else {
        return Some("x509: malformed certificate request".to_string());
    };
    if !rest.is_empty() {
        return Some("asn1: syntax error: trailing data".to_string());
    }
    (!is_self_signed(&request)).then(|| "x509: signature check failed".to_string())
}

/// The common name in a PEM certificate request: the last one, or "" if there is none.
pub fn certificate_request_common_name(bytes: &[u8]) -> Option<String> {
    let block = Pem::iter_from_buffer(bytes).next().and_then(Result::ok)?;
    let (_, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
    let subject = &request.certification_request_info.subject;
    let last = subject.iter_common_name().last().and_then(|name| name.as_str().ok());
    Some(last.unwrap_or("").to_string())
}

/// The error of invalid issued certificates; an empty value is valid.
pub(super) fn certificate_error(bytes: &[u8]) -> Option<String> {
    if bytes.is_empty() {
        return None;
    }
    let mut blocks = 0;
    for block in Pem::iter_from_buffer(bytes).map_while(Result::ok) {
        if block.label != "CERTIFICATE" {
            let found = pintle_meta::field::quoted(&block.label);
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {found}"));
        }
        blocks += 1;
        if block.parse_x509().is_err() {
            return Some("x509: malformed certificate".to_string());
        }
    }
    (blocks == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_string())
}

fn is_self_signed(request: &X509CertificationRequest<'_>) -> bool {
    let key = &request.certification_request_info.subject_pki;
    let curve = key.algorithm.parameters.as_ref().and_then(|p| p.as_oid().ok()).map(|oid| oid.to_id_string());
    let algorithm = request.signature_algorithm.algorithm.to_id_string();
    let Some(algorithm) = verification(&algorithm, curve.as_deref()) else {
        // An unsupported algorithm is left to the signer.
        return true;
    };
    let message = request.certification_request_info.raw;
    let key = UnparsedPublicKey::new(algorithm, key.subject_public_key.data.as_ref());
    key.verify(message, request.signature_value.data.as_ref()).is_ok()
}

/// The verification algorithm for a signature algorithm and, for elliptic curves, the curve of the key.
fn verification(algorithm: &str, curve: Option<&str>) -> Option<&'static dyn VerificationAlgorithm> {
    const P256: Option<&str> = Some("1.2.840.10045.3.1.7");
    const P384: Option<&str> = Some("1.3.132.0.34");
    const P521: Option<&str> = Some("1.3.132.0.35");
    Some(match (algorithm, curve) {
        ("1.2.840.10045.4.3.2", curve) if curve == P256 => &ECDSA_P256_SHA256_ASN1,
        ("1.2.840.10045.4.3.3", curve) if curve == P256 => &ECDSA_P256_SHA384_ASN1,
        ("1.2.840.10045.4.3.2", curve) if curve == P384 => &ECDSA_P384_SHA256_ASN1,
        ("1.2.840.10045.4.3.3", curve) if curve == P384 => &ECDSA_P384_SHA384_ASN1,
        ("1.2.840.10045.4.3.4", curve) if curve == P521 => &ECDSA_P521_SHA512_ASN1,
        ("1.3.101.112", _) => &ED25519,
        ("1.2.840.113549.1.1.11", _) => &RSA_PKCS1_2048_8192_SHA256,
        ("1.2.840.113549.1.1.12", _) => &RSA_PKCS1_2048_8192_SHA384,
        ("1.2.840.113549.1.1.13", _) => &RSA_PKCS1_2048_8192_SHA512,
        _ => return None,
    })
}
