//! Trees of Go types: converts an untyped tree to the canonical one of its type, with the errors of Go's JSON decoder.
//!
//! A canonical tree has what `json.Marshal` of the Go value would write: no unknown fields, no empty `omitempty` fields,
//! zero values of fields that are always written, quantities and times in their canonical form.

mod align;
mod cbor;
mod decode;
mod document;
mod encode;
mod errors;
mod raw;
mod scalar;
mod zero;

pub use align::align_empties;
pub use cbor::{encode_cbor, restore_bytes};
pub use decode::{
    Empties, Remaining, TYPED_DEPTH_MAX, check_value, decode, decode_written, normalize, normalize_with,
};
pub use document::{BodyError, Decoded, decode_json, decode_parsed};
pub use encode::{Slot, encode_json, encode_stored};
pub use errors::{Mismatch, STRICT_ERRORS_MAX, Strict, TypeError};
pub use raw::{compact_raw, drop_raw, fold_raw, restore_raw};
pub(crate) use scalar::float_value;
pub use zero::zero;

#[cfg(test)]
mod tests;
