//! YAML as `sigs.k8s.io/yaml` reads and writes it: YAML 1.1 scalars, then the rules of JSON.
//!
//! The stages: `source` (characters), `scan` (tokens), `parse` (events), `compose` (nodes), `decode` (values), `convert`
//! (the tree). `convert` rejects values that JSON cannot express.

mod compose;
mod convert;
mod decode;
mod emit;
mod flat;
mod parse;
mod positions;
mod print;
mod scalar;
mod scan;
mod source;

pub use crate::parsed::ParseError;
use crate::{Str, Value};
use compose::Document;
pub use positions::{Position, Positions};
pub use print::print;

/// How deep lists and maps may nest, as in Go.
pub const DEPTH_MAX: usize = 10_000;

/// The largest depth that is decoded on the caller's stack.
const DEPTH_SHALLOW: usize = 200;

/// The stack for [`DEPTH_MAX`] levels of decoding. The kernel allocates only the pages that are touched.
const DEEP_STACK_BYTES: usize = 64 << 20;

/// A decoded document.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The tree. Of equal keys in one map, it has the last one.
    pub value: Value,
    /// The error of strict decoding: all repeated keys in one message.
    pub strict_error: Option<Str>,
}

/// Parses the first document of the input. Input without a document is `null`.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
    if let Some(value) = flat::parse(bytes) {
        return Ok(Parsed { value, strict_error: None });
    }
    parse_document(bytes)
}

fn parse_document(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let Some(document) = compose::compose(bytes)? else {
        return Ok(Parsed { value: Value::Null, strict_error: None });
    };
    match read(&document, DEPTH_SHALLOW) {
        Err(error) if error == too_deep(DEPTH_SHALLOW) => read_deep(&document),
        result => result,
    }
}

fn read(document: &Document, depth_max: usize) -> Result<Parsed, ParseError> {
    let (tree, repeated) = decode::decode(document, depth_max)?;
    let value = convert::to_value(tree)?;
    let strict_error = (!repeated.is_empty())
        .then(|| Str::from(format!("yaml: unmarshal errors:\n  {}", repeated.join("\n  "))));
    Ok(Parsed { value, strict_error })
}

/// Decodes a document that is too deep for the caller's stack on a thread with a large one. Such documents are rare, so
/// the cost of a thread does not matter.
fn read_deep(document: &Document) -> Result<Parsed, ParseError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK_BYTES);
        let reader = thread.spawn_scoped(scope, || read(document, DEPTH_MAX));
        reader.ok().and_then(|reader| reader.join().ok()).unwrap_or_else(|| Err(too_deep(DEPTH_MAX)))
    })
}

fn too_deep(depth_max: usize) -> ParseError {
    failure(format!("exceeded max depth of {depth_max}"))
}

/// An error that has no position of its own.
fn failure(message: impl AsRef<str>) -> ParseError {
    ParseError::new(format!("yaml: {}", message.as_ref()), 0)
}

#[cfg(test)]
mod tests;
