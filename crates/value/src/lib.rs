//! The dynamic tree that every API object is, and its untyped codecs (JSON, YAML, CBOR).
//!
//! Knows nothing of Kubernetes types: what a field means is the business of `schema`.

pub mod map;
pub mod path;
pub mod tree;

pub use map::Map;
pub use path::Path;
pub use tree::{Str, Value};
