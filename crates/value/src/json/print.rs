//! Writes JSON as Go's `encoding/json` does: escapes safe for HTML, shortest numbers, no trailing newline.

use crate::{Str, Value};
use std::io::Write;

/// Writes `value` without white space.
pub fn print(value: &Value, out: &mut Vec<u8>) {
    write_tree(value, out, None);
}

/// The text of `value` without white space, as bytes.
pub fn bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    print(value, &mut out);
    out
}

/// The text of `value` without white space.
pub fn text(value: &Value) -> String {
    // What is written is UTF-8.
    String::from_utf8(bytes(value)).unwrap_or_default()
}

/// Writes `value` with every member on a line of its own, indented by two blanks for each level.
pub fn print_pretty(value: &Value, out: &mut Vec<u8>) {
    write_tree(value, out, Some("  "));
}

/// The remaining members of a container whose opening bracket was written.
enum Remaining<'a> {
    Items(std::slice::Iter<'a, Value>),
    Members(std::slice::Iter<'a, (Str, Value)>),
}

/// Writes a tree without recursion: trees may be deeper than a thread's stack allows.
fn write_tree(root: &Value, out: &mut Vec<u8>, indent: Option<&str>) {
    let mut open: Vec<Remaining<'_>> = Vec::new();
    begin(root, out, &mut open);
    let mut first = !open.is_empty();
    while let Some(rest) = open.last_mut() {
        let next = match rest {
            Remaining::Items(items) => items.next().map(|item| (None, item)),
            Remaining::Members(members) => members.next().map(|(key, value)| (Some(key), value)),
        };
        let Some((key, value)) = next else {
            let close = if matches!(rest, Remaining::Items(_)) { b']' } else { b'}' };
            open.pop();
            break_line(out, indent, open.len());
            out.push(close);
            first = false;
            continue;
        };
        if !first {
            out.push(b',');
        }
        break_line(out, indent, open.len());
        if let Some(key) = key {
            write_string(key, out);
            out.push(b':');
            if indent.is_some() {
                out.push(b' ');
            }
        }
        let depth = open.len();
        begin(value, out, &mut open);
        first = open.len() > depth;
    }
}

fn break_line(out: &mut Vec<u8>, indent: Option<&str>, depth: usize) {
    if let Some(indent) = indent {
        out.push(b'\n');
        for _ in 0..depth {
            out.extend_from_slice(indent.as_bytes());
        }
    }
}

/// Writes a scalar or an empty container whole; of any other container only its opening bracket.
#[inline]
fn begin<'a>(value: &'a Value, out: &mut Vec<u8>, open: &mut Vec<Remaining<'a>>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(int) => write_int(*int, out),
        Value::Float(float) => write_float(*float, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) if items.is_empty() => out.extend_from_slice(b"[]"),
        Value::Array(items) => {
            out.push(b'[');
            open.push(Remaining::Items(items.iter()));
        }
        Value::Object(map) if map.is_empty() => out.extend_from_slice(b"{}"),
        Value::Object(map) => {
            out.push(b'{');
            open.push(Remaining::Members(map.as_slice().iter()));
        }
        Value::Raw(raw) => raw.print(out),
    }
}

/// Writes an integer.
pub fn write_int(int: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(int).as_bytes());
}

/// Writes a float with the fewest digits that parse to the same value; very small and very large ones with an exponent.
/// Values that JSON cannot express (infinities, not-a-number) become `null`.
pub fn write_float(float: f64, out: &mut Vec<u8>) {
    if !float.is_finite() {
        out.extend_from_slice(b"null");
        return;
    }
    let magnitude = float.abs();
    let written = if magnitude != 0.0 && magnitude < 1e-6 {
        write!(out, "{float:e}")
    } else if magnitude >= 1e21 {
        // Go signs every exponent; Rust only negative ones.
        write!(out, "{}", format!("{float:e}").replace('e', "e+"))
    } else {
        write!(out, "{float}")
    };
    debug_assert!(written.is_ok(), "a vector takes all writes");
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// A word of eight equal bytes.
const fn in_every_byte(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Flags the bytes that may need an escape with their high bit: quotes, backslash, `<`, `>`, `&`, control characters, and
/// everything beyond ASCII, where U+2028 and U+2029 need one.
const fn suspects(word: u64) -> u64 {
    // `"` and `&` differ in bit 2 alone, `<` and `>` in bit 1 alone.
    zero_bytes((word | in_every_byte(0x04)) ^ in_every_byte(b'&'))
        | zero_bytes((word | in_every_byte(0x02)) ^ in_every_byte(b'>'))
        | zero_bytes(word ^ in_every_byte(b'\\'))
        | (word.wrapping_sub(in_every_byte(0x20)) & HIGHS)
        | (word & HIGHS)
}

/// Writes a string in quotes with Go's escapes.
#[inline]
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len().saturating_add(2));
    out.push(b'"');
    let plain = is_plain(bytes);
    if plain {
        out.extend_from_slice(bytes);
    } else {
        write_escaped(bytes, out);
    }
    out.push(b'"');
}

