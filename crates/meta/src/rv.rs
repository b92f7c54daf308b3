//! Resource versions and continue tokens: parsing, encoding, and the errors for invalid or expired ones.

use crate::{Cause, FieldErrors, GroupKind, GroupResource, Status, strconv};
use pintle_value::base64::{self, CorruptInput};
use pintle_value::{Path, Value, json};

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
/// The version in a token that continues at the newest state.
pub const NEWEST: i64 = -1;

/// Parses a resource version; "" and "0" are zero.
pub fn parse(text: &str) -> Result<u64, FieldErrors> {
    if text.is_empty() || text == "0" {
        return Ok(0);
    }
    strconv::parse_uint(text).map_err(|e| {
        let mut errors = FieldErrors::new();
        errors.invalid(&Path::of("resourceVersion"), text, &e.to_string());
        errors
    })
}

/// Parses the resource version of a list, or of any read from a store without a cache.
pub fn parse_for_list(text: &str) -> Result<u64, Status> {
    parse(text)
        .map_err(|e| Status::bad_request(format!("invalid resource version: {}", e.aggregate_message())))
}

/// Parses the resource version of a get or a watch. kube-apiserver returns this error without a proper code.
pub fn parse_for_get(text: &str) -> Result<u64, Status> {
    parse(text).map_err(|e| Status::unclassified(e.aggregate_message()))
}

/// Parses the `metadata.resourceVersion` of an object in a write; "" and "0" mean none.
pub fn parse_of_object(text: &str) -> Result<u64, Status> {
    if text.is_empty() || text == "0" {
        return Ok(0);
    }
    strconv::parse_uint(text).map_err(|e| Status::unclassified(e.to_string()))
}

/// 422 for an update without a version, for a kind that requires one.
pub fn version_required(resource: &GroupResource, name: &str) -> Status {
    let mut errors = FieldErrors::new();
    errors.invalid(&Path::of("metadata.resourceVersion"), 0, "must be specified for an update");
    let kind = GroupKind { group: resource.group.clone(), kind: resource.resource.clone() };
    Status::invalid(&kind, name, &errors)
}

/// 504 for a version that the server has not reached yet.
pub fn too_large(wanted: u64, current: u64, retry_seconds: i32) -> Status {
    let message = format!("Too large resource version: {wanted}, current: {current}");
    let mut status = Status::timeout(&message, retry_seconds);
    status.details.causes = vec![Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".to_string(),
        ..Cause::default()
    }];
    status
}

/// 410 for a watch from a version before the events in the cache.
pub fn too_old(wanted: u64, oldest: u64) -> Status {
    Status::expired(format!("too old resource version: {wanted} ({oldest})"))
}

/// 410 for a list at a version that was compacted.
pub fn expired_list() -> Status {
    Status::expired("The resourceVersion for the provided list is too old.")
}

/// 410 for a continued list whose version was compacted, with a token that continues at the newest state.
pub fn expired_continue(start: &str) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = ContinueToken { version: NEWEST, start: start.to_string() }.encode();
    status
}

/// Where a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The version of the list; [`NEWEST`] for the current state.
    pub version: i64,
    /// The first key of the next chunk, relative to the list: `ns/name\0`.
    pub start: String,
}

/// Why a text is not a continue token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContinueError {
    /// The token cannot be decoded.
    #[error("continue key is not valid: {0}")]
    Unreadable(String),
    /// The token has no version.
    #[error("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")]
    NoVersion,
    /// The token has no key.
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    NoStart,
    /// The token has an unknown format.
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    OtherVersion(String),
}

impl ContinueToken {
    /// The text of the token.
    pub fn encode(&self) -> String {
        let mut out = format!("{{\"v\":\"{TOKEN_VERSION}\",\"rv\":{},\"start\":", self.version).into_bytes();
        json::write_string(&self.start, &mut out);
        out.push(b'}');
        base64::encode_url(&out)
    }

