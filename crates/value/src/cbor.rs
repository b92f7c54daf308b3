//! CBOR in the profile of Kubernetes: strings are byte strings, keys are sorted, and only values that JSON can express
//! are allowed.

mod decode;
mod encode;
mod head;
mod item;
mod time;
mod unknown;

use crate::Str;
pub use decode::{decode, decode_object, value_count};
pub use encode::{
    encode, encode_item, write_array_head, write_bytes, write_float, write_int, write_map_head,
    write_self_described, write_text, write_watch_event,
};
pub use item::{Form, Item};
pub use unknown::unknown_field_index;

/// The prefix of every document: the head of the tag for self-described CBOR.
pub const SELF_DESCRIBED: [u8; 3] = [0xd9, 0xd9, 0xf7];

/// How deep arrays, maps and tags may nest.
pub const DEPTH_MAX: usize = 10_000;

/// How many items an array may have.
const ARRAY_ITEMS_MAX: u64 = 2_147_483_647;

/// How many pairs a map may have.
const MAP_PAIRS_MAX: u64 = 2_097_152;

/// Why bytes could not be decoded. The message is kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.message)]
pub struct DecodeError(Box<Detail>);

/// Boxed, so that results of the decoder's inner steps stay as small as what they carry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Detail {
    message: Box<str>,
    malformed: bool,
    field: Option<Str>,
}

impl DecodeError {
    /// An error for bytes that are not CBOR, or not of this profile.
    fn malformed(message: impl Into<Box<str>>) -> Self {
        DecodeError(Box::new(Detail { message: message.into(), malformed: true, field: None }))
    }

    /// An error for well-formed CBOR that is not an object.
    fn invalid(message: impl Into<Box<str>>) -> Self {
        DecodeError(Box::new(Detail { message: message.into(), malformed: false, field: None }))
    }

    fn unacceptable(cbor_type: &str, what: &str) -> String {
        format!("cbor: data item of cbor type {cbor_type} is not accepted by protocol: {what}")
    }

    /// The text of the error.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether the bytes as a whole are not well-formed, so that not even the kind of the object can be determined.
    pub fn is_malformed(&self) -> bool {
        self.0.malformed
    }

    /// For a value of the wrong type: the name of the outermost object's member that contains it. If that object is a Go
    /// struct, the message has `Go struct field v1.ConfigMap.data` in place of `Go value`.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }
}

#[cfg(test)]
mod tests;
