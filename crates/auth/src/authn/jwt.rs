//! Signed tokens in compact form: header, claims and signature, dot separated.

use super::keys::{KeyError, SigningKey, VerifyingKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_value::{Map, Value, json};

/// The longest token that is parsed.
const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// A parsed token. Nothing in it can be trusted before `verified_by`.
pub struct Token<'a> {
    signed: &'a [u8],
    signature: Vec<u8>,
    /// The claimed signature algorithm.
    pub algorithm: String,
    /// The claimed key id, or "".
    pub kid: String,
    /// What it claims.
    pub claims: Value,
}

impl<'a> Token<'a> {
    /// Parses a token; `None` if it is malformed.
    pub fn parse(text: &'a str) -> Option<Self> {
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header = decode(header)?;
        Some(Token {
            signed: signed.as_bytes(),
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
            algorithm: header.str_at(&["alg"]).to_string(),
            kid: header.str_at(&["kid"]).to_string(),
            claims: decode(claims)?,
        })
    }

    /// The signed part, and the signature.
    pub fn signed_parts(&self) -> (&[u8], &[u8]) {
        (self.signed, &self.signature)
    }

    /// Returns whether `key` signed it, with the key's own algorithm.
    pub fn verified_by(&self, key: &VerifyingKey) -> bool {
        self.algorithm == key.algorithm.name() && key.verifies(self.signed, &self.signature)
    }
}

fn decode(part: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    let value = json::parse(&bytes).ok()?.value;
    matches!(value, Value::Object(_)).then_some(value)
}

/// Signs claims.
pub fn sign(key: &SigningKey, claims: &Value) -> Result<String, KeyError> {
    let mut header = Map::new();
    header.insert("alg", key.verifying.algorithm.name().into());
    header.insert("kid", key.verifying.kid.clone().into());
    let mut text = format!("{}.{}", encode(&Value::Object(header)), encode(claims));
    let signature = key.sign(text.as_bytes())?;
    text.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut text);
    Ok(text)
}

fn encode(value: &Value) -> String {
    let mut bytes = Vec::new();
    json::print(value, &mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}
