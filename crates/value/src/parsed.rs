//! The results of the codecs: a decoded tree, or why the bytes could not be decoded.

use crate::{Str, Value};

/// A decoded tree and the object keys that were repeated in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The tree. Of equal keys in one object, it has the last one.
    pub value: Value,
    /// Full paths (`spec.containers[0].name`) of repeated keys, in order of appearance, each once and at most
    /// [`DUPLICATES_MAX`] of them.
    pub duplicates: Vec<Str>,
}

/// How many repeated keys are reported, as kube-apiserver caps its strict errors.
pub const DUPLICATES_MAX: usize = 100;

/// Why bytes could not be decoded. The message is kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.message)]
pub struct ParseError(Box<Detail>);

/// Boxed, so that results of the parsers' inner steps stay as small as what they carry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Detail {
    message: Box<str>,
    offset: usize,
}

impl ParseError {
    pub(crate) fn new(message: impl Into<Box<str>>, offset: usize) -> Self {
        ParseError(Box::new(Detail { message: message.into(), offset }))
    }

    /// The text of the error.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// How many bytes had been read when the error was found.
    pub fn offset(&self) -> usize {
        self.0.offset
    }
}
