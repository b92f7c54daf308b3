//! The signature of a certificate request, which proves the possession of the key. A signature that cannot be
//! verified is refused with Go's message.

use super::key::Key;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA1_ASN1, ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P256_SHA512_ASN1,
    ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1, ECDSA_P521_SHA1_ASN1,
    ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA384_ASN1, ECDSA_P521_SHA512_ASN1, ED25519,
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA384, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::signature_algorithm::{RsaSsaPssParams, SignatureAlgorithm};
use x509_parser::x509::AlgorithmIdentifier;

const UNIMPLEMENTED: &str = "x509: cannot verify signature: algorithm unimplemented";
const RSA_BITS_MIN: usize = 1024;

/// The type of key that a signature algorithm needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Rsa,
    RsaPss,
    Ecdsa,
    Ed25519,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hash {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
    /// The hash is part of the algorithm.
    Own,
}

/// The signature algorithms that Go knows by their identifiers. RSA-PSS has its hash in parameters.
const ALGORITHMS: [(&str, Family, Hash); 11] = [
    ("1.2.840.113549.1.1.4", Family::Rsa, Hash::Md5),
    ("1.2.840.113549.1.1.5", Family::Rsa, Hash::Sha1),
    ("1.3.14.3.2.29", Family::Rsa, Hash::Sha1),
    ("1.2.840.113549.1.1.11", Family::Rsa, Hash::Sha256),
    ("1.2.840.113549.1.1.12", Family::Rsa, Hash::Sha384),
    ("1.2.840.113549.1.1.13", Family::Rsa, Hash::Sha512),
    ("1.2.840.10045.4.1", Family::Ecdsa, Hash::Sha1),
    ("1.2.840.10045.4.3.2", Family::Ecdsa, Hash::Sha256),
    ("1.2.840.10045.4.3.3", Family::Ecdsa, Hash::Sha384),
    ("1.2.840.10045.4.3.4", Family::Ecdsa, Hash::Sha512),
    ("1.3.101.112", Family::Ed25519, Hash::Own),
];
/// The hashes of RSA-PSS; Go requires the salt to be as long as the hash.
const PSS_HASHES: [(&str, u32, Hash); 3] = [
    ("2.16.840.1.101.3.4.2.1", 32, Hash::Sha256),
    ("2.16.840.1.101.3.4.2.2", 48, Hash::Sha384),
    ("2.16.840.1.101.3.4.2.3", 64, Hash::Sha512),
];

fn is_key_of_family(key: &Key, family: Family) -> bool {
    match key {
        Key::Rsa { .. } => matches!(family, Family::Rsa | Family::RsaPss),
        Key::P224 | Key::P256 | Key::P384 | Key::P521 => family == Family::Ecdsa,
        Key::Ed25519 => family == Family::Ed25519,
    }
}

/// The reason why a request is not signed with its own key; `None` if it is.
pub(super) fn signature_error(request: &X509CertificationRequest<'_>) -> Option<String> {
    let info = &request.certification_request_info;
    let key = match Key::of(&info.subject_pki) {
        Ok(key) => key,
        Err(why) => return Some(why.to_string()),
    };
    let Some((family, hash)) = signature_algorithm(&request.signature_algorithm) else {
        return Some(UNIMPLEMENTED.to_string());
    };
    if hash == Hash::Md5 {
        return Some("x509: cannot verify signature: insecure algorithm MD5-RSA".to_string());
    }
    let Some(key) = key else { return Some(UNIMPLEMENTED.to_string()) };
    let (name, failure) = match family {
        Family::Rsa | Family::RsaPss => ("RSA", "crypto/rsa: verification error"),
        Family::Ecdsa => ("ECDSA", "x509: ECDSA verification failure"),
        Family::Ed25519 => ("Ed25519", "x509: Ed25519 verification failure"),
    };
    if !is_key_of_family(&key, family) {
        let found = key.go_type();
        return Some(format!(
            "x509: signature algorithm specifies an {name} public key, but have public key of type {found}"
        ));
    }
    if let Key::Rsa { bits } = key
        && bits < RSA_BITS_MIN
    {
        let place = "https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size";
        return Some(format!("crypto/rsa: {bits}-bit keys are insecure (see {place})"));
    }
    let Some(algorithm) = verification(&key, family, hash) else { return Some(UNIMPLEMENTED.to_string()) };
    let key = UnparsedPublicKey::new(algorithm, info.subject_pki.subject_public_key.data.as_ref());
    let verified = key.verify(info.raw, request.signature_value.data.as_ref());
    verified.is_err().then(|| failure.to_string())
}

