//! `semver()`: versions, their comparison and parts.

mod version;

use std::any::Any;
use std::cmp::Ordering;
use std::sync::Arc;

pub use self::version::Version;
use crate::decl::{Function, Overload, Run};
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

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `semver`, `isSemver`, comparison and parts. Version 1 adds normalization before parsing.
pub fn library(version: u32) -> Library {
    let semver = Type::Object(SEMVER.into());
    let mut read = vec![Overload::function("string_to_semver", [Type::String], semver.clone(), |args| {
        parse(args).map(|version| Value::Opaque(Arc::new(version)))
    })];
    let mut is = vec![Overload::function("is_semver_string", [Type::String], Type::Bool, is_semver)];
    if version >= 1 {
        let params = [Type::String, Type::Bool];
        read.push(Overload::function("string_bool_to_semver", params.clone(), semver.clone(), |args| {
            parse(args).map(|version| Value::Opaque(Arc::new(version)))
        }));
        is.push(Overload::function("is_semver_string_bool", params, Type::Bool, is_semver));
    }
    let compares = |name, id, result, run: Run| {
        Function::new(name, [Overload::method(id, [semver.clone(), semver.clone()], result, run)])
    };
    let gives =
        |name, id, run: Run| Function::new(name, [Overload::method(id, [semver.clone()], Type::Int, run)]);
    Library {
        functions: vec![
            Function::new("semver", read),
            Function::new("isSemver", is),
            compares("isGreaterThan", "semver_is_greater_than", Type::Bool, |args| {
                Ok(Value::Bool(order(args)?.is_gt()))
            }),
            compares("isLessThan", "semver_is_less_than", Type::Bool, |args| {
                Ok(Value::Bool(order(args)?.is_lt()))
            }),
            compares("compareTo", "semver_compare_to", Type::Int, |args| Ok(Value::Int(order(args)? as i64))),
            // As in kube-apiserver, numbers beyond 63 bits become negative.
            gives("major", "semver_major", |args| Ok(Value::Int(opaque::<Version>(args, 0)?.major as i64))),
            gives("minor", "semver_minor", |args| Ok(Value::Int(opaque::<Version>(args, 0)?.minor as i64))),
            gives("patch", "semver_patch", |args| Ok(Value::Int(opaque::<Version>(args, 0)?.patch as i64))),
        ],
        ..Library::default()
    }
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
