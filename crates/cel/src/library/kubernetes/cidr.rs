//! `cidr()` and the functions of CIDRs.

use std::any::Any;
use std::sync::Arc;

use pintle_value::quote::go_quoted;

use super::ip::address::Prefix;
use super::ip::{self, Ip};
use crate::decl::{Function, Overload};
use crate::library::Library;
use crate::library::operand::{opaque, own, text};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

/// The name of the type.
pub const CIDR: &str = "net.CIDR";

impl Opaque for Prefix {
    fn cel_type(&self) -> Type {
        Type::opaque(CIDR)
    }

    fn equals(&self, other: &Value<'_>) -> Result<bool, EvalError> {
        own::<Prefix>(other).map(|other| self == other).ok_or(EvalError::NoSuchOverload)
    }

    fn size(&self) -> u64 {
        u64::from(self.bits.div_ceil(8))
    }

    fn text(&self) -> String {
        format!("{}/{}", self.address, self.bits)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `cidr`, `isCIDR`, `string` of a CIDR, containment and accessors.
pub fn library() -> Library {
    let (cidr, ip) = (Type::opaque(CIDR), Type::opaque(ip::IP));
    Library {
        functions: vec![
            Function::new(
                "cidr",
                [Overload::function("string_to_cidr", [Type::String], cidr.clone(), |args| {
                    parsed(text(args, 0)?).map(value)
                })],
            ),
            Function::new(
                "isCIDR",
                [Overload::function("is_cidr", [Type::String], Type::Bool, |args| {
                    Ok(Value::Bool(parse(text(args, 0)?).is_ok()))
                })],
            ),
            Function::new(
                "string",
                [Overload::function("cidr_to_string", [cidr.clone()], Type::String, |args| {
                    let prefix = opaque::<Prefix>(args, 0)?;
                    Ok(format!("{}/{}", prefix.address, prefix.bits).into())
                })],
            ),
            Function::new(
                "containsIP",
                [
                    Overload::method(
                        "cidr_contains_ip_string",
                        [cidr.clone(), Type::String],
                        Type::Bool,
                        |args| {
                            // kube-apiserver drops the parse error.
                            let ip = ip::parse(text(args, 1)?).map_err(|_| EvalError::NoSuchOverload)?;
                            Ok(Value::Bool(opaque::<Prefix>(args, 0)?.contains(ip)))
                        },
                    ),
                    Overload::method("cidr_contains_ip_ip", [cidr.clone(), ip.clone()], Type::Bool, |args| {
                        Ok(Value::Bool(opaque::<Prefix>(args, 0)?.contains(opaque::<Ip>(args, 1)?.0)))
                    }),
                ],
            ),
            Function::new(
                "containsCIDR",
                [
                    Overload::method(
                        "cidr_contains_cidr_string",
                        [cidr.clone(), Type::String],
                        Type::Bool,
                        |args| {
                            Ok(Value::Bool(
                                opaque::<Prefix>(args, 0)?.contains_prefix(parsed(text(args, 1)?)?),
                            ))
                        },
                    ),
                    Overload::method(
                        "cidr_contains_cidr",
                        [cidr.clone(), cidr.clone()],
                        Type::Bool,
                        |args| {
                            Ok(Value::Bool(
                                opaque::<Prefix>(args, 0)?.contains_prefix(*opaque::<Prefix>(args, 1)?),
                            ))
                        },
                    ),
                ],
            ),
            Function::new(
                "ip",
                [Overload::method("cidr_ip", [cidr.clone()], ip, |args| {
                    Ok(ip::value(opaque::<Prefix>(args, 0)?.address))
                })],
            ),
            Function::new(
                "prefixLength",
                [Overload::method("cidr_prefix_length", [cidr.clone()], Type::Int, |args| {
                    Ok(Value::Int(i64::from(opaque::<Prefix>(args, 0)?.bits)))
                })],
            ),
            Function::new(
                "masked",
                [Overload::method("cidr_masked", [cidr.clone()], cidr.clone(), |args| {
                    Ok(value(opaque::<Prefix>(args, 0)?.masked()))
                })],
            ),
        ],
        types: vec![(CIDR, cidr)],
        ..Library::default()
    }
}

fn value<'a>(prefix: Prefix) -> Value<'a> {
    Value::Opaque(Arc::new(prefix))
}

/// Parses a CIDR. As in kube-apiserver, the text of the error is doubled.
fn parsed(text: &str) -> Result<Prefix, EvalError> {
    parse(text).map_err(|error| {
        EvalError::Failed(format!("network address parse error during conversion from string: {error}"))
    })
}

fn parse(text: &str) -> Result<Prefix, String> {
    let prefix = Prefix::parse(text)
        .map_err(|error| format!("network address parse error during conversion from string: {error}"))?;
    if ip::is_mapped(prefix.address) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", go_quoted(text)));
    }
    Ok(prefix)
}