/// Whether a byte of the chunk may need an escape; see `suspects`.
#[inline]
fn has_suspect(chunk: &[u8; 32]) -> bool {
    let is_suspect = |byte: u8| {
        u8::from(byte | 0x04 == b'&')
            | u8::from(byte | 0x02 == b'>')
            | u8::from(byte == b'\\')
            | u8::from(byte < 0x20)
            | u8::from(byte >= 0x80)
    };
    chunk.iter().fold(0, |found, &byte| found | is_suspect(byte)) != 0
}

/// Whether no byte needs an escape. The last word overlaps the one before, so that no byte is checked alone.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    // Long texts, in steps that the compiler turns into a few vector instructions.
    let (chunks, bytes) = bytes.as_chunks::<32>();
    if chunks.iter().any(has_suspect) {
        return false;
    }
    if let Some(last) = bytes.last_chunk::<8>() {
        let all = bytes.as_chunks::<8>().0.iter().all(|chunk| suspects(u64::from_le_bytes(*chunk)) == 0);
        return all && suspects(u64::from_le_bytes(*last)) == 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let halves = u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
        return suspects(halves) == 0;
    }
    bytes.iter().all(|&byte| ESCAPED.get(usize::from(byte)) == Some(&0))
}

/// How ASCII bytes are written: 0 unchanged, `u` as a `\u00XX` escape, anything else as that letter after a backslash.
#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it")]
const ESCAPED: [u8; 128] = {
    let mut table = [0; 128];
    let mut control = 0;
    while control < 0x20 {
        table[control] = b'u';
        control += 1;
    }
    table[0x08] = b'b';
    table[0x0c] = b'f';
    table[b'\n' as usize] = b'n';
    table[b'\r' as usize] = b'r';
    table[b'\t' as usize] = b't';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'<' as usize] = b'u';
    table[b'>' as usize] = b'u';
    table[b'&' as usize] = b'u';
    table
};

/// The digit for the low four bits.
fn hex_digit(byte: u8) -> u8 {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    DIGITS.get(usize::from(byte & 0xf)).copied().unwrap_or(b'0')
}

fn write_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    let mut plain = 0;
    while let Some(&byte) = rest.get(plain) {
        let escape = ESCAPED.get(usize::from(byte)).copied().unwrap_or(0);
        // U+2028 and U+2029 end a line in JavaScript; in UTF-8 they are e2 80 a8 and e2 80 a9.
        let separator = byte == 0xe2
            && matches!(
                rest.get(plain.saturating_add(1)..plain.saturating_add(3)),
                Some([0x80, 0xa8 | 0xa9])
            );
        if escape == 0 && !separator {
            plain = plain.saturating_add(1);
            continue;
        }
        let (run, tail) = rest.split_at(plain);
        out.extend_from_slice(run);
        let taken = if separator {
            let last = tail.get(2).copied().unwrap_or_default();
            out.extend_from_slice(b"\\u202");
            out.push(hex_digit(last));
            3
        } else if escape == b'u' {
            out.extend_from_slice(b"\\u00");
            out.push(hex_digit(byte >> 4));
            out.push(hex_digit(byte));
            1
        } else {
            out.extend_from_slice(&[b'\\', escape]);
            1
        };
        rest = tail.get(taken..).unwrap_or_default();
        plain = 0;
    }
    out.extend_from_slice(rest);
}
