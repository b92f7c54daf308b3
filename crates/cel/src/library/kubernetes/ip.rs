//! `ip()` and the functions of addresses.

pub(super) mod address;

use std::net::IpAddr;
use std::sync::Arc;

use pintle_value::quote::go_quoted;

use crate::decl::declare;
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
}

/// `ip`, `isIP`, `ip.isCanonical`, `string` of an address, and its properties.
pub fn library() -> Library {
    let ip = Type::opaque(IP);
    let functions = declare(
        &[("ip", ip.clone())],
        &[
            ("ip", "string_to_ip", "(string) -> ip", |args| parse(text(args, 0)?).map(value)),
            ("isIP", "is_ip", "(string) -> bool", |args| Ok(Value::Bool(parse(text(args, 0)?).is_ok()))),
            ("ip.isCanonical", "ip_is_canonical", "(string) -> bool", |args| {
                let text = text(args, 0)?;
                Ok(Value::Bool(parse(text)?.to_string() == text))
            }),
            ("string", "ip_to_string", "(ip) -> string", |args| Ok(own_address(args)?.to_string().into())),
            ("family", "ip_family", "ip.() -> int", |args| {
                Ok(Value::Int(if own_address(args)?.is_ipv4() { 4 } else { 6 }))
            }),
            ("isUnspecified", "ip_is_unspecified", "ip.() -> bool", |args| {
                Ok(own_address(args)?.is_unspecified().into())
            }),
            ("isLoopback", "ip_is_loopback", "ip.() -> bool", |args| {
                Ok(own_address(args)?.is_loopback().into())
            }),
            ("isLinkLocalMulticast", "ip_is_link_local_multicast", "ip.() -> bool", |args| {
                Ok(is_link_local_multicast(own_address(args)?).into())
            }),
            ("isLinkLocalUnicast", "ip_is_link_local_unicast", "ip.() -> bool", |args| {
                Ok(is_link_local_unicast(own_address(args)?).into())
            }),
            ("isGlobalUnicast", "ip_is_global_unicast", "ip.() -> bool", |args| {
                Ok(is_global_unicast(own_address(args)?).into())
            }),
        ],
    );
    Library { functions, types: vec![(IP, ip)], ..Library::default() }
}

/// The address that is the first argument.
fn own_address(args: &[Value<'_>]) -> Result<IpAddr, EvalError> {
    Ok(opaque::<Ip>(args, 0)?.0)
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
