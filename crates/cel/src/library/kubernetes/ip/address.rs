//! Parses addresses and CIDRs as Go's `net/netip` does, with its messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pintle_value::quote::go_quoted;

/// Parses an address; the zone of `fe80::1%eth0` is returned separately.
pub(in super::super) fn parse(text: &str) -> Result<(IpAddr, Option<&str>), String> {
    match text.bytes().find(|b| matches!(b, b'.' | b':' | b'%')) {
        Some(b'.') => parse_v4(text, text).map(|octets| (IpAddr::V4(Ipv4Addr::from(octets)), None)),
        Some(b':') => parse_v6(text).map(|(address, zone)| (IpAddr::V6(address), zone)),
        Some(_) => Err(parse_error_text(text, "missing IPv6 address", "")),
        None => Err(parse_error_text(text, "unable to parse IP", "")),
    }
}

fn parse_error_text(input: &str, what: &str, at: &str) -> String {
    let input = go_quoted(input);
    if at.is_empty() {
        return format!("ParseAddr({input}): {what}");
    }
    format!("ParseAddr({input}): {what} (at {})", go_quoted(at))
}

/// Parses the four fields of `part`, which is a part of `input`.
fn parse_v4(input: &str, part: &str) -> Result<[u8; 4], String> {
    let mut octets = [0u8; 4];
    let (mut value, mut digits, mut field) = (0u16, 0u32, 0usize);
    let bytes = part.as_bytes();
    for (i, byte) in bytes.iter().enumerate() {
        let at = || part.get(i..).unwrap_or("");
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(parse_error_text(input, "IPv4 field has octet with leading zero", ""));
                }
                value = value.saturating_mul(10).saturating_add(u16::from(byte & 0xf));
                digits = digits.saturating_add(1);
                if value > 255 {
                    return Err(parse_error_text(input, "IPv4 field has value >255", ""));
                }
            }
            b'.' => {
                if digits == 0 || i.saturating_add(1) == bytes.len() {
                    return Err(parse_error_text(input, "IPv4 field must have at least one digit", at()));
                }
                // The last field must not be followed by a dot.
                match octets.get_mut(field).filter(|_| field < 3) {
                    Some(octet) => *octet = value as u8,
                    None => return Err(parse_error_text(input, "IPv4 address too long", "")),
                }
                field = field.saturating_add(1);
                (value, digits) = (0, 0);
            }
            _ => return Err(parse_error_text(input, "unexpected character", at())),
        }
    }
    if field < 3 {
        return Err(parse_error_text(input, "IPv4 address too short", ""));
    }
    octets[3] = value as u8;
    Ok(octets)
}

fn parse_v6(input: &str) -> Result<(Ipv6Addr, Option<&str>), String> {
    let (mut rest, zone) =
        input.split_once('%').map_or((input, None), |(address, zone)| (address, Some(zone)));
    if zone == Some("") {
        return Err(parse_error_text(input, "zone must be a non-empty string", ""));
    }
    let mut octets: Vec<u8> = Vec::with_capacity(16);
    // The position of the zeros of `::`.
    let mut gap = None;
    if let Some(after) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok((Ipv6Addr::UNSPECIFIED, zone));
        }
    }
    while octets.len() < 16 {
        let (field, digits) = hex_field(input, rest)?;
        if rest.as_bytes().get(digits) == Some(&b'.') {
            if gap.is_none() && octets.len() != 12 {
                let why = "embedded IPv4 address must replace the final 2 fields of the address";
                return Err(parse_error_text(input, why, rest));
            }
            if octets.len().saturating_add(4) > 16 {
                let why = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Err(parse_error_text(input, why, rest));
            }
            octets.extend(parse_v4(input, rest)?);
            rest = "";
            break;
        }
        octets.extend(field.to_be_bytes());
        rest = rest.get(digits..).unwrap_or("");
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(parse_error_text(input, "unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Err(parse_error_text(input, "colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return Err(parse_error_text(input, "multiple :: in address", rest));
            }
            gap = Some(octets.len());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(parse_error_text(input, "trailing garbage after address", rest));
    }
    Ok((expand_gap(input, octets, gap)?, zone))
}

/// The address of these octets, with the zeros of `::` at the position `gap`.
fn expand_gap(input: &str, mut octets: Vec<u8>, gap: Option<usize>) -> Result<Ipv6Addr, String> {
    let missing = 16_usize.saturating_sub(octets.len());
    match gap {
        None if missing > 0 => return Err(parse_error_text(input, "address string too short", "")),
        Some(_) if missing == 0 => {
            return Err(parse_error_text(input, "the :: must expand to at least one field of zeros", ""));
        }
        None => {}
        Some(at) => {
            octets.splice(at..at, std::iter::repeat_n(0, missing));
        }
    }
    let octets: [u8; 16] = octets.try_into().unwrap_or_default();
    Ok(Ipv6Addr::from(octets))
}

/// Parses one field; also returns its number of digits.
fn hex_field(input: &str, rest: &str) -> Result<(u16, usize), String> {
    let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    if digits > 4 {
        return Err(parse_error_text(input, "each group must have 4 or less digits", rest));
    }
    let text = rest.get(..digits).unwrap_or("");
    let field = u16::from_str_radix(text, 16).map_err(|_| {
        parse_error_text(input, "each colon-separated field must have at least one digit", rest)
    })?;
    Ok((field, digits))
}

/// An address with the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Prefix {
    pub(in super::super) address: IpAddr,
    pub(in super::super) bits: u8,
}

