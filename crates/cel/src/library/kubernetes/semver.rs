//! `semver()`: versions, their comparison and parts.

mod version;

use std::cmp::Ordering;
use std::sync::Arc;

pub use self::version::Version;
use crate::decl::{Row, declare};
use crate::library::Library;
use crate::library::operand::{bool_operand, opaque, own, text};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

/// The name of the type.
pub const SEMVER: &str = "kubernetes.Semver";

impl Opaque for Version {
    fn cel_type(&self) -> Type {
        Type::Object(SEMVER.into())
    }

    fn equals(&self, other: &Value<'_>) -> Result<bool, EvalError> {
        own::<Version>(other).map(|other| self == other).ok_or(EvalError::NoSuchOverload)
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// `semver`, `isSemver`, comparison and parts. Version 1 adds normalization before parsing.
pub fn library(version: u32) -> Library {
    let own = [("semver", Type::Object(SEMVER.into()))];
    let mut functions = declare(&own, &FUNCTIONS);
    if version >= 1 {
        functions.extend(declare(&own, &NORMALIZING));
    }
    Library { functions, ..Library::default() }
}

const NORMALIZING: [Row; 2] = [
    ("semver", "string_bool_to_semver", "(string, bool) -> semver", semver),
    ("isSemver", "is_semver_string_bool", "(string, bool) -> bool", is_semver),
];
const FUNCTIONS: [Row; 8] = [
    ("semver", "string_to_semver", "(string) -> semver", semver),
    ("isSemver", "is_semver_string", "(string) -> bool", is_semver),
    ("isGreaterThan", "semver_is_greater_than", "semver.(semver) -> bool", |args| {
        Ok(Value::Bool(order(args)?.is_gt()))
    }),
    ("isLessThan", "semver_is_less_than", "semver.(semver) -> bool", |args| {
        Ok(Value::Bool(order(args)?.is_lt()))
    }),
    ("compareTo", "semver_compare_to", "semver.(semver) -> int", |args| Ok(Value::Int(order(args)? as i64))),
    // As in kube-apiserver, numbers beyond 63 bits become negative.
    ("major", "semver_major", "semver.() -> int", |args| {
        Ok(Value::Int(opaque::<Version>(args, 0)?.major as i64))
    }),
    ("minor", "semver_minor", "semver.() -> int", |args| {
        Ok(Value::Int(opaque::<Version>(args, 0)?.minor as i64))
    }),
    ("patch", "semver_patch", "semver.() -> int", |args| {
        Ok(Value::Int(opaque::<Version>(args, 0)?.patch as i64))
    }),
];

fn semver<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    parse(args).map(|version| Value::Opaque(Arc::new(version)))
}

fn parse(args: &[Value<'_>]) -> Result<Version, EvalError> {
    let text = text(args, 0)?;
    let normalizes = args.len() > 1 && bool_operand(args, 1)?;
    let version = if normalizes { Version::parse_normalized(text) } else { Version::parse(text) };
    version.map_err(EvalError::Failed)
}

fn is_semver<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match parse(args) {
        Err(EvalError::NoSuchOverload) => Err(EvalError::NoSuchOverload),
        parsed => Ok(Value::Bool(parsed.is_ok())),
    }
}

fn order(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    Ok(opaque::<Version>(args, 0)?.cmp(opaque::<Version>(args, 1)?))
}
