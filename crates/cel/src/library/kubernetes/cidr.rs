//! `cidr()` and the functions of CIDRs.

use std::sync::Arc;

use pintle_value::quote::go_quoted;

use super::ip::address::Prefix;
use super::ip::{self, Ip};
use crate::decl::declare;
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
}

/// `cidr`, `isCIDR`, `string` of a CIDR, containment and accessors.
pub fn library() -> Library {
    let cidr = Type::opaque(CIDR);
    let functions = declare(
        &[("cidr", cidr.clone()), ("ip", Type::opaque(ip::IP))],
        &[
            ("cidr", "string_to_cidr", "(string) -> cidr", |args| parsed(text(args, 0)?).map(value)),
            ("isCIDR", "is_cidr", "(string) -> bool", |args| Ok(Value::Bool(parse(text(args, 0)?).is_ok()))),
            ("string", "cidr_to_string", "(cidr) -> string", |args| {
                let prefix = opaque::<Prefix>(args, 0)?;
                Ok(format!("{}/{}", prefix.address, prefix.bits).into())
            }),
            ("containsIP", "cidr_contains_ip_string", "cidr.(string) -> bool", |args| {
                // kube-apiserver drops the parse error.
                let ip = ip::parse(text(args, 1)?).map_err(|_| EvalError::NoSuchOverload)?;
                Ok(Value::Bool(opaque::<Prefix>(args, 0)?.contains(ip)))
            }),
            ("containsIP", "cidr_contains_ip_ip", "cidr.(ip) -> bool", |args| {
                Ok(Value::Bool(opaque::<Prefix>(args, 0)?.contains(opaque::<Ip>(args, 1)?.0)))
            }),
            ("containsCIDR", "cidr_contains_cidr_string", "cidr.(string) -> bool", |args| {
                Ok(Value::Bool(opaque::<Prefix>(args, 0)?.contains_prefix(parsed(text(args, 1)?)?)))
            }),
            ("containsCIDR", "cidr_contains_cidr", "cidr.(cidr) -> bool", |args| {
                Ok(Value::Bool(opaque::<Prefix>(args, 0)?.contains_prefix(*opaque::<Prefix>(args, 1)?)))
            }),
            ("ip", "cidr_ip", "cidr.() -> ip", |args| Ok(ip::value(opaque::<Prefix>(args, 0)?.address))),
            ("prefixLength", "cidr_prefix_length", "cidr.() -> int", |args| {
                Ok(Value::Int(i64::from(opaque::<Prefix>(args, 0)?.bits)))
            }),
            ("masked", "cidr_masked", "cidr.() -> cidr", |args| {
                Ok(value(opaque::<Prefix>(args, 0)?.masked()))
            }),
        ],
    );
    Library { functions, types: vec![(CIDR, cidr)], ..Library::default() }
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
