//! Encodes the tree as CBOR. Equal trees give equal bytes.

use super::SELF_DESCRIBED;
use crate::{Str, Value};

const POSITIVE_INT: u8 = 0x00;
const NEGATIVE_INT: u8 = 0x20;
const BYTES: u8 = 0x40;
const ARRAY: u8 = 0x80;
const MAP: u8 = 0xa0;
/// The tag of a byte string whose text form is base64.
const BASE64_LATER: u8 = 0xd6;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;
const HALF: u8 = 0xf9;
const SINGLE: u8 = 0xfa;
const DOUBLE: u8 = 0xfb;

/// Writes `value` as a document, with the tag for self-described CBOR.
pub fn encode(value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(&SELF_DESCRIBED);
    encode_item(value, out);
}

/// Writes the tag for self-described CBOR; the item must follow.
pub fn write_self_described(out: &mut Vec<u8>) {
    out.extend_from_slice(&SELF_DESCRIBED);
}

/// The remaining members of a container whose head was written.
enum Remaining<'a> {
    Items(std::slice::Iter<'a, Value>),
    Members(std::vec::IntoIter<&'a (Str, Value)>),
}

/// Writes `value` without the tag for self-described CBOR.
pub fn encode_item(value: &Value, out: &mut Vec<u8>) {
    let mut open: Vec<Remaining<'_>> = Vec::new();
    begin(value, out, &mut open);
    while let Some(rest) = open.last_mut() {
        let next = match rest {
            Remaining::Items(items) => items.next(),
            Remaining::Members(members) => members.next().map(|(key, value)| {
                write_text(key, out);
                value
            }),
        };
        match next {
            Some(value) => begin(value, out, &mut open),
            None => {
                open.pop();
            }
        }
    }
}

fn begin<'a>(value: &'a Value, out: &mut Vec<u8>, open: &mut Vec<Remaining<'a>>) {
    match value {
        // Raw JSON never holds raw JSON.
        Value::Raw(raw) => begin(raw.value(), out, open),
        Value::Null => out.push(NULL),
        Value::Bool(bool) => out.push(if *bool { TRUE } else { FALSE }),
        Value::Int(int) => write_int(*int, out),
        Value::Float(float) => write_float(*float, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            write_array_head(items.len(), out);
            open.push(Remaining::Items(items.iter()));
        }
        Value::Object(map) => {
            write_map_head(map.len(), out);
            // Keys are ordered by their encoded form, and that begins with the length. Among those of one length
            // the order of the map is the right one.
            let mut members: Vec<_> = map.as_slice().iter().collect();
            members.sort_by_key(|(key, _)| key.len());
            open.push(Remaining::Members(members.into_iter()));
        }
    }
}

/// Writes a head with the shortest argument.
fn write_head(major: u8, argument: u64, out: &mut Vec<u8>) {
    match argument {
        0..24 => out.push(major | argument as u8),
        24..=0xff => out.extend_from_slice(&[major | 24, argument as u8]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend_from_slice(&(argument as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend_from_slice(&(argument as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&argument.to_be_bytes());
        }
    }
}

/// Writes the head of an array; its items must follow.
pub fn write_array_head(items: usize, out: &mut Vec<u8>) {
    write_head(ARRAY, items as u64, out);
}

/// Writes the head of a map; its keys and values must follow, shorter keys first.
pub fn write_map_head(pairs: usize, out: &mut Vec<u8>) {
    write_head(MAP, pairs as u64, out);
}

/// Writes text, as a byte string.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    write_head(BYTES, text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Writes bytes that are base64 in JSON: unencoded, with the tag for that.
pub fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(BASE64_LATER);
    write_head(BYTES, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes an integer.
pub fn write_int(int: i64, out: &mut Vec<u8>) {
    if int < 0 {
        write_head(NEGATIVE_INT, !int as u64, out);
    } else {
        write_head(POSITIVE_INT, int as u64, out);
    }
}

/// Writes a float in the fewest bytes that preserve its value. Values that JSON cannot express become `null`.
pub fn write_float(float: f64, out: &mut Vec<u8>) {
    if !float.is_finite() {
        out.push(NULL);
        return;
    }
    let single = float as f32;
    if f64::from(single) != float {
        out.push(DOUBLE);
        out.extend_from_slice(&float.to_be_bytes());
    } else if let Some(half) = to_half(single) {
        out.push(HALF);
        out.extend_from_slice(&half.to_be_bytes());
    } else {
        out.push(SINGLE);
        out.extend_from_slice(&single.to_be_bytes());
    }
}

/// The half-precision bits of a finite number, if they can represent it.
#[expect(clippy::arithmetic_side_effects, reason = "exponents of single floats have eight bits")]
fn to_half(single: f32) -> Option<u16> {
    let bits = single.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let exponent = (bits >> 23 & 0xff) as i32 - 127;
    let fraction = bits & 0x7f_ffff;
    if bits << 1 == 0 {
        return Some(sign);
    }
    match exponent {
        -14..=15 if fraction & 0x1fff == 0 => {
            Some(sign | ((exponent + 15) as u16) << 10 | (fraction >> 13) as u16)
        }
        // Subnormal numbers have no implicit leading bit.
        -24..=-15 => {
            let significand = fraction | 0x80_0000;
            let shift = (-1 - exponent) as u32;
            (significand.trailing_zeros() >= shift).then(|| sign | (significand >> shift) as u16)
        }
        _ => None,
    }
}

/// Writes a watch event as one document of a sequence. `object` is an encoded document.
pub fn write_watch_event(event: &str, object: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&SELF_DESCRIBED);
    write_map_head(2, out);
    write_text("type", out);
    write_text(event, out);
    write_text("object", out);
    out.extend_from_slice(object);
}
