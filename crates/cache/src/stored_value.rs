//! The bytes of a stored value: a header of four bytes, then the JSON of an object or the reason why it cannot be read.

use bytes::Bytes;

/// Bytes in front of the JSON in a stored value.
pub(crate) const HEADER_BYTES: usize = 4;

/// The header of a stored value: the offset in the JSON after it at which `,"resourceVersion":"N"` belongs, or 0 for
/// none.
pub fn value_header(rv_offset: u32) -> [u8; HEADER_BYTES] {
    rv_offset.to_le_bytes()
}

/// Marks a value that would now be stored differently: with another encryption key, encoding or version. Such a value
/// equals no value of a writer, so that even a write without changes stores it again.
const OUTDATED: u32 = 1 << 31;
/// The header of a value that contains the reason why the stored value cannot be decoded.
const UNREADABLE: u32 = u32::MAX;
/// The header of a value that contains the reason why the stored value cannot be decrypted.
pub(crate) const UNTRANSFORMABLE: u32 = u32::MAX - 1;

/// Marks a value to be stored again by the next write of its object.
pub fn mark_outdated(value: Bytes) -> Bytes {
    let mut out = value.to_vec();
    if let Some(header) = out.first_chunk_mut::<HEADER_BYTES>() {
        *header = (u32::from_le_bytes(*header) | OUTDATED).to_le_bytes();
    }
    Bytes::from(out)
}

/// Removes the mark of [`mark_outdated`].
pub fn clear_outdated(value: Bytes) -> Bytes {
    if !is_outdated(&value) {
        return value;
    }
    let mut out = value.to_vec();
    if let Some(header) = out.first_chunk_mut::<HEADER_BYTES>() {
        *header = (u32::from_le_bytes(*header) & !OUTDATED).to_le_bytes();
    }
    Bytes::from(out)
}

/// Returns whether a value has the mark of [`mark_outdated`].
pub fn is_outdated(value: &[u8]) -> bool {
    header(value) & OUTDATED != 0 && unreadable_reason(value).is_none()
}

/// The value of an object that cannot be decoded.
pub fn unreadable_value(why: &str) -> Bytes {
    reason_value(UNREADABLE, why)
}

/// The value of an object that cannot be decrypted.
pub fn untransformable_value(why: &str) -> Bytes {
    reason_value(UNTRANSFORMABLE, why)
}

fn reason_value(header: u32, why: &str) -> Bytes {
    let why = if why.is_empty() { "unreadable" } else { why };
    [header.to_le_bytes().as_slice(), why.as_bytes()].concat().into()
}

/// The reason why a value's object cannot be read, if it cannot.
pub fn unreadable_reason(value: &[u8]) -> Option<String> {
    let is_reason = matches!(header(value), UNREADABLE | UNTRANSFORMABLE);
    is_reason.then(|| String::from_utf8_lossy(json(value)).into_owned())
}

/// Returns whether a value has a header that fits its JSON.
pub(crate) fn is_valid(value: &[u8]) -> bool {
    value.len() > HEADER_BYTES && rv_offset(value) <= json(value).len()
}

/// The part after the header.
pub(crate) fn json(value: &[u8]) -> &[u8] {
    value.get(HEADER_BYTES..).unwrap_or_default()
}

/// The offset of the resourceVersion in the JSON; 0 if it has none.
pub(crate) fn rv_offset(value: &[u8]) -> usize {
    match header(value) {
        UNREADABLE | UNTRANSFORMABLE => 0,
        header => (header & !OUTDATED) as usize,
    }
}

/// The header; 0 if the value is too short.
pub(crate) fn header(value: &[u8]) -> u32 {
    value.first_chunk::<HEADER_BYTES>().map_or(0, |header| u32::from_le_bytes(*header))
}
