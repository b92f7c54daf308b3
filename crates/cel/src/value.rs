//! `Value`: the values of expressions. Parts of a tree are borrowed, never copied.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

pub use crate::time::Timestamp;
use crate::types::{OPTIONAL, Type};

mod equal;
mod list;
mod map;
mod object;
mod order;
mod read;
mod text;

pub use list::{Joined, Known, List};
pub use map::{Entries, Map};
pub use object::Object;
pub(crate) use read::ANY;
pub use text::Text;

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
    /// A timestamp.
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

/// A library's own type at run time.
pub trait Opaque: Any + fmt::Debug + Send + Sync {
    /// The value's type.
    fn cel_type(&self) -> Type;
    /// `==` with another value. Most of cel-go's types return "no such overload" for a value of another type.
    fn equals(&self, other: &Value<'_>) -> Result<bool, EvalError>;
    /// The value's size for the running cost; 1 if it has none.
    fn size(&self) -> u64 {
        1
    }
    /// Go's `%v` of the value that cel-go has for it.
    fn text(&self) -> String {
        format!("{self:?}")
    }
}

/// Why an evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// An error of the expression itself, with cel-go's message: `no such key: a`, `division by zero`.
    #[error("{0}")]
    Failed(String),
    /// No overload accepts these arguments.
    #[error("no such overload")]
    NoSuchOverload,
    /// The running cost exceeded its limit.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    /// An error that makes kube-apiserver panic. It ends the evaluation, even within `||`.
    #[error("internal error: {0}")]
    Panic(&'static str),
}

impl EvalError {
    /// An error of the expression itself.
    pub fn failed(message: impl Into<String>) -> EvalError {
        EvalError::Failed(message.into())
    }
}

impl<'a> Value<'a> {
    /// A computed list.
    pub fn list(elements: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::Shared(elements.into()))
    }

    /// A computed map; of two entries with the same key, the later one wins.
    pub fn map(entries: Vec<(Value<'a>, Value<'a>)>) -> Value<'a> {
        Value::Map(Map::of(entries))
    }

    /// The value of `optional.of(value)`.
    pub fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Arc::new(value)))
    }

    /// The type that `type(x)` returns: without the types of elements, keys and values.
    pub fn cel_type(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Duration(_) => Type::Duration,
            Value::List(_) => Type::list(Type::Dyn),
            // An object of a tree is a map at run time, as in kube-apiserver.
            Value::Map(_) | Value::Object(Object::Tree(..)) => Type::map(Type::Dyn, Type::Dyn),
            Value::Object(Object::Shared(name, _) | Object::Input(_, name)) => Type::Object(name.clone()),
            Value::Object(Object::Lazy(_, name)) => Type::Object((*name).into()),
            Value::Type(_) => Type::Type(None),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Opaque(opaque) => opaque.cel_type(),
        }
    }

    /// The name of the type at run time, in errors and in `type(x) == y`.
    pub fn type_name(&self) -> Arc<str> {
        match self {
            Value::Null => "null_type".into(),
            Value::Optional(_) => OPTIONAL.into(),
            value => value.cel_type().runtime_name(),
        }
    }

    /// The number of elements, entries, code points or bytes; 1 for a value without a size.
    pub fn size(&self) -> u64 {
        match self {
            Value::String(text) => text.size(),
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Object(object) => object.len() as u64,
            Value::Optional(Some(value)) => value.size(),
            Value::Opaque(opaque) => opaque.size(),
            _ => 1,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::String(Text::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::String(Text::Shared(text.into()))
    }
}

impl From<Arc<str>> for Value<'_> {
    fn from(text: Arc<str>) -> Self {
        Value::String(Text::Shared(text))
    }
}

impl From<bool> for Value<'_> {
    fn from(bool: bool) -> Self {
        Value::Bool(bool)
    }
}

impl From<i64> for Value<'_> {
    fn from(int: i64) -> Self {
        Value::Int(int)
    }
}

impl From<f64> for Value<'_> {
    fn from(double: f64) -> Self {
        Value::Double(double)
    }
}