fn signature_algorithm(identifier: &AlgorithmIdentifier<'_>) -> Option<(Family, Hash)> {
    if let Ok(SignatureAlgorithm::RSASSA_PSS(parameters)) = SignatureAlgorithm::try_from(identifier) {
        return pss_hash(&parameters).map(|hash| (Family::RsaPss, hash));
    }
    let id = identifier.algorithm.to_id_string();
    ALGORITHMS.into_iter().find(|(known, ..)| *known == id).map(|(_, family, hash)| (family, hash))
}

fn pss_hash(parameters: &RsaSsaPssParams<'_>) -> Option<Hash> {
    let id = parameters.hash_algorithm_oid().to_id_string();
    let (_, salt, hash) = PSS_HASHES.into_iter().find(|(known, ..)| *known == id)?;
    let mask = parameters.mask_gen_algorithm().ok()?;
    let is_plain = mask.mgf.to_id_string() == "1.2.840.113549.1.1.8"
        && mask.hash.to_id_string() == id
        && parameters.salt_length() == salt
        && parameters.trailer_field() == 1;
    is_plain.then_some(hash)
}

/// The algorithm of the library. It supports neither P-224, nor SHA-1 with P-384, nor SHA-384 or PSS with RSA of
/// fewer than 2048 bits.
fn verification(key: &Key, family: Family, hash: Hash) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (key, family, hash) {
        (Key::P256, _, Hash::Sha1) => &ECDSA_P256_SHA1_ASN1,
        (Key::P256, _, Hash::Sha256) => &ECDSA_P256_SHA256_ASN1,
        (Key::P256, _, Hash::Sha384) => &ECDSA_P256_SHA384_ASN1,
        (Key::P256, _, Hash::Sha512) => &ECDSA_P256_SHA512_ASN1,
        (Key::P384, _, Hash::Sha256) => &ECDSA_P384_SHA256_ASN1,
        (Key::P384, _, Hash::Sha384) => &ECDSA_P384_SHA384_ASN1,
        (Key::P384, _, Hash::Sha512) => &ECDSA_P384_SHA512_ASN1,
        (Key::P521, _, Hash::Sha1) => &ECDSA_P521_SHA1_ASN1,
        (Key::P521, _, Hash::Sha256) => &ECDSA_P521_SHA256_ASN1,
        (Key::P521, _, Hash::Sha384) => &ECDSA_P521_SHA384_ASN1,
        (Key::P521, _, Hash::Sha512) => &ECDSA_P521_SHA512_ASN1,
        (Key::Ed25519, ..) => &ED25519,
        (Key::Rsa { .. }, Family::Rsa, Hash::Sha1) => &RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        (Key::Rsa { .. }, Family::Rsa, Hash::Sha256) => &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        (Key::Rsa { .. }, Family::Rsa, Hash::Sha384) => &RSA_PKCS1_2048_8192_SHA384,
        (Key::Rsa { .. }, Family::Rsa, Hash::Sha512) => &RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        (Key::Rsa { .. }, Family::RsaPss, Hash::Sha256) => &RSA_PSS_2048_8192_SHA256,
        (Key::Rsa { .. }, Family::RsaPss, Hash::Sha384) => &RSA_PSS_2048_8192_SHA384,
        (Key::Rsa { .. }, Family::RsaPss, Hash::Sha512) => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}
