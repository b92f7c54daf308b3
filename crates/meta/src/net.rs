//! IP addresses and CIDRs in objects: old fields parse them leniently, new fields accept only the canonical form.

use crate::FieldErrors;
use crate::field::quoted;
use pintle_value::Path;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Larger numbers cannot be part of an address.
const NUMBER_MAX: u32 = 0x00ff_ffff;

/// An address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address as written, bits beyond the prefix included.
    pub address: IpAddr,
    /// How many bits the prefix has.
    pub bits: u8,
}

impl Cidr {
    /// The address without the bits beyond the prefix.
    pub fn network(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(self.bits))).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(self.bits))).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        }
    }

    /// The network as text.
    pub fn network_text(&self) -> String {
        with_bits(self.network(), self.bits)
    }

    /// Whether an address is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let same_family = self.address.is_ipv4() == address.is_ipv4();
        same_family && Cidr { address, bits: self.bits }.network() == self.network()
    }
}

/// Go writes an IPv4-mapped IPv6 address as IPv4.
fn with_bits(address: IpAddr, bits: u8) -> String {
    match mapped_v4(address) {
        Some(v4) => format!("{v4}/{}", bits.saturating_sub(96)),
        None => format!("{address}/{bits}"),
    }
}

fn mapped_v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    }
}

/// An address as Go writes it.
pub fn ip_text(address: IpAddr) -> String {
    mapped_v4(address).map_or_else(|| address.to_string(), |v4| v4.to_string())
}

/// Parses an address as old versions of Go did: leading zeros are allowed.
pub fn parse_ip_sloppy(text: &str) -> Option<IpAddr> {
    match text.find(['.', ':']).and_then(|at| text.as_bytes().get(at)) {
        Some(b'.') => sloppy_v4(text).map(IpAddr::V4),
        Some(_) => sloppy_v6(text).map(IpAddr::V6),
        None => None,
    }
}

/// Parses a CIDR as old versions of Go did.
pub fn parse_cidr_sloppy(text: &str) -> Option<Cidr> {
    let (address, bits) = text.split_once('/')?;
    let address = sloppy_v4(address).map(IpAddr::V4).or_else(|| sloppy_v6(address).map(IpAddr::V6))?;
    let bits = parse_number(bits, 10)?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let bits = u8::try_from(bits).ok().filter(|b| *b <= max)?;
    Some(Cidr { address, bits })
}

fn parse_number(digits: &str, radix: u32) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.chars().try_fold(0u32, |n, c| {
        Some(n.saturating_mul(radix).saturating_add(c.to_digit(radix)?)).filter(|n| *n < NUMBER_MAX)
    })
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let octets: Option<Vec<u8>> =
        text.split('.').map(|part| u8::try_from(parse_number(part, 10)?).ok()).collect();
    match octets?.as_slice() {
        [a, b, c, d] => Some(Ipv4Addr::new(*a, *b, *c, *d)),
        _ => None,
    }
}

/// Parses the groups of one side of `::`; an IPv4 address counts as two.
fn sloppy_groups(text: &str) -> Option<Vec<u16>> {
    let mut out = Vec::new();
    if text.is_empty() {
        return Some(out);
    }
    let parts: Vec<&str> = text.split(':').collect();
    for (i, part) in parts.iter().enumerate() {
        if part.contains('.') && i.saturating_add(1) == parts.len() {
            let [a, b, c, d] = sloppy_v4(part)?.octets();
            out.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
        } else {
            out.push(u16::try_from(parse_number(part, 16)?).ok()?);
        }
    }
    Some(out)
}

fn sloppy_v6(text: &str) -> Option<Ipv6Addr> {
    let groups = match text.split_once("::") {
        None => sloppy_groups(text)?,
        Some((head, tail)) => {
            let (head, tail) = (sloppy_groups(head)?, sloppy_groups(tail)?);
            // `::` stands for at least one group.
            let gap = 8usize.checked_sub(head.len().saturating_add(tail.len())).filter(|g| *g > 0)?;
            [head, vec![0; gap], tail].concat()
        }
    };
    <[u16; 8]>::try_from(groups).ok().map(Ipv6Addr::from)
}

fn parse_ip(path: &Path<'_>, value: &str, errors: &mut FieldErrors) -> Option<IpAddr> {
    let Some(address) = parse_ip_sloppy(value) else {
        errors.invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        return None;
    };
    match value.parse::<IpAddr>() {
        Err(_) => errors.invalid(path, value, "must not have leading 0s"),
        Ok(strict) if mapped_v4(strict).is_some() => {
            errors.invalid(path, value, "must not be an IPv4-mapped IPv6 address");
        }
        Ok(_) => return Some(address),
    }
    None
}

