//! The dynamic tree that every API object is, and its untyped codecs (JSON, YAML, CBOR).
//!
//! Knows nothing of Kubernetes types: `schema` interprets the fields.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod base64;
pub mod calendar;
pub mod cbor;
pub mod hex;
pub mod json;
pub mod map;
mod memory;
mod parsed;
pub mod path;
pub mod percent;
pub mod quantity;
pub mod quote;
mod raw;
pub mod tree;
mod whole_floats;
pub mod yaml;

#[cfg(test)]
mod tests;

pub use map::{Map, compare_text, is_same_text};
pub use parsed::{DUPLICATES_MAX, ParseError, Parsed};
pub use path::Path;
pub use raw::RawJson;
pub use tree::{Str, Value};
