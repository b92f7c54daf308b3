//! The types of the checker.

use std::fmt;
use std::sync::Arc;

/// A type of the language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Any type; checked at run time.
    Dyn,
    /// A packed message of any type. As `Dyn`, but comprehensions cannot range over it.
    Any,
    /// The type of `null`.
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// `google.protobuf.Duration`
    Duration,
    /// A primitive that may be null: `wrapper(int)`
    Wrapper(Arc<Type>),
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<(Type, Type)>),
    /// A type with fields, which has this name in the `shape::Provider`.
    Object(Arc<str>),
    /// A type without fields that libraries implement: `kubernetes.URL`, `optional_type(T)`.
    Opaque(Arc<str>, Arc<[Type]>),
    /// A parameter of an overload: `T`.
    Param(Arc<str>),
    /// The type of `type(x)`.
    Type(Option<Arc<Type>>),
    /// The type of an expression with an error, which was reported; accepted everywhere.
    Error,
}

/// The name of the optional type.
pub const OPTIONAL: &str = "optional_type";

/// Splits a list of types at the commas that are not within parentheses.
pub(crate) fn split_types(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = text.split(move |c| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

impl Type {
    /// Parses a type: `int`, `list(string)`, `map(K, V)`, `optional(T)`, `type(T)`, a parameter such as `A`, or one of the names in `own`.
    pub fn parse(text: &str, own: &[(&str, Type)]) -> Option<Type> {
        if let Some((_, ty)) = own.iter().find(|(name, _)| *name == text) {
            return Some(ty.clone());
        }
        if let Some((name, params)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            let params: Option<Vec<Type>> =
                split_types(params).map(|param| Type::parse(param, own)).collect();
            return match (name, params?.as_slice()) {
                ("list", [element]) => Some(Type::list(element.clone())),
                ("map", [key, value]) => Some(Type::map(key.clone(), value.clone())),
                ("optional", [ty]) => Some(Type::optional(ty.clone())),
                ("type", [ty]) => Some(Type::Type(Some(Arc::new(ty.clone())))),
                _ => None,
            };
        }
        Some(match text {
            "dyn" => Type::Dyn,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "timestamp" => Type::Timestamp,
            "duration" => Type::Duration,
            param if matches!(param.as_bytes(), [b'A'..=b'Z']) => Type::param(param),
            _ => return None,
        })
    }

    /// The type `list(element)`.
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    /// The type `map(key, value)`.
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    /// The type `optional_type(of)`.
    pub fn optional(ty: Type) -> Type {
        Type::Opaque(OPTIONAL.into(), [ty].into())
    }

    /// A type without fields and parameters that libraries implement.
    pub fn opaque(name: &str) -> Type {
        Type::Opaque(name.into(), [].into())
    }

    /// A type parameter.
    pub fn param(name: &str) -> Type {
        Type::Param(name.into())
    }

    /// The name without parameters, which the type has as a value: `list`, `google.protobuf.Timestamp`.
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Any => "google.protobuf.Any",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Duration => "google.protobuf.Duration",
            Type::Wrapper(ty) => ty.name(),
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Object(name) | Type::Opaque(name, _) | Type::Param(name) => name,
            Type::Type(_) => "type",
            Type::Error => "error",
        }
    }
}

impl Type {
    /// The name that cel-go prints outside of messages of the checker.
    pub fn declared_name(&self) -> String {
        let within = |name: &str, params: &[&Type]| {
            let params: Vec<String> = params.iter().map(|param| param.declared_name()).collect();
            format!("{name}({})", params.join(", "))
        };
        match self {
            Type::Any => "google.protobuf.Any".to_string(),
            Type::Null => "null_type".to_string(),
            Type::Timestamp => "google.protobuf.Timestamp".to_string(),
            Type::Duration => "google.protobuf.Duration".to_string(),
            Type::List(element) => within("list", &[element]),
            Type::Map(ty) => within("map", &[&ty.0, &ty.1]),
            Type::Opaque(name, params) if !params.is_empty() => {
                within(name, &params.iter().collect::<Vec<_>>())
            }
            Type::Type(Some(ty)) => within("type", &[ty]),
            other => other.to_string(),
        }
    }

    /// The name of the type at run time.
    pub fn runtime_name(&self) -> Arc<str> {
        match self {
            Type::Any => "google.protobuf.Any".into(),
            Type::Null => "null_type".into(),
            Type::Timestamp => "google.protobuf.Timestamp".into(),
            Type::Duration => "google.protobuf.Duration".into(),
            Type::Wrapper(ty) => ty.runtime_name(),
            Type::List(_) => "list".into(),
            Type::Map(_) => "map".into(),
            Type::Type(_) => "type".into(),
            Type::Object(name) | Type::Param(name) | Type::Opaque(name, _) => name.clone(),
            simple => simple.to_string().into(),
        }
    }
}

/// The form in messages of the checker.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Any => f.write_str("any"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Duration => f.write_str("duration"),
            Type::Wrapper(ty) => write!(f, "wrapper({ty})"),
            Type::List(ty) => write!(f, "list({ty})"),
            Type::Map(ty) => write!(f, "map({}, {})", ty.0, ty.1),
            Type::Object(name) | Type::Param(name) => f.write_str(name),
            Type::Opaque(name, params) if params.is_empty() => f.write_str(name),
            Type::Opaque(name, params) => {
                let params: Vec<String> = params.iter().map(Type::to_string).collect();
                write!(f, "{name}({})", params.join(", "))
            }
            Type::Type(None) => f.write_str("type"),
            Type::Type(Some(ty)) => write!(f, "type({ty})"),
            Type::Error => f.write_str("!error!"),
        }
    }
}
