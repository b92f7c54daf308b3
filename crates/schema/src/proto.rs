//! Kubernetes protobuf: trees of Go types to and from the bytes that its generated code writes.
//!
//! Members are in the order of their numbers, fields that are not pointers in Go are always written, and maps are sorted
//! by key. A document is an envelope around the message: four magic bytes, then apiVersion, kind and the bytes.

mod decode;
mod encode;
mod envelope;
mod wire;

pub use decode::{PROTO_DEPTH_MAX, decode_message};
pub use encode::encode_message;
pub use envelope::{Envelope, MAGIC, decode, encode, open, write_watch_frame};
pub use wire::ProtoError;