    /// Decodes a token. Its key cannot point outside the list.
    pub fn decode(text: &str) -> Result<Self, ContinueError> {
        let unreadable = |why: &dyn std::fmt::Display| ContinueError::Unreadable(why.to_string());
        let bytes = decode_url(text).map_err(|e| unreadable(&e))?;
        let tree = json::parse(&bytes).map_err(|e| unreadable(&e))?.value;
        if !matches!(tree, Value::Object(_) | Value::Null) {
            let what = tree.json_type();
            let why = format!("json: cannot unmarshal {what} into Go value of type storage.continueToken");
            return Err(ContinueError::Unreadable(why));
        }
        let version = read_member(&tree, "rv", "int64", Value::as_int)?.unwrap_or(0);
        let start =
            read_member(&tree, "start", "string", |v| v.as_str().map(String::from))?.unwrap_or_default();
        let kind = read_member(&tree, "v", "string", |v| v.as_str().map(String::from))?.unwrap_or_default();
        if kind != TOKEN_VERSION {
            return Err(ContinueError::OtherVersion(kind));
        }
        if version == 0 {
            return Err(ContinueError::NoVersion);
        }
        if start.is_empty() {
            return Err(ContinueError::NoStart);
        }
        let relative = start.strip_prefix('/').unwrap_or(&start);
        let climbs = relative.split('/').any(|part| matches!(part, "" | "." | ".."));
        if climbs && !relative.is_empty() {
            return Err(ContinueError::Unreadable(start));
        }
        Ok(ContinueToken { version, start: relative.to_string() })
    }

    /// Decodes the token of a list, which must not specify a resource version too.
    pub fn decode_for_list(text: &str, resource_version: &str) -> Result<Self, Status> {
        let token = ContinueToken::decode(text)
            .map_err(|e| Status::bad_request(format!("invalid continue token: {e}")))?;
        if !matches!(resource_version, "" | "0") {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(token)
    }
}

/// Decodes base64 with the URL alphabet and without padding. Errors have Go's positions.
fn decode_url(text: &str) -> Result<Vec<u8>, CorruptInput> {
    let mut standard = String::with_capacity(text.len().saturating_add(2));
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => standard.push(char::from(b)),
            b'-' => standard.push('+'),
            b'_' => standard.push('/'),
            b'\r' | b'\n' => {}
            _ => return Err(CorruptInput(at)),
        }
    }
    match standard.len() % 4 {
        0 => {}
        1 => return Err(CorruptInput(text.len().saturating_sub(1))),
        digits => standard.extend(std::iter::repeat_n('=', 4_usize.saturating_sub(digits))),
    }
    base64::decode(&standard)
}

fn read_member<T>(
    tree: &Value,
    name: &str,
    go_type: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, ContinueError> {
    let value = tree.get(name).filter(|v| !v.is_null());
    let complain = |v: &Value| {
        let what = v.json_type();
        ContinueError::Unreadable(format!(
            "json: cannot unmarshal {what} into Go struct field continueToken.{name} of type {go_type}"
        ))
    };
    value.map(|v| read(v).ok_or_else(|| complain(v))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!((parse(""), parse("0"), parse("12")), (Ok(0), Ok(0), Ok(12)));
        assert_eq!(
            parse_for_list("abc").unwrap_err().message,
            "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax"
        );
        assert_eq!(
            version_required(&GroupResource::new("coordination.k8s.io", "leases"), "l").message,
            "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        );
    }

    #[test]
    fn tokens() {
        let token = ContinueToken { version: 7, start: "ns/a\0".to_string() };
        let text = token.encode();
        assert_eq!(decode_url(&text).unwrap(), br#"{"v":"meta.k8s.io/v1","rv":7,"start":"ns/a\u0000"}"#);
        assert_eq!(ContinueToken::decode(&text), Ok(token));
        for (json, expected) in [
            ("i", "continue key is not valid: invalid character 'i' looking for beginning of value"),
            ("{}", "continue key is not valid: server does not recognize this encoded version "),
            (
                r#"{"v":"meta.k8s.io/v1","start":"a"}"#,
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","rv":1}"#,
                "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
            ),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}"#, "continue key is not valid: ../a"),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}"#, "continue key is not valid: a//b"),
            (
                r#"{"v":"meta.k8s.io/v1","rv":"1"}"#,
                "continue key is not valid: json: cannot unmarshal string into Go struct field continueToken.rv of type int64",
            ),
        ] {
            let got = ContinueToken::decode(&base64::encode_url(json.as_bytes())).unwrap_err();
            assert_eq!(got.to_string(), expected, "{json}");
        }
        assert_eq!(
            ContinueToken::decode("!").unwrap_err().to_string(),
            "continue key is not valid: illegal base64 data at input byte 0"
        );
        for (text, at) in [("YQ==", 2), ("Y", 0), ("YWJjY", 4), ("a+b", 1)] {
            assert_eq!(decode_url(text), Err(CorruptInput(at)), "{text}");
        }
        let status = expired_continue("a");
        assert_eq!(ContinueToken::decode(&status.continue_token).unwrap().version, NEWEST);
    }
}
