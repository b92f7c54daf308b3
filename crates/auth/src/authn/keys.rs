//! Keys of service account tokens: parsed from PEM, identified by `kid`, published as a JSON Web Key Set.

use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{self, EcdsaKeyPair, KeyPair, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_value::{Map, Value};
use rustls::pki_types::pem::{PemObject, SectionKind};
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate};
use x509_parser::public_key::PublicKey as Parsed;

/// Algorithms that tokens are signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of JOSE")]
pub enum Algorithm {
    ES256,
    ES384,
    ES512,
    RS256,
}

impl Algorithm {
    /// The algorithm's JOSE name.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::ES256 => "ES256",
            Algorithm::ES384 => "ES384",
            Algorithm::ES512 => "ES512",
            Algorithm::RS256 => "RS256",
        }
    }

    fn signing_curve(self) -> Option<(&'static str, &'static signature::EcdsaSigningAlgorithm)> {
        match self {
            Algorithm::ES256 => Some(("P-256", &signature::ECDSA_P256_SHA256_FIXED_SIGNING)),
            Algorithm::ES384 => Some(("P-384", &signature::ECDSA_P384_SHA384_FIXED_SIGNING)),
            Algorithm::ES512 => Some(("P-521", &signature::ECDSA_P521_SHA512_FIXED_SIGNING)),
            Algorithm::RS256 => None,
        }
    }

    fn verification_algorithm(self) -> &'static dyn signature::VerificationAlgorithm {
        match self {
            Algorithm::ES256 => &signature::ECDSA_P256_SHA256_FIXED,
            Algorithm::ES384 => &signature::ECDSA_P384_SHA384_FIXED,
            Algorithm::ES512 => &signature::ECDSA_P521_SHA512_FIXED,
            Algorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        }
    }
}

/// A key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not PEM.
    #[error("not PEM: {0}")]
    Pem(String),
    /// The file contains no key.
    #[error("no key found")]
    None,
    /// The key is neither RSA nor ECDSA on a supported curve, or malformed.
    #[error("not an RSA or ECDSA key that can be used")]
    Unusable,
}

/// A public key for verifying signatures.
#[derive(Clone, Debug)]
pub struct VerifyingKey {
    /// The algorithm of the key's signatures.
    pub algorithm: Algorithm,
    /// The key's id in tokens.
    pub kid: String,
    spki: Vec<u8>,
}

impl VerifyingKey {
    /// The key of a DER `SubjectPublicKeyInfo`.
    pub fn from_spki(spki: &[u8]) -> Result<Self, KeyError> {
        let (_, info) = SubjectPublicKeyInfo::from_der(spki).map_err(|_| KeyError::Unusable)?;
        let algorithm = match info.parsed().map_err(|_| KeyError::Unusable)? {
            Parsed::RSA(_) => Algorithm::RS256,
            Parsed::EC(point) => match point.key_size() {
                256 => Algorithm::ES256,
                384 => Algorithm::ES384,
                521 | 528 => Algorithm::ES512,
                _ => return Err(KeyError::Unusable),
            },
            _ => return Err(KeyError::Unusable),
        };
        let kid = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, spki));
        Ok(VerifyingKey { algorithm, kid, spki: spki.to_vec() })
    }

    /// All keys of a PEM file: public keys, certificates, and the public halves of private keys.
    pub fn all_from_pem(text: &[u8]) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for (kind, der) in pem_sections(text)? {
            match kind {
                SectionKind::PublicKey => keys.push(VerifyingKey::from_spki(&der)?),
                SectionKind::Certificate => {
                    let (_, certificate) = X509Certificate::from_der(&der).map_err(|_| KeyError::Unusable)?;
                    keys.push(VerifyingKey::from_spki(certificate.public_key().raw)?);
                }
                SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
                    keys.push(SigningKey::from_der(&der)?.verifying);
                }
                _ => {}
            }
        }
        if keys.is_empty() { Err(KeyError::None) } else { Ok(keys) }
    }

    /// Returns whether `signature` is valid for `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        signature::UnparsedPublicKey::new(self.algorithm.verification_algorithm(), &self.spki)
            .verify(message, signature)
            .is_ok()
    }

    /// The key as a JSON Web Key.
    fn jwk(&self) -> Option<Value> {
        let (_, info) = SubjectPublicKeyInfo::from_der(&self.spki).ok()?;
        let mut jwk = Map::new();
        let mut put = |key: &str, value: &str| _ = jwk.insert(key, value.into());
        put("use", "sig");
        put("kid", &self.kid);
        put("alg", self.algorithm.name());
        match info.parsed().ok()? {
            Parsed::RSA(rsa) => {
                put("kty", "RSA");
                put("n", &URL_SAFE_NO_PAD.encode(without_leading_zeros(rsa.modulus)));
                put("e", &URL_SAFE_NO_PAD.encode(without_leading_zeros(rsa.exponent)));
            }
            Parsed::EC(point) => {
                put("kty", "EC");
                put("crv", self.algorithm.signing_curve()?.0);
                let coordinates = point.data().get(1..)?;
                let (x, y) = coordinates.split_at_checked(coordinates.len() / 2)?;
                put("x", &URL_SAFE_NO_PAD.encode(x));
                put("y", &URL_SAFE_NO_PAD.encode(y));
            }
            _ => return None,
        }
        Some(Value::Object(jwk))
    }
}

