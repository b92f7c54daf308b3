//! Bodies: the bytes that a step sends, and the text form of a response.

use std::io::Read;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use crate::cbor::{self, CborError};

/// The size limit of an unpacked response.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;
/// The maximum number of bytes that `repeat:` sends.
const REPEATED_BYTES_MAX: usize = 1 << 28;

/// Why a body could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Not CBOR.
    #[error(transparent)]
    Cbor(#[from] CborError),
    /// Not base64.
    #[error("not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Not gzip.
    #[error("not gzip: {0}")]
    Gzip(#[from] std::io::Error),
    /// `repeat:` without a number, or with too large a one.
    #[error("repeat: needs a number and a text")]
    Repeat,
}

/// The bytes of a step's body.
pub fn request_body(text: &str) -> Result<Vec<u8>, BodyError> {
    if let Some(json) = text.strip_prefix("cbor:") {
        let mut out = cbor::SELF_DESCRIBED.to_vec();
        cbor::encode(&serde_json::from_str(json)?, &mut out);
        return Ok(out);
    }
    if let Some(encoded) = text.strip_prefix("base64:") {
        let is_in_alphabet = |b: &u8| b.is_ascii_alphanumeric() || b"+/=".contains(b);
        let encoded: Vec<u8> = encoded.bytes().filter(is_in_alphabet).collect();
        let lenient = GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true);
        return Ok(GeneralPurpose::new(&STANDARD, lenient).decode(encoded)?);
    }
    if let Some(rest) = text.strip_prefix("repeat:") {
        let (count, unit) = rest.split_once(':').ok_or(BodyError::Repeat)?;
        let count: usize = count.trim().parse().map_err(|_| BodyError::Repeat)?;
        if count.saturating_mul(unit.len()) > REPEATED_BYTES_MAX {
            return Err(BodyError::Repeat);
        }
        return Ok(unit.repeat(count).into_bytes());
    }
    Ok(text.as_bytes().to_vec())
}

/// Unpacks a gzipped response.
pub fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, BodyError> {
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes).take(UNPACKED_BYTES_MAX).read_to_end(&mut out)?;
    Ok(out)
}

/// The documents of a JSON or CBOR response; `None` if it is neither.
pub fn documents(bytes: &[u8], content_type: &str) -> Result<Option<Vec<Value>>, BodyError> {
    if content_type.contains("cbor") {
        let (mut out, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let (value, read) = cbor::decode(rest)?;
            out.push(value);
            rest = rest.get(read..).unwrap_or_default();
        }
        return Ok(Some(out));
    }
    if !content_type.contains("json") {
        return Ok(None);
    }
    Ok(Some(json_documents(&String::from_utf8_lossy(bytes))?))
}

/// Parses consecutive JSON documents.
pub fn json_documents(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    serde_json::Deserializer::from_str(text).into_iter().collect()
}

/// A document as lines: keys sorted, indented by one space per level.
pub fn pretty(value: &Value) -> Vec<String> {
    let mut value = value.clone();
    value.sort_all_objects();
    // serde_json indents by two; strings have no line breaks, so leading spaces are always indentation.
    let halved = |line: &str| {
        let text = line.trim_start_matches(' ');
        format!("{:1$}{text}", "", (line.len() - text.len()) / 2)
    };
    format!("{value:#}").split('\n').map(halved).collect()
}

/// apiVersion and kind from the envelope of a protobuf response.
pub fn envelope(bytes: &[u8]) -> String {
    let Some(unknown) = bytes.strip_prefix(b"k8s\0") else { return "no k8s envelope".to_owned() };
    let type_meta = last_field(unknown, 1);
    let text = |number| String::from_utf8_lossy(last_field(type_meta, number)).into_owned();
    format!("{} {}", text(1), text(2))
}

/// The last length-delimited field with that number; empty if there is none.
fn last_field(mut bytes: &[u8], number: u64) -> &[u8] {
    let mut found: &[u8] = &[];
    while let Some(tag) = varint(&mut bytes) {
        match tag & 7 {
            0 if varint(&mut bytes).is_some() => {}
            2 => {
                let length = varint(&mut bytes).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
                let (field, rest) = bytes.split_at(length.min(bytes.len()));
                if tag >> 3 == number {
                    found = field;
                }
                bytes = rest;
            }
            _ => return found,
        }
    }
    found
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(first & 127) << shift;
        if first & 128 == 0 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn request_bodies() {
        let cases: [(&str, &[u8]); 6] = [
            ("{\"a\": 1}", b"{\"a\": 1}"),
            ("cbor:{\"b\": 1, \"a\": []}", b"\xd9\xd9\xf7\xa2\x61b\x01\x61a\x80"),
            ("base64:azhz\nAA==", b"k8s\0"),
            ("base64:azhzAA", b"k8s\0"),
            ("repeat:3:[:", b"[:[:[:"),
            ("", b""),
        ];
        for (text, want) in cases {
            assert_eq!(request_body(text).unwrap(), want, "{text}");
        }
        for text in ["cbor:{", "repeat:x:y", "repeat:5", "repeat:9999999999:yyyy", "base64:a"] {
            assert!(request_body(text).is_err(), "{text}");
        }
    }

    #[test]
    fn answers() {
        assert_eq!(
            documents(b"{\"a\":1}\n{}", "application/json").unwrap(),
            Some(vec![json!({"a": 1}), json!({})])
        );
        assert_eq!(documents(b"", "application/json").unwrap(), Some(vec![]));
        assert_eq!(documents(b"\x01\x02", "application/cbor-seq").unwrap(), Some(vec![json!(1), json!(2)]));
        assert_eq!(documents(b"ok", "text/plain").unwrap(), None);
        assert!(documents(b"ok", "application/json").is_err());
        assert_eq!(
            pretty(&json!({"b": {}, "a": [1, "é\u{1}"]})).join("|"),
            "{| \"a\": [|  1,|  \"é\\u0001\"| ],| \"b\": {}|}"
        );
        assert_eq!(envelope(b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x00"), "v1 ConfigMap");
        assert_eq!(envelope(b"{}"), "no k8s envelope");
        assert_eq!(envelope(b"k8s\0\x0a\xff"), " ");
    }
}
