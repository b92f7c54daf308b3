//! The types of public keys that Go knows.

use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// The type of a public key.
pub(super) enum Key {
    Rsa { bits: usize },
    P224,
    P256,
    P384,
    P521,
    Ed25519,
}

impl Key {
    /// The type of a key; `Ok(None)` if Go does not know it.
    pub(super) fn of(info: &SubjectPublicKeyInfo<'_>) -> Result<Option<Key>, &'static str> {
        let parameter = info.algorithm.parameters.as_ref().and_then(|p| p.as_oid().ok());
        let curve = parameter.map(|oid| oid.to_id_string()).unwrap_or_default();
        Ok(Some(match info.algorithm.algorithm.to_id_string().as_str() {
            "1.2.840.113549.1.1.1" => match info.parsed() {
                Ok(PublicKey::RSA(key)) => {
                    let modulus = key.modulus.iter().skip_while(|byte| **byte == 0);
                    let zeros = modulus.clone().next().map_or(0, |byte| byte.leading_zeros());
                    let bits = modulus.count().saturating_mul(8);
                    Key::Rsa { bits: bits.saturating_sub(usize::try_from(zeros).unwrap_or(0)) }
                }
                _ => return Ok(None),
            },
            "1.2.840.10045.2.1" => match curve.as_str() {
                "1.3.132.0.33" => Key::P224,
                "1.2.840.10045.3.1.7" => Key::P256,
                "1.3.132.0.34" => Key::P384,
                "1.3.132.0.35" => Key::P521,
                _ => return Err("x509: unsupported elliptic curve"),
            },
            "1.3.101.112" => Key::Ed25519,
            _ => return Ok(None),
        }))
    }

    /// The name of the key's type in Go.
    pub(super) fn go_type(&self) -> &'static str {
        match self {
            Key::Rsa { .. } => "*rsa.PublicKey",
            Key::P224 | Key::P256 | Key::P384 | Key::P521 => "*ecdsa.PublicKey",
            Key::Ed25519 => "ed25519.PublicKey",
        }
    }
}