impl Prefix {
    pub(in super::super) fn parse(text: &str) -> Result<Prefix, String> {
        let refuse = |what: &str| format!("netip.ParsePrefix({}): {what}", go_quoted(text));
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| refuse("no '/'"))?;
        let (address, zone) = parse(address).map_err(|error| refuse(&error))?;
        if zone.is_some() {
            return Err(refuse("IPv6 zones cannot be present in a prefix"));
        }
        let bad = || refuse(&format!("bad bits after slash: {}", go_quoted(bits)));
        // Neither signs nor leading zeros.
        if bits.is_empty()
            || !bits.bytes().all(|b| b.is_ascii_digit())
            || (bits.len() > 1 && bits.starts_with('0'))
        {
            return Err(bad());
        }
        let bits: i64 = bits.parse().map_err(|_| bad())?;
        match u8::try_from(bits) {
            Ok(bits) if bits <= width(address) => Ok(Prefix { address, bits }),
            _ => Err(refuse("prefix length out of range")),
        }
    }

    /// The network address as a number.
    fn network(self, bits: u8) -> u128 {
        let address = match self.address {
            IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
            IpAddr::V6(address) => u128::from(address),
        };
        address & u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(bits))).unwrap_or(0)
    }

    #[must_use]
    pub(in super::super) fn masked(self) -> Prefix {
        let network = self.network(self.bits);
        let address = match self.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from((network >> 96) as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(network)),
        };
        Prefix { address, bits: self.bits }
    }

    pub(in super::super) fn contains(self, address: IpAddr) -> bool {
        let other = Prefix { address, bits: self.bits };
        width(address) == width(self.address) && self.network(self.bits) == other.network(self.bits)
    }

    /// Whether all of `other` is contained in this: they overlap, and this one is wider.
    pub(in super::super) fn contains_prefix(self, other: Prefix) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

/// Bits of an address of this family.
pub(in super::super) fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_texts_of_go() {
        for (text, expected) in [
            ("", r#"ParseAddr(""): unable to parse IP"#),
            ("hello", r#"ParseAddr("hello"): unable to parse IP"#),
            ("%eth0", r#"ParseAddr("%eth0"): missing IPv6 address"#),
            ("1.2.3", r#"ParseAddr("1.2.3"): IPv4 address too short"#),
            ("1.2.3.4.5", r#"ParseAddr("1.2.3.4.5"): IPv4 address too long"#),
            ("1.2.3.256", r#"ParseAddr("1.2.3.256"): IPv4 field has value >255"#),
            ("01.2.3.4", r#"ParseAddr("01.2.3.4"): IPv4 field has octet with leading zero"#),
            ("1..2.3", r#"ParseAddr("1..2.3"): IPv4 field must have at least one digit (at ".2.3")"#),
            (".1.2.3", r#"ParseAddr(".1.2.3"): IPv4 field must have at least one digit (at ".1.2.3")"#),
            ("1.2.3.", r#"ParseAddr("1.2.3."): IPv4 field must have at least one digit (at ".")"#),
            ("1.2.3.a", r#"ParseAddr("1.2.3.a"): unexpected character (at "a")"#),
            ("fe80::1%", r#"ParseAddr("fe80::1%"): zone must be a non-empty string"#),
            ("12345::", r#"ParseAddr("12345::"): each group must have 4 or less digits (at "12345::")"#),
            ("1::2::3", r#"ParseAddr("1::2::3"): multiple :: in address (at ":3")"#),
            ("1:2", r#"ParseAddr("1:2"): address string too short"#),
            (
                "1:2:3:4:5:6:7:8:9",
                r#"ParseAddr("1:2:3:4:5:6:7:8:9"): trailing garbage after address (at "9")"#,
            ),
            (
                "1:2:3:4:5:6:7::8",
                r#"ParseAddr("1:2:3:4:5:6:7::8"): the :: must expand to at least one field of zeros"#,
            ),
            (
                "2001:db8:::68",
                r#"ParseAddr("2001:db8:::68"): each colon-separated field must have at least one digit (at ":68")"#,
            ),
            ("1:g", r#"ParseAddr("1:g"): each colon-separated field must have at least one digit (at "g")"#),
            ("1g:2", r#"ParseAddr("1g:2"): unexpected character, want colon (at "g:2")"#),
            ("1:", r#"ParseAddr("1:"): colon must be followed by more characters (at ":")"#),
        ] {
            assert_eq!(parse(text), Err(expected.to_owned()));
        }
    }

    #[test]
    fn addresses_are_read() {
        for (text, expected) in [
            ("0.0.0.0", "0.0.0.0"),
            ("192.168.0.1", "192.168.0.1"),
            ("::", "::"),
            ("2001:DB8::0:1", "2001:db8::1"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("1::", "1::"),
            ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ] {
            assert_eq!(parse(text).map(|(address, _)| address.to_string()), Ok(expected.to_owned()));
        }
        assert_eq!(parse("fe80::1%eth0").map(|(_, zone)| zone), Ok(Some("eth0")));
    }

    #[test]
    fn prefixes_have_no_signs_and_no_leading_zeros() {
        for (text, expected) in [
            ("1.2.3.4", Some("no '/'")),
            ("1.2.3.4/", Some("bad bits after slash: \"\"")),
            ("1.2.3.4/-1", Some("bad bits after slash: \"-1\"")),
            ("1.2.3.4/08", Some("bad bits after slash: \"08\"")),
            ("1.2.3.4/33", Some("prefix length out of range")),
            ("::/129", Some("prefix length out of range")),
            ("fe80::1%eth0/64", Some("IPv6 zones cannot be present in a prefix")),
            ("/24", Some("ParseAddr(\"\"): unable to parse IP")),
            ("0.0.0.0/0", None),
            ("::/0", None),
            ("1.2.3.4/32", None),
        ] {
            let expected = expected.map(|what| format!("netip.ParsePrefix({}): {what}", go_quoted(text)));
            assert_eq!(Prefix::parse(text).err(), expected);
        }
    }
}