/// The JSON Web Key Set of these keys.
pub fn key_set(keys: &[VerifyingKey]) -> Value {
    let mut set = Map::new();
    set.insert("keys", Value::Array(keys.iter().filter_map(VerifyingKey::jwk).collect()));
    Value::Object(set)
}

/// A key that signs tokens.
pub struct SigningKey {
    /// The key's public key.
    pub verifying: VerifyingKey,
    private: Private,
}

enum Private {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
}

impl SigningKey {
    /// The first private key of a PEM file.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let private = pem_sections(text)?.into_iter().find(|(kind, _)| {
            matches!(kind, SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey)
        });
        SigningKey::from_der(&private.ok_or(KeyError::None)?.1)
    }

    /// A private key in DER: PKCS#8, PKCS#1 or SEC 1.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        if let Ok(rsa) = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der)) {
            let spki: PublicKeyX509Der<'_> = rsa.public_key().as_der().map_err(|_| KeyError::Unusable)?;
            let verifying = VerifyingKey::from_spki(spki.as_ref())?;
            return Ok(SigningKey { verifying, private: Private::Rsa(Box::new(rsa)) });
        }
        for algorithm in [Algorithm::ES256, Algorithm::ES384, Algorithm::ES512] {
            let Some((_, signing)) = algorithm.signing_curve() else { continue };
            let Ok(pair) = EcdsaKeyPair::from_pkcs8(signing, der)
                .or_else(|_| EcdsaKeyPair::from_private_key_der(signing, der))
            else {
                continue;
            };
            let spki: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(|_| KeyError::Unusable)?;
            let verifying = VerifyingKey::from_spki(spki.as_ref())?;
            return Ok(SigningKey { verifying, private: Private::Ecdsa(Box::new(pair)) });
        }
        Err(KeyError::Unusable)
    }

    /// Signs `message`.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match &self.private {
            Private::Rsa(pair) => {
                let mut out = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut out)
                    .map_err(|_| KeyError::Unusable)?;
                Ok(out)
            }
            Private::Ecdsa(pair) => {
                Ok(pair.sign(&random, message).map_err(|_| KeyError::Unusable)?.as_ref().to_vec())
            }
        }
    }
}

fn pem_sections(text: &[u8]) -> Result<Vec<(SectionKind, Vec<u8>)>, KeyError> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(text)
        .map(|section| section.map_err(|e| KeyError::Pem(format!("{e:?}"))))
        .collect()
}

fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    bytes.get(zeros..).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sign_verify_and_are_published() {
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384] {
            let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
            let signing = SigningKey::from_pem(pair.serialize_pem().as_bytes()).unwrap();
            let keys = VerifyingKey::all_from_pem(pair.public_key_pem().as_bytes()).unwrap();
            let [key] = keys.as_slice() else { panic!("one key") };
            assert_eq!(key.kid, signing.verifying.kid);
            let signature = signing.sign(b"text").unwrap();
            assert!(key.verifies(b"text", &signature));
            assert!(!key.verifies(b"other", &signature));
            let set = key_set(&keys);
            let [jwk] = set.items_at(&["keys"]) else { panic!("one key") };
            assert_eq!(jwk.str_at(&["kty"]), "EC");
            assert_eq!(jwk.str_at(&["alg"]), key.algorithm.name());
        }
    }

    #[test]
    fn texts_without_a_key_are_refused() {
        assert!(VerifyingKey::all_from_pem(b"").is_err());
        assert!(
            SigningKey::from_pem(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").is_err()
        );
    }
}
