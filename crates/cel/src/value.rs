//! `Value`: what expressions compute with. Parts of a tree are borrowed, never copied.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::shape::Shape;
use crate::types::Type;

/// A value at run time.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `uint`
    Uint(u64),
    /// `double`
    Double(f64),
    /// `string`
    String(Text<'a>),
    /// `bytes`
    Bytes(Arc<[u8]>),
    /// A moment.
    Timestamp(Timestamp),
    /// Nanoseconds, as Go's `time.Duration`.
    Duration(i64),
    /// `list(T)`
    List(List<'a>),
    /// `map(K, V)`
    Map(Map<'a>),
    /// A value of a type with fields.
    Object(Object<'a>),
    /// A type as a value.
    Type(Type),
    /// `optional_type(T)`
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a library's own type.
    Opaque(Arc<dyn Opaque>),
}

/// Seconds and nanoseconds since the epoch, years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
}

/// Text that is borrowed from the tree or shared.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Of the tree or the expression.
    Borrowed(&'a str),
    /// Computed.
    Shared(Arc<str>),
}

impl Text<'_> {
    /// The text itself.
    pub fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

/// A list: computed, or part of a tree.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Computed.
    Shared(Arc<[Value<'a>]>),
    /// Part of a tree, each element read as its shape says.
    Tree(&'a [pintle_value::Value], &'a Shape),
}

/// A map: computed, or part of a tree.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// Computed; entries in the order in which they were made.
    Shared(Arc<[(Value<'a>, Value<'a>)]>),
    /// Part of a tree, each value read as its shape says.
    Tree(&'a pintle_value::Map, &'a Shape),
}

/// A value of a type with fields: part of a tree, or computed.
#[derive(Clone, Debug)]
pub enum Object<'a> {
    /// Part of a tree.
    Tree(&'a pintle_value::Map, &'a Shape),
    /// Computed by an object literal: the type's name and the fields that were set.
    Shared(Arc<str>, Arc<[(Arc<str>, Value<'a>)]>),
}

/// A library's own type at run time.
pub trait Opaque: Any + fmt::Debug + Send + Sync {
    /// Its type.
    fn cel_type(&self) -> Type;
    /// `==` with another value. Most of cel-go's types answer "no such overload" for a value of another type.
    fn equals(&self, other: &Value<'_>) -> Result<bool, EvalError>;
    /// What the running cost takes for its size; 1 where it has none.
    fn size(&self) -> u64 {
        1
    }
    /// For the library to get its own type back.
    fn as_any(&self) -> &dyn Any;
}

/// What went wrong while evaluating.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// An error of the expression itself, in cel-go's words: `no such key: a`, `divide by zero`.
    #[error("{0}")]
    Failed(String),
    /// No overload takes these arguments.
    #[error("no such overload")]
    NoSuchOverload,
    /// The running cost went over its limit.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
}
