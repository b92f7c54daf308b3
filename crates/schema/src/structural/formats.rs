//! Formats of texts: dates, addresses, identifiers.

use pintle_cel::regexp::is_match;
use pintle_meta::duration::GoDuration;
use pintle_meta::{names, net};
use pintle_value::base64;

/// The format of a value of this type if it is one that is checked; "" otherwise.
pub(super) fn known<'a>(type_name: &str, format: &'a str) -> &'a str {
    let fine = match type_name {
        "" | "string" | "integer,string" => is_for_texts(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if fine { format } else { "" }
}

/// Formats of strings, without their dashes.
const TEXTS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether a format applies to strings.
pub fn is_for_texts(format: &str) -> bool {
    !format.is_empty() && TEXTS.contains(&format.replace('-', "").as_str())
}

const BASE64: &str =
    "^(?:[A-Za-z0-9+\\/]{4})*(?:[A-Za-z0-9+\\/]{2}==|[A-Za-z0-9+\\/]{3}=|[A-Za-z0-9+\\/]{4})$";
const TIME: &str = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
const RGB: &str = r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";
const CREDIT_CARD: &str = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}|6[27][0-9]{14})$";

/// Whether a text has the format.
pub(super) fn fits(format: &str, text: &str) -> bool {
    let uuid = |version: &str, variant: &str| {
        let pattern = format!("(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}-?{variant}-?[0-9a-f]{{12}}$");
        is_match(&pattern, text)
    };
    let any = "[0-9a-f]{4}";
    match format.replace('-', "").as_str() {
        "bsonobjectid" => is_match("^[0-9a-fA-F]{24}$", text),
        "byte" => is_match(BASE64, text) && base64::decode(text).is_ok(),
        "cidr" => net::parse_cidr_sloppy(text).is_some(),
        "creditcard" => is_credit_card(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "email" => is_email(text),
        "hexcolor" => is_match("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && net::parse_ip_sloppy(text).is_some(),
        "ipv6" => text.contains(':') && net::parse_ip_sloppy(text).is_some(),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8slongname" => names::is_dns1123_subdomain(text).is_empty(),
        "k8sshortname" => names::is_dns1123_label(text).is_empty(),
        "mac" => is_mac(text),
        "rgbcolor" => is_match(RGB, text),
        "ssn" => is_match(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$", text),
        "uri" => is_request_uri(text),
        "uuid" => uuid(any, any),
        "uuid3" => uuid("3[0-9a-f]{3}", any),
        "uuid4" => uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
        "uuid5" => uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
        _ => true,
    }
}

/// A single word, or labels before a top-level domain of letters. Letters and symbols of all scripts are allowed.
fn is_hostname(text: &str) -> bool {
    let word = |part: &str| is_match(r"^[a-zA-Z0-9\p{S}\p{L}]+$", part);
    let length = |part: &str| part.chars().count();
    let single = || {
        let mut chars = text.chars();
        let first = chars.next().map(String::from).unwrap_or_default();
        let rest = chars.as_str();
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        word(&first) && (rest.is_empty() || word(rest)) && length(rest) <= 62
    };
    let label = |part: &str| {
        let inner = part.replace('-', "");
        word(&inner) && length(part) <= 63 && !part.starts_with('-') && !part.ends_with('-')
    };
    let domain = || {
        text.rsplit_once('.').is_some_and(|(labels, top)| {
            is_match(r"^[a-zA-Z\p{L}]{2,63}$", top) && labels.split('.').all(label)
        })
    };
    (single() || domain()) && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
}

fn is_date(text: &str) -> bool {
    if !is_match("^[0-9]{4}-[0-9]{2}-[0-9]{2}$", text) {
        return false;
    }
    pintle_meta::Timestamp::parse(&format!("{text}T00:00:00Z")).is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let part = |at: usize| time.get(at..at.saturating_add(2)).unwrap_or("99");
    is_date(date) && is_match(TIME, time) && part(0) <= "23" && part(3) <= "59" && part(6) <= "59"
}

/// Go's durations, and numbers followed by words that begin like a unit.
fn is_duration(text: &str) -> bool {
    if GoDuration::parse(text).is_ok() {
        return true;
    }
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let is_unit = |word: &str| {
        UNITS
            .iter()
            .any(|names| names.contains(&word) || names.last().is_some_and(|last| word.starts_with(last)))
    };
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = rest.get(at..).unwrap_or("").trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if !word.is_empty() && is_unit(&word.to_lowercase()) {
            return true;
        }
        rest = after;
    }
    false
}

/// Returns whether the text is an address: `me@example.com` or `Me <me@example.com>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.split_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii();
    let dotted = |part: &str| {
        !part.is_empty() && part.split('.').all(|atoms| !atoms.is_empty() && atoms.chars().all(atom))
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (quoted || dotted(local)) && (literal || dotted(domain))
}

/// An absolute URL, or a path, as in the first line of an HTTP request.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control() || c == ' ') {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return true;
    }
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn is_mac(text: &str) -> bool {
    let hex = |parts: Vec<&str>, width: usize, counts: &[usize]| {
        counts.contains(&parts.len())
            && parts.iter().all(|p| p.len() == width && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    hex(text.split(':').collect(), 2, &[6, 8, 20])
        || hex(text.split('-').collect(), 2, &[6, 8, 20])
        || hex(text.split('.').collect(), 4, &[3, 4, 10])
}

fn is_isbn10(text: &str) -> bool {
    let text: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    if !is_match("^(?:[0-9]{9}X|[0-9]{10})$", &text) {
        return false;
    }
    let digit = |b: u8| if b == b'X' { 10 } else { u32::from(b & 0xf) };
    let sum: u32 = text.bytes().zip(1u32..).map(|(b, at)| at.saturating_mul(digit(b))).sum();
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let text: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    if !is_match("^(?:[0-9]{13})$", &text) {
        return false;
    }
    let sum: u32 = text
        .bytes()
        .enumerate()
        .map(|(at, b)| u32::from(b & 0xf).saturating_mul(if at % 2 == 0 { 1 } else { 3 }))
        .sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !is_match(CREDIT_CARD, &digits) {
        return false;
    }
    // The digit sum of twice the number (Luhn's algorithm).
    let doubled = |n: u32| match n.saturating_mul(2) {
        two_digits @ 10.. => two_digits.saturating_sub(9),
        one_digit => one_digit,
    };
    let value =
        |(at, b): (usize, u8)| if at % 2 == 1 { doubled(u32::from(b & 0xf)) } else { u32::from(b & 0xf) };
    digits.bytes().rev().enumerate().map(value).sum::<u32>() % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_formats() {
        let cases = [
            ("date", "2024-02-29", true),
            ("date", "2023-02-29", false),
            ("date-time", "2024-01-02T03:04:05.678+02:00", true),
            ("date-time", "2024-01-02T03:04:05", false),
            ("duration", "3 weeks", true),
            ("duration", "P1D", true),
            ("duration", "10", false),
            ("email", "Me <me@example.com>", true),
            ("email", "example.com", false),
            ("uri", "x/y", false),
            ("uri", "/x/y", true),
            ("byte", "", false),
            ("byte", "aGk=", true),
            ("isbn10", "0321751043", true),
            ("isbn13", "978-0321751041", true),
            ("mac", "01:02:03", false),
            ("mac", "01:02:03:04:05:06", true),
            ("hostname", "a_b", false),
            ("hostname", "a.example.com", true),
            ("hostname", "a-b", true),
            ("hostname", "-a.example.com", false),
            ("uuid4", "123e4567-e89b-12d3-a456-426614174000", false),
        ];
        for (format, text, expected) in cases {
            assert_eq!(fits(format, text), expected, "{format} {text}");
        }
    }
}