/// Checks an address of an old field. Values that the old object has are accepted.
pub fn validate_ip_legacy(path: &Path<'_>, value: &str, old: &HashSet<&str>, errors: &mut FieldErrors) {
    if !old.contains(value) {
        parse_ip(path, value, errors);
    }
}

/// Checks an address of a new field: only its canonical form is allowed.
pub fn validate_ip(path: &Path<'_>, value: &str, errors: &mut FieldErrors) {
    if let Some(address) = parse_ip(path, value, errors) {
        must_be(path, value, &ip_text(address), errors);
    }
}

fn must_be(path: &Path<'_>, value: &str, canonical: &str, errors: &mut FieldErrors) {
    if value != canonical {
        errors.invalid(path, value, &format!("must be in canonical form ({})", quoted(canonical)));
    }
}

/// Parses a CIDR as Go's `netip` does: no leading zeros.
fn parse_prefix(text: &str) -> Option<Cidr> {
    let (address, bits) = text.rsplit_once('/')?;
    let canonical = bits == "0" || !bits.starts_with('0');
    let address: IpAddr = address.parse().ok()?;
    parse_cidr_sloppy(text).filter(|cidr| canonical && cidr.address == address)
}

fn parse_cidr(path: &Path<'_>, value: &str, errors: &mut FieldErrors) -> Option<Cidr> {
    let Some(cidr) = parse_cidr_sloppy(value) else {
        errors.invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        return None;
    };
    match parse_prefix(value) {
        None => errors.invalid(path, value, "must not have leading 0s in IP or prefix length"),
        Some(prefix) if mapped_v4(prefix.address).is_some() => {
            errors.invalid(path, value, "must not have an IPv4-mapped IPv6 address");
        }
        Some(prefix) if prefix.address != prefix.network() => {
            errors.invalid(path, value, "must not have bits set beyond the prefix length");
        }
        Some(_) => return Some(cidr),
    }
    None
}

/// Checks a CIDR of an old field. Values that the old object has are accepted.
pub fn validate_cidr_legacy(path: &Path<'_>, value: &str, old: &HashSet<&str>, errors: &mut FieldErrors) {
    if !old.contains(value) {
        parse_cidr(path, value, errors);
    }
}

/// Checks a CIDR of a new field: only its canonical form is allowed.
pub fn validate_cidr(path: &Path<'_>, value: &str, errors: &mut FieldErrors) {
    if let Some(cidr) = parse_cidr(path, value, errors) {
        must_be(path, value, &cidr.network_text(), errors);
    }
}

/// Checks an address with the length of its network, in canonical form.
pub fn validate_interface_address(path: &Path<'_>, value: &str, errors: &mut FieldErrors) {
    match parse_cidr_sloppy(value) {
        None => {
            let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
            errors.invalid(path, value, detail);
        }
        Some(cidr) => {
            let bits = if mapped_v4(cidr.address).is_some() && cidr.bits > 32 {
                cidr.bits.saturating_sub(96)
            } else {
                cidr.bits
            };
            must_be(path, value, &format!("{}/{bits}", ip_text(cidr.address)), errors);
        }
    }
}

/// Warnings about an address of an old field that is valid but not canonical.
pub fn ip_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(address) = parse_ip_sloppy(value) else { return Vec::new() };
    let text = quoted(&ip_text(address));
    match value.parse::<IpAddr>() {
        Ok(strict) if mapped_v4(strict).is_none() => match strict {
            IpAddr::V6(v6) if v6.to_string() != value => vec![format!(
                "{path}: IPv6 address {} should be in RFC 5952 canonical format ({text})",
                quoted(value)
            )],
            _ => Vec::new(),
        },
        _ => vec![format!("{path}: non-standard IP address {} is invalid: use {text}", quoted(value))],
    }
}

