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

/// The keys of a key set, without those that cannot verify. One that go-jose, which kube-apiserver uses, cannot read makes the
/// whole set unusable.
pub(super) fn keys(set: &Value) -> Result<Vec<Key>, String> {
    let all = set.items_at(&["keys"]).iter().take(KEYS_MAX).map(parse_key);
    all.filter_map(Result::transpose).collect()
}

fn parse_key(jwk: &Value) -> Result<Option<Key>, String> {
    let text = |name: &str| match jwk.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.to_string()),
        Some(_) => Err(format!("json: cannot unmarshal {name} of a key")),
    };
    let number = |name: &str| match jwk.get(name).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(_) => match URL_SAFE_NO_PAD.decode(text(name)?) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) => Err("illegal base64 data".to_string()),
        },
    };
    for name in ["use", "alg"] {
        text(name)?;
    }
    let material = match text("kty")?.as_str() {
        "RSA" => {
            let missing = "go-jose/go-jose: invalid RSA key, missing n/e values";
            Material::Rsa { n: number("n")?.ok_or(missing)?, e: number("e")?.ok_or(missing)? }
        }
        "EC" => elliptic_key(&text("crv")?, number("x")?, number("y")?)?,
        "oct" | "OKP" => return Ok(None),
        other => return Err(format!("go-jose/go-jose: unknown json web key type '{other}'")),
    };
    // A private key does not verify there.
    let is_public = number("d")?.is_none();
    Ok(is_public.then_some(Key { kid: text("kid")?, material }))
}

fn elliptic_key(curve: &str, x: Option<Vec<u8>>, y: Option<Vec<u8>>) -> Result<Material, String> {
    let bytes = match curve {
        "P-256" => 32,
        "P-384" => 48,
        "P-521" => 66,
        other => return Err(format!("go-jose/go-jose: unsupported elliptic curve '{other}'")),
    };
    let missing = "go-jose/go-jose: invalid EC key, missing x/y values";
    let (x, y) = (x.ok_or(missing)?, y.ok_or(missing)?);
    for (name, coordinate) in [("x", &x), ("y", &y)] {
        if coordinate.len() != bytes {
            return Err(format!("go-jose/go-jose: invalid EC public key, wrong length for {name}"));
        }
    }
    Ok(Material::Ec(curve.to_string(), [&[4][..], &x, &y].concat()))
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
        let all = keys(&key_set(std::slice::from_ref(&signer.verifying))).unwrap();
        let [key] = all.as_slice() else { panic!("one key") };
        let signature = signer.sign(b"text").unwrap();
        assert!(key.fits("") && key.fits(&signer.verifying.kid) && !key.fits("other"));
        assert!(key.verifies("ES256", b"text", &signature));
        assert!(!key.verifies("ES256", b"other", &signature));
        assert!(!key.verifies("RS256", b"text", &signature));
        assert!(!key.verifies("none", b"text", &signature));
    }

    #[test]
    fn one_bad_key_spoils_the_set() {
        let read = |key: &str| {
            let set = format!(r#"{{"keys":[{{"kty":"RSA","n":"AQAB","e":"AQAB"}},{key}]}}"#);
            keys(&pintle_value::json::parse(set.as_bytes()).unwrap().value).map(|keys| keys.len()).ok()
        };
        for (key, expected) in [
            (r#"{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"a"}"#, Some(2)),
            (r#"{"kty":"RSA","n":"AQAB","e":"AQAB","d":"AQAB"}"#, Some(1)),
            (r#"{"kty":"oct","k":"AQAB"}"#, Some(1)),
            (r#"{"kty":"RSA","n":"AQAB=","e":"AQAB"}"#, None),
            (r#"{"kty":"RSA","n":"AQAB"}"#, None),
            (r#"{"kty":"RSA","n":"AQAB","e":"AQAB","kid":5}"#, None),
            (r#"{"kty":"EC","crv":"P-256","x":"AQAB","y":"AQAB"}"#, None),
            (r#"{"kty":"LOCK"}"#, None),
            ("null", None),
        ] {
            assert_eq!(read(key), expected, "{key}");
        }
    }
}
