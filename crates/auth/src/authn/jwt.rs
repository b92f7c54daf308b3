//! Signed tokens in compact form: header, claims and signature, dot separated.

use super::keys::{KeyError, SigningKey, VerifyingKey};
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use base64::{Engine, alphabet};
use pintle_meta::field::quoted;
use pintle_value::{Map, Str, Value, json};
use std::borrow::Cow;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The longest token that is parsed.
const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// Base64 of signatures as Go decodes it: it ignores the bits after the last byte.
const SIGNATURE_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// A parsed token. Nothing in it can be trusted before `verified_by`.
pub struct Token<'a> {
    signed: Cow<'a, str>,
    signature: Vec<u8>,
    /// The claimed signature algorithm.
    pub algorithm: String,
    /// The claimed key id, or "".
    pub kid: String,
    /// The claims of the token.
    pub claims: Value,
    /// The claims that come more than once.
    pub repeated: Vec<Str>,
    /// Whether the header needs no feature that is missing here: a critical extension, or a payload that is signed
    /// without base64.
    is_understood: bool,
}

impl<'a> Token<'a> {
    /// Parses a token. White space around the header and the signature is ignored, as in Go's library; the error has
    /// that library's text.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let parts = || "go-jose/go-jose: compact JWS format must have three parts".to_string();
        if text.len() > TOKEN_BYTES_MAX {
            return Err("the token is too long".to_string());
        }
        let claims = text.split('.').nth(1).ok_or_else(parts)?;
        if claims.contains(|c: char| c.is_whitespace() && !matches!(c, '\r' | '\n')) {
            return Err(illegal_base64(claims));
        }
        let text: Cow<'a, str> = if text.contains(char::is_whitespace) {
            Cow::Owned(text.split_whitespace().collect())
        } else {
            Cow::Borrowed(text)
        };
        let (signed, signature) = text.rsplit_once('.').ok_or_else(parts)?;
        let signature = SIGNATURE_BASE64.decode(signature).map_err(|_| illegal_base64(signature))?;
        let (header, claims) = signed.split_once('.').ok_or_else(parts)?;
        let Header { algorithm, kid, is_understood } = Header::parse(header)?;
        let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| illegal_base64(claims))?;
        let claims = json::parse(&claims).map_err(|error| error.to_string())?;
        if !matches!(claims.value, Value::Object(_)) {
            return Err("the claims are no object".to_string());
        }
        let length = signed.len();
        let signed: Cow<'a, str> = match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.get(..length).unwrap_or_default()),
            Cow::Owned(mut text) => {
                text.truncate(length);
                Cow::Owned(text)
            }
        };
        let (claims, repeated) = (claims.value, claims.duplicates);
        Ok(Token { signed, signature, algorithm, kid, claims, repeated, is_understood })
    }

    /// Returns whether `verifies` accepts the signature. It receives the algorithm, the signed part and the
    /// signature.
    pub fn is_signed(&self, verifies: impl FnOnce(&str, &[u8], &[u8]) -> bool) -> bool {
        self.is_understood && verifies(&self.algorithm, self.signed.as_bytes(), &self.signature)
    }

    /// Returns whether `key` signed it, with the key's own algorithm.
    pub fn verified_by(&self, key: &VerifyingKey) -> bool {
        self.is_signed(|algorithm, signed, signature| {
            algorithm == key.algorithm.name() && key.verifies(signed, signature)
        })
    }
}

/// The audiences of claims; `None` if they are not a string or a list of strings.
pub fn audiences(claims: &Value) -> Option<Vec<String>> {
    match claims.get("aud") {
        None => Some(Vec::new()),
        Some(Value::String(one)) => Some(vec![one.to_string()]),
        Some(Value::Array(all)) => all.iter().map(|one| one.as_str().map(str::to_string)).collect(),
        Some(_) => None,
    }
}

/// The header of a token.
struct Header {
    algorithm: String,
    kid: String,
    is_understood: bool,
}

impl Header {
    /// Parses a header. go-jose, which kube-apiserver uses, refuses duplicate keys and values of a wrong type.
    fn parse(part: &str) -> Result<Self, String> {
        let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| illegal_base64(part))?;
        let parsed = json::parse(&bytes).map_err(|error| error.to_string())?;
        let header = parsed.value;
        if !matches!(header, Value::Object(_)) {
            return Err("the header is no object".to_string());
        }
        if let Some(key) = parsed.duplicates.first() {
            return Err(format!("json: duplicate key '{key}' in object"));
        }
        let given = |name: &str| header.get(name).filter(|value| !value.is_null());
        let text = |name: &str, what: &str| match given(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.to_string()),
            Some(other) => Err(wrong_type(what, other)),
        };
        text("nonce", "nonce")?;
        if given("jwk").is_some_and(|key| !is_public_key(key)) {
            return Err("go-jose/go-jose: invalid embedded jwk, must be public key".to_string());
        }
        if let Some(chain) = given("x5c").filter(|chain| !is_chain(chain)) {
            let chain = quoted_json(chain);
            return Err(format!("failed to unmarshal x5c header: x509: malformed certificate: {chain}"));
        }
        let is_critical_known = match given("crit") {
            None => true,
            Some(Value::Array(names)) => names.iter().all(|name| name.as_str() == Some("b64")),
            Some(_) => false,
        };
        let is_base64 = matches!(given("b64"), None | Some(Value::Bool(true)));
        let is_understood = is_critical_known && is_base64;
        Ok(Header { algorithm: text("alg", "algorithm")?, kid: text("kid", "key ID")?, is_understood })
    }
}

