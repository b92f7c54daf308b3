//! JSON Web Keys of OpenID providers, and the signatures they verify.

use aws_lc_rs::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_value::Value;

/// The algorithms that tokens of providers may be signed with.
pub const ALGORITHMS: [&str; 9] =
    ["ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];
/// The limit of keys of a provider.
const KEYS_MAX: usize = 256;

/// A public key of a provider.
#[derive(Clone, Debug)]
pub(super) struct Key {
    kid: String,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Curve and point.
    Ec(String, Vec<u8>),
}

/// The keys of a key set; unsupported types are dropped.
pub(super) fn keys(set: &Value) -> Vec<Key> {
    set.items_at(&["keys"]).iter().filter_map(key).take(KEYS_MAX).collect()
}

fn key(jwk: &Value) -> Option<Key> {
    let number = |name: &str| URL_SAFE_NO_PAD.decode(jwk.str_at(&[name]).trim_end_matches('=')).ok();
    let material = match jwk.str_at(&["kty"]) {
        "RSA" => Material::Rsa { n: number("n")?, e: number("e")? },
        "EC" => {
            let curve = jwk.str_at(&["crv"]);
            let bytes = match curve {
                "P-256" => 32,
                "P-384" => 48,
                "P-521" => 66,
                _ => return None,
            };
            let (x, y) = (number("x")?, number("y")?);
            if x.len() != bytes || y.len() != bytes {
                return None;
            }
            Material::Ec(curve.to_string(), [&[4][..], &x, &y].concat())
        }
        _ => return None,
    };
    Some(Key { kid: jwk.str_at(&["kid"]).to_string(), material })
}

impl Key {
    /// Returns whether this key can have signed a token with this key id, or without one.
    pub(super) fn fits(&self, kid: &str) -> bool {
        kid.is_empty() || self.kid == kid
    }

    /// Returns whether `signature` is valid for `message` with `algorithm`. The key type must fit the algorithm.
    pub(super) fn verifies(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { n, e } => {
                let parameters = match algorithm {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
                    "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
                    "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            Material::Ec(curve, point) => {
                let parameters = match (curve.as_str(), algorithm) {
                    ("P-256", "ES256") => &signature::ECDSA_P256_SHA256_FIXED,
                    ("P-384", "ES384") => &signature::ECDSA_P384_SHA384_FIXED,
                    ("P-521", "ES512") => &signature::ECDSA_P521_SHA512_FIXED,
                    _ => return false,
                };
                UnparsedPublicKey::new(parameters, point).verify(message, signature).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::keys::{SigningKey, key_set};

    #[test]
    fn published_keys_verify() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let signer = SigningKey::from_der(&pair.serialize_der()).unwrap();
        let all = keys(&key_set(std::slice::from_ref(&signer.verifying)));
        let [key] = all.as_slice() else { panic!("one key") };
        let signature = signer.sign(b"text").unwrap();
        assert!(key.fits("") && key.fits(&signer.verifying.kid) && !key.fits("other"));
        assert!(key.verifies("ES256", b"text", &signature));
        assert!(!key.verifies("ES256", b"other", &signature));
        assert!(!key.verifies("RS256", b"text", &signature));
        assert!(!key.verifies("none", b"text", &signature));
    }
}
