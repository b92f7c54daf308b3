//! The header fields that determine where the body ends and whether the connection is reused, by the rules of
//! `net/http`.

use bytes::Bytes;

use super::{HeadError, StatusLine, quoted, refused};

/// Name and value of a field.
pub(super) type Field = (Bytes, Bytes);

fn values_of<'f>(fields: &'f [Field], name: &str) -> Vec<&'f [u8]> {
    let has_name = |field: &&Field| field.0.eq_ignore_ascii_case(name.as_bytes());
    fields.iter().filter(has_name).map(|(_, value)| &value[..]).collect()
}

fn remove(fields: &mut Vec<Field>, name: &str) {
    fields.retain(|(key, _)| !key.eq_ignore_ascii_case(name.as_bytes()));
}

/// Texts in the format of Go's `%q` for a list.
fn quoted_list(texts: &[&[u8]]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(" "))
}

/// Removes the field and returns whether the body is chunked, which is the only supported encoding. HTTP/1.0 has
/// none.
pub(super) fn transfer_encoding(fields: &mut Vec<Field>, status: &StatusLine) -> Result<bool, HeadError> {
    let given = values_of(fields, "transfer-encoding");
    let is_chunked = match given.as_slice() {
        [] => false,
        _ if !status.is_at_least(1, 1) => false,
        [one] if one.eq_ignore_ascii_case(b"chunked") => true,
        [one] => return Err(refused("unsupported transfer encoding:", one)),
        several => return Err(HeadError(format!("too many transfer encodings: {}", quoted_list(several)))),
    };
    remove(fields, "transfer-encoding");
    Ok(is_chunked)
}

/// Returns the length of the body. Removes the field if the body is chunked.
pub(super) fn content_length(fields: &mut Vec<Field>, is_chunked: bool) -> Result<Option<u64>, HeadError> {
    let given = values_of(fields, "content-length");
    let Some(first) = given.first().map(|first| first.trim_ascii().to_vec()) else { return Ok(None) };
    if given.iter().any(|other| other.trim_ascii() != first) {
        let list = quoted_list(&given);
        return Err(HeadError(format!(
            "http: message cannot contain multiple Content-Length headers; got {list}"
        )));
    }
    if first.is_empty() {
        return Err(refused("invalid empty Content-Length", &first));
    }
    let digits = std::str::from_utf8(&first).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let length = digits.and_then(|text| text.parse::<i64>().ok()).and_then(|length| length.try_into().ok());
    if length.is_none() {
        return Err(refused("bad Content-Length", &first));
    }
    remove(fields, "content-length");
    if is_chunked {
        return Ok(None);
    }
    fields.push((Bytes::from_static(b"content-length"), first.into()));
    Ok(length)
}

/// A trailer must not contain fields that determine the framing of the body.
pub(super) fn check_trailer(fields: &[Field]) -> Result<(), HeadError> {
    let named = values_of(fields, "trailer");
    for name in named.iter().flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii) {
        for bad in ["Transfer-Encoding", "Trailer", "Content-Length"] {
            if name.eq_ignore_ascii_case(bad.as_bytes()) {
                return Err(refused("bad trailer key", bad.as_bytes()));
            }
        }
    }
    Ok(())
}

/// Returns whether the connection stays open. `net/http` drops the whole field if the backend closes the connection. In
/// that case other names in it are not hop-by-hop fields.
pub(super) fn is_persistent(fields: &mut Vec<Field>, status: &StatusLine) -> bool {
    let given = values_of(fields, "connection");
    let has = |word: &[u8]| {
        let is_word = |token: &[u8]| token.trim_ascii().eq_ignore_ascii_case(word);
        given.iter().any(|value| value.split(|byte| *byte == b',').any(is_word))
    };
    let closes = has(b"close");
    if !status.is_at_least(1, 1) {
        return status.is_at_least(1, 0) && !closes && has(b"keep-alive");
    }
    if closes {
        remove(fields, "connection");
        fields.push((Bytes::from_static(b"connection"), Bytes::from_static(b"close")));
    }
    !closes
}