/// Warnings about a CIDR of an old field that is valid but not canonical.
pub fn cidr_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(cidr) = parse_cidr_sloppy(value) else { return Vec::new() };
    let mut out = Vec::new();
    let (value_text, network) = (quoted(value), quoted(&cidr.network_text()));
    if cidr.address != cidr.network() {
        let bits = if cidr.address.is_ipv4() { 32 } else { 128 };
        let single = quoted(&format!("{}/{bits}", ip_text(cidr.address)));
        out.push(format!(
            "{path}: CIDR value {value_text} is ambiguous in this context (should be {network} or {single}?)"
        ));
    }
    match parse_prefix(value).filter(|p| mapped_v4(p.address).is_none()) {
        None => out.push(format!("{path}: non-standard CIDR value {value_text} is invalid: use {network}")),
        Some(prefix) => {
            let canonical = format!("{}/{}", prefix.address, prefix.bits);
            if out.is_empty() && prefix.address.is_ipv6() && canonical != value {
                let canonical = quoted(&canonical);
                out.push(format!(
                    "{path}: IPv6 CIDR value {value_text} should be in RFC 5952 canonical format ({canonical})"
                ));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(check: impl Fn(&Path<'_>, &mut FieldErrors)) -> String {
        let mut errors = FieldErrors::new();
        check(&Path::of("p"), &mut errors);
        errors.0.iter().map(|e| e.body.clone()).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn addresses() {
        let bad = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        for (text, sloppy, strict) in [
            ("1.2.3.4", "", ""),
            ("::1", "", ""),
            ("01.2.3.4", "", "must not have leading 0s"),
            ("::ffff:1.2.3.4", "", "must not be an IPv4-mapped IPv6 address"),
            ("2001:DB8::1", "", "must be in canonical form (\"2001:db8::1\")"),
            ("00001::", "", "must not have leading 0s"),
            ("1.2.3", bad, bad),
            ("1.2.3.256", bad, bad),
            ("::1%eth0", bad, bad),
            ("1:2:3:4:5:6:7::8", bad, bad),
            ("1::2::3", bad, bad),
            (":1", bad, bad),
            ("", bad, bad),
        ] {
            let expected_error = |detail: &str| {
                if detail.is_empty() { String::new() } else { format!("Invalid value: {text:?}: {detail}") }
            };
            assert_eq!(parse_ip_sloppy(text).is_some(), sloppy.is_empty(), "{text}");
            assert_eq!(said(|p, e| validate_ip(p, text, e)), expected_error(strict), "{text}");
        }
    }

    #[test]
    fn cidrs() {
        let bad = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        for (text, sloppy, strict) in [
            ("10.0.0.0/8", "", ""),
            ("2001:db8::/64", "", ""),
            ("10.0.0.1/8", "", "must not have bits set beyond the prefix length"),
            ("10.0.0.0/08", "", "must not have leading 0s in IP or prefix length"),
            ("::ffff:1.2.3.0/120", "", "must not have an IPv4-mapped IPv6 address"),
            ("2001:DB8::/64", "", "must be in canonical form (\"2001:db8::/64\")"),
            ("10.0.0.0/33", bad, bad),
            ("10.0.0.0", bad, bad),
            ("10.0.0.0/", bad, bad),
        ] {
            let expected_error = |detail: &str| {
                if detail.is_empty() { String::new() } else { format!("Invalid value: {text:?}: {detail}") }
            };
            assert_eq!(parse_cidr_sloppy(text).is_some(), sloppy.is_empty(), "{text}");
            assert_eq!(said(|p, e| validate_cidr(p, text, e)), expected_error(strict), "{text}");
        }
        assert_eq!(parse_cidr_sloppy("::ffff:1.2.3.4/120").unwrap().network_text(), "1.2.3.0/24");
        assert_eq!(parse_cidr_sloppy("1.2.3.4/0").unwrap().network_text(), "0.0.0.0/0");
        assert!(parse_cidr_sloppy("10.0.0.0/8").unwrap().contains("10.9.9.9".parse().unwrap()));
        assert_eq!(said(|p, e| validate_interface_address(p, "10.0.0.1/24", e)), "");
    }

    #[test]
    fn warnings() {
        let path = Path::of("p");
        assert_eq!(
            ip_warnings(&path, "01.2.3.4"),
            ["p: non-standard IP address \"01.2.3.4\" is invalid: use \"1.2.3.4\""]
        );
        assert_eq!(
            ip_warnings(&path, "FE80::1"),
            ["p: IPv6 address \"FE80::1\" should be in RFC 5952 canonical format (\"fe80::1\")"]
        );
        assert_eq!(
            cidr_warnings(&path, "10.0.0.1/8"),
            [
                "p: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"
            ]
        );
        assert!(ip_warnings(&path, "1.2.3.4").is_empty() && cidr_warnings(&path, "10.0.0.0/8").is_empty());
    }
}
