//! `ip()` and the functions of addresses.

pub(super) mod address;

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use pintle_value::quote::go_quoted;

use crate::decl::{Function, Overload, Run};
use crate::library::Library;
use crate::library::operand::{opaque, own, text};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

/// The name of the type.
pub const IP: &str = "net.IP";

/// An address as a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ip(pub(super) IpAddr);

impl Opaque for Ip {
    fn cel_type(&self) -> Type {
        Type::opaque(IP)
    }

    fn equals(&self, other: &Value<'_>) -> Result<bool, EvalError> {
        own::<Ip>(other).map(|other| self.0 == other.0).ok_or(EvalError::NoSuchOverload)
    }

    fn size(&self) -> u64 {
        u64::from(address::width(self.0) / 8)
    }

    fn text(&self) -> String {
        self.0.to_string()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `ip`, `isIP`, `ip.isCanonical`, `string` of an address, and its properties.
pub fn library() -> Library {
    let ip = Type::opaque(IP);
    let is = |name, id, run: Run| Function::new(name, [Overload::method(id, [ip.clone()], Type::Bool, run)]);
    let of_text = |id, result, run: Run| [Overload::function(id, [Type::String], result, run)];
    Library {
        functions: vec![
            Function::new("ip", of_text("string_to_ip", ip.clone(), |args| parse(text(args, 0)?).map(value))),
            Function::new(
                "isIP",
                of_text("is_ip", Type::Bool, |args| Ok(Value::Bool(parse(text(args, 0)?).is_ok()))),
            ),
            Function::new(
                "ip.isCanonical",
                of_text("ip_is_canonical", Type::Bool, |args| {
                    let text = text(args, 0)?;
                    Ok(Value::Bool(parse(text)?.to_string() == text))
                }),
            ),
            Function::new(
                "string",
                [Overload::function("ip_to_string", [ip.clone()], Type::String, |args| {
                    Ok(opaque::<Ip>(args, 0)?.0.to_string().into())
                })],
            ),
            Function::new(
                "family",
                [Overload::method("ip_family", [ip.clone()], Type::Int, |args| {
                    Ok(Value::Int(if opaque::<Ip>(args, 0)?.0.is_ipv4() { 4 } else { 6 }))
                })],
            ),
            is("isUnspecified", "ip_is_unspecified", |args| {
                Ok(opaque::<Ip>(args, 0)?.0.is_unspecified().into())
            }),
            is("isLoopback", "ip_is_loopback", |args| Ok(opaque::<Ip>(args, 0)?.0.is_loopback().into())),
            is("isLinkLocalMulticast", "ip_is_link_local_multicast", |args| {
                Ok(is_link_local_multicast(opaque::<Ip>(args, 0)?.0).into())
            }),
            is("isLinkLocalUnicast", "ip_is_link_local_unicast", |args| {
                Ok(is_link_local_unicast(opaque::<Ip>(args, 0)?.0).into())
            }),
            is("isGlobalUnicast", "ip_is_global_unicast", |args| {
                Ok(is_global_unicast(opaque::<Ip>(args, 0)?.0).into())
            }),
        ],
        types: vec![(IP, ip)],
        ..Library::default()
    }
}

pub(super) fn value<'a>(address: IpAddr) -> Value<'a> {
    Value::Opaque(Arc::new(Ip(address)))
}

/// Parses an address without a zone that is not an IPv4-mapped IPv6 address.
pub(super) fn parse(text: &str) -> Result<IpAddr, EvalError> {
    let quoted = || go_quoted(text);
    let (address, zone) = address::parse(text).map_err(|error| {
        EvalError::Failed(format!(
            "IP Address {} parse error during conversion from string: {error}",
            quoted()
        ))
    })?;
    if zone.is_some() {
        return Err(EvalError::Failed(format!("IP address {} with zone value is not allowed", quoted())));
    }
    if is_mapped(address) {
        return Err(EvalError::Failed(format!("IPv4-mapped IPv6 address {} is not allowed", quoted())));
    }
    Ok(address)
}

/// Returns whether this is an IPv4 address mapped to IPv6: `::ffff:1.2.3.4`.
pub(super) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// As in Go, private addresses count as global unicast.
fn is_global_unicast(address: IpAddr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address)
        || matches!(address, IpAddr::V4(address) if address.is_broadcast()))
}
