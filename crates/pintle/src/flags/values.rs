//! Values of flags as Go's `strconv`, `time` and `pflag` parse them, with their errors.

use super::table::{Flag, Type};
use clap::builder::ValueParser;
use pintle_meta::duration::GoDuration;
use pintle_meta::field::quoted;
use pintle_meta::strconv::parse_bool;
use std::net::IpAddr;

/// The verbosity, which is an unsigned decimal number of 32 bits.
const VERBOSITY: &str = "v";
/// Numbers that Go reads as unsigned.
const UNSIGNED: [&str; 2] = ["kubelet-port", "kubelet-read-only-port"];
/// Numbers that Go reads with 32 bits.
const SINGLE_PRECISION: [&str; 2] = ["audit-log-batch-throttle-qps", "audit-webhook-batch-throttle-qps"];

const SYNTAX: &str = "invalid syntax";
const RANGE: &str = "value out of range";

/// Parses the value of a flag. What is stored is its canonical form.
pub(super) fn value_parser(flag: &'static Flag) -> ValueParser {
    let name = flag.name;
    match flag.type_ {
        Type::Bool => ValueParser::new(|text: &str| match parse_bool(text) {
            Some(value) => Ok(value.to_string()),
            None => Err(fault("ParseBool", text, SYNTAX)),
        }),
        Type::Int if name == VERBOSITY => ValueParser::new(|text: &str| match unsigned(text, 10) {
            Ok(number) if number <= u64::from(u32::MAX) => Ok(number.to_string()),
            Ok(_) => Err(fault("ParseUint", text, RANGE)),
            Err(why) => Err(fault("ParseUint", text, why)),
        }),
        Type::Int if UNSIGNED.contains(&name) => ValueParser::new(|text: &str| {
            unsigned(text, 0).map(|n| n.to_string()).map_err(|why| fault("ParseUint", text, why))
        }),
        Type::Int => ValueParser::new(|text: &str| {
            signed(text, i64::MAX).map(|n| n.to_string()).map_err(|why| fault("ParseInt", text, why))
        }),
        Type::Float => ValueParser::new(move |text: &str| {
            let parsed = text.parse::<f64>().map_err(|_| fault("ParseFloat", text, SYNTAX))?;
            let is_finite = if SINGLE_PRECISION.contains(&name) {
                text.parse::<f32>().is_ok_and(f32::is_finite)
            } else {
                parsed.is_finite()
            };
            let says_infinite = text.bytes().any(|b| b.eq_ignore_ascii_case(&b'n'));
            if is_finite || says_infinite {
                Ok(text.to_string())
            } else {
                Err(fault("ParseFloat", text, RANGE))
            }
        }),
        Type::Duration => ValueParser::new(|text: &str| match GoDuration::parse(text) {
            Ok(_) => Ok(text.to_string()),
            Err(error) => Err(error.to_string()),
        }),
        Type::Ip => ValueParser::new(|text: &str| {
            let is_address = text.is_empty() || text.parse::<IpAddr>().is_ok();
            if is_address {
                Ok(text.to_string())
            } else {
                Err(format!("failed to parse IP: {}", quoted(text)))
            }
        }),
        Type::IntList => ValueParser::new(|text: &str| {
            let numbers = text.split(',').map(|item| match signed(item, i64::from(i32::MAX)) {
                Ok(number) => Ok(number.to_string()),
                Err(why) => Err(fault("ParseInt", item, why)),
            });
            Ok::<String, String>(numbers.collect::<Result<Vec<String>, String>>()?.join(","))
        }),
        Type::Text | Type::List | Type::Map | Type::Values => ValueParser::string(),
    }
}

fn fault(function: &str, text: &str, why: &str) -> String {
    format!("strconv.{function}: parsing {}: {why}", quoted(text))
}

/// Go's `strconv.ParseInt` with base 0, which accepts `0x1F`, `0o17`, `017`, `0b1` and `1_000`.
fn signed(text: &str, max: i64) -> Result<i64, &'static str> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let size = i128::from(unsigned(digits, 0)?);
    let number = if is_negative { size.saturating_neg() } else { size };
    let lowest = i128::from(max).saturating_neg().saturating_sub(1);
    if number < lowest || number > i128::from(max) {
        return Err(RANGE);
    }
    i64::try_from(number).map_err(|_| RANGE)
}

/// Go's `strconv.ParseUint` with base 10 or 0.
fn unsigned(text: &str, base: u32) -> Result<u64, &'static str> {
    if text.is_empty() {
        return Err(SYNTAX);
    }
    let prefix = text.get(..2).filter(|_| text.len() >= 3).map(str::to_ascii_lowercase);
    let after = |n: usize| text.get(n..).unwrap_or_default();
    let (radix, digits) = match prefix.as_deref() {
        _ if base != 0 => (base, text),
        Some("0x") => (16, after(2)),
        Some("0o") => (8, after(2)),
        Some("0b") => (2, after(2)),
        _ if text.starts_with('0') => (8, after(1)),
        _ => (10, text),
    };
    let mut number: u64 = 0;
    for c in digits.chars() {
        if c == '_' && base == 0 {
            continue;
        }
        let digit = c.to_digit(radix).ok_or(SYNTAX)?;
        number = number.checked_mul(u64::from(radix)).ok_or(RANGE)?;
        number = number.checked_add(u64::from(digit)).ok_or(RANGE)?;
    }
    // Each underscore stands between two digits or follows the prefix.
    let digits = if digits.len() < text.len() { format!("0{digits}") } else { digits.to_string() };
    let is_misplaced = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    if is_misplaced { Err(SYNTAX) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_gos_forms() {
        for (text, want) in [
            ("6443", Ok(6443)),
            ("+5", Ok(5)),
            ("-1", Ok(-1)),
            ("0", Ok(0)),
            ("0x1F", Ok(31)),
            ("0o17", Ok(15)),
            ("017", Ok(15)),
            ("-0b11", Ok(-3)),
            ("1_000", Ok(1000)),
            ("0x_f", Ok(15)),
            ("", Err(SYNTAX)),
            ("-", Err(SYNTAX)),
            ("1__0", Err(SYNTAX)),
            ("_1", Err(SYNTAX)),
            ("08", Err(SYNTAX)),
            ("0x", Err(SYNTAX)),
            ("1.5", Err(SYNTAX)),
            ("9223372036854775807", Ok(i64::MAX)),
            ("-9223372036854775808", Ok(i64::MIN)),
            ("9223372036854775808", Err(RANGE)),
            ("99999999999999999999", Err(RANGE)),
        ] {
            assert_eq!(signed(text, i64::MAX), want, "{text}");
        }
        assert_eq!(signed("2147483648", i64::from(i32::MAX)), Err(RANGE));
        assert_eq!(unsigned("0x1", 10), Err(SYNTAX));
    }
}