fn wrong_type(what: &str, value: &Value) -> String {
    let (kind, value) = (json_kind(value), quoted_json(value));
    format!("failed to unmarshal {what}: json: cannot unmarshal {kind} into Go value of type string: {value}")
}

fn quoted_json(value: &Value) -> String {
    quoted(&json::text(value))
}

/// Go's error for base64 that it cannot decode.
fn illegal_base64(text: &str) -> String {
    let is_illegal = |byte: u8| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_');
    let at = text.bytes().position(is_illegal).unwrap_or(text.len());
    format!("illegal base64 data at input byte {at}")
}

/// The type of a value in Go's JSON errors.
pub(super) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) | Value::Raw(_) => "object",
        _ => "number",
    }
}

/// Returns whether an embedded key, which is not used, is a public one.
fn is_public_key(key: &Value) -> bool {
    let is_text = |name: &str| !key.str_at(&[name]).is_empty();
    let is_whole = match key.str_at(&["kty"]) {
        "RSA" => is_text("n") && is_text("e"),
        "EC" => is_text("x") && is_text("y"),
        _ => false,
    };
    is_whole && key.get("d").is_none()
}

/// Returns whether an embedded chain, which is not used, is one of certificates.
fn is_chain(chain: &Value) -> bool {
    let is_certificate = |text: &Value| {
        let der = text.as_str().and_then(|text| pintle_value::base64::decode(text).ok());
        der.is_some_and(|der| X509Certificate::from_der(&der).is_ok())
    };
    chain.as_array().is_some_and(|all| all.iter().all(is_certificate))
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
    let bytes = json::bytes(value);
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims), "AAAA")
    }

    #[test]
    fn headers_that_are_refused_or_not_understood() {
        for (header, expected) in [
            (r#"{"alg":"RS256","kid":"a","typ":"JWT"}"#, Some(true)),
            (r#"{"alg":"RS256","kid":null,"crit":null}"#, Some(true)),
            (r#"{"alg":"RS256","crit":[]}"#, Some(true)),
            (r#"{"alg":"RS256","crit":["b64"],"b64":true}"#, Some(true)),
            (r#"{"alg":"RS256","crit":["exp"],"exp":1}"#, Some(false)),
            (r#"{"alg":"RS256","crit":"b64"}"#, Some(false)),
            (r#"{"alg":"RS256","b64":false}"#, Some(false)),
            (r#"{"alg":"RS256","alg":"RS256"}"#, None),
            (r#"{"alg":"RS256","kid":5}"#, None),
            (r#"{"alg":["RS256"]}"#, None),
            (r#"{"alg":"RS256","nonce":5}"#, None),
            (r#"{"alg":"RS256","jwk":{"kty":"oct","k":"AAAA"}}"#, None),
            (r#"{"alg":"RS256","jwk":{"kty":"RSA","n":"AAAA","e":"AQAB"}}"#, Some(true)),
            (r#"{"alg":"RS256","jwk":{"kty":"RSA","n":"AAAA","e":"AQAB","d":"AA"}}"#, None),
            (r#"{"alg":"RS256","x5c":["AAAA"]}"#, None),
            (r#"["RS256"]"#, None),
        ] {
            let text = token(header, "{}");
            assert_eq!(Token::parse(&text).map(|token| token.is_understood).ok(), expected, "{header}");
        }
    }

    #[test]
    fn white_space_and_padding() {
        let text = token(r#"{"alg":"RS256"}"#, "{}");
        let (header, rest) = text.split_once('.').unwrap();
        for (text, is_parsed) in [
            (format!("{text}\n"), true),
            (format!(" {header} .{rest}"), true),
            (text.replace(".AAAA", "\n.AAAA"), true),
            (text.replace(".AAAA", " .AAAA"), false),
            (format!("{text}="), false),
            (format!("{text}."), false),
            (text.replace(".AAAA", ".AAB"), true),
            (text.replace(".AAAA", ""), false),
        ] {
            assert_eq!(Token::parse(&text).is_ok(), is_parsed, "{text:?}");
        }
    }

    #[test]
    fn audiences_of_claims() {
        for (claims, expected) in [
            (r#"{"aud":"a"}"#, Some(vec!["a"])),
            (r#"{"aud":["a","b"]}"#, Some(vec!["a", "b"])),
            ("{}", Some(vec![])),
            (r#"{"aud":["a",5]}"#, None),
            (r#"{"aud":null}"#, None),
            (r#"{"aud":{"a":1}}"#, None),
        ] {
            let expected = expected.map(|all| all.into_iter().map(str::to_string).collect::<Vec<_>>());
            assert_eq!(audiences(&json::parse(claims.as_bytes()).unwrap().value), expected, "{claims}");
        }
    }
}
