//! Mutations of inputs: of bytes, of text, and of JSON trees.

use crate::generate::{WORDS, any};
use crate::random::Random;
use pintle_value::{Map, Str, Value};

/// The largest input: a case that is slow at this size is slow because of its form.
pub(crate) const BYTES_MAX: usize = 64 << 10;

/// Tokens that have a meaning in one of the formats.
const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b":",
    b",",
    b"null",
    b"true",
    b"\\u0000",
    b"\\ud800",
    b"1e400",
    b"-0",
    b"0.1",
    b"\n",
    b"\r\n",
    b"\t",
    b"  ",
    b"- ",
    b"? ",
    b"|",
    b">",
    b"|+2\n",
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!binary ",
    b"%YAML 1.1\n",
    b"---\n",
    b"...\n",
    b"#",
    b"'",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\xd9\xd9\xf7",
    b"\x9f",
    b"\xbf",
    b"\x5f",
    b"\xff",
    b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x7b\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"k8s\x00",
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b" in (",
    b" notin ",
    b"!",
    b"==",
    b"!=",
    b",",
    b"f:",
    b"k:{",
    b"v:",
    b"i:",
    b".",
    b"/-",
    b"~0",
    b"~1",
    b"Ki",
    b"E",
    b"e",
    b"m",
    b"n",
    b"+",
    b"9999999999",
];

/// Mutates bytes in a few places.
pub(crate) fn bytes(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        match random.below(9) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = random.next_number() as u8;
                }
            }
            2 | 3 => {
                let token = random.pick(TOKENS).copied().unwrap_or_default();
                input.splice(at..at, token.iter().copied());
            }
            4 => {
                let end = (at + 1 + random.below(8)).min(input.len());
                input.drain(at.min(end)..end);
            }
            5 => {
                let end = (at + 1 + random.below(32)).min(input.len());
                let piece = input.get(at..end).unwrap_or_default().to_vec();
                let to = random.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            6 => {
                let from = random.below(other.len() + 1);
                let end = (from + random.below(64)).min(other.len());
                input.splice(at..at, other.get(from..end).unwrap_or_default().iter().copied());
            }
            7 => input.truncate(at),
            _ if random.one_in(8) => {
                // Repeat a token: deep nesting, long strings, many items.
                let token = random.pick(TOKENS).copied().unwrap_or_default();
                let times = 1 << random.below(14);
                input.splice(at..at, token.repeat(times));
            }
            _ => {}
        }
    }
    input.truncate(BYTES_MAX);
}

/// Mutates a tree in a few places.
pub(crate) fn tree(random: &mut Random, value: &mut Value) {
    for _ in 0..=random.below(3) {
        change_value(random, value, 0);
    }
}

fn change_value(random: &mut Random, value: &mut Value, depth: usize) {
    let descend = depth < 12 && !random.one_in(4);
    match value {
        Value::Object(map) if descend && !map.is_empty() => {
            let at = random.below(map.len());
            if let Some((_, member)) = map.iter_mut().nth(at) {
                change_value(random, member, depth + 1);
            }
        }
        Value::Array(items) if descend && !items.is_empty() => {
            let at = random.below(items.len());
            if let Some(item) = items.get_mut(at) {
                change_value(random, item, depth + 1);
            }
        }
        Value::Object(map) if !random.one_in(3) => change_members(random, map),
        Value::Array(items) if !random.one_in(3) => change_items(random, items),
        other => match random.below(6) {
            0 => *other = Value::Array(vec![std::mem::take(other)]),
            1 => *other = Value::Object([("a", std::mem::take(other))].into_iter().collect()),
            2 if random.one_in(20) => nest(random, other),
            3 => *other = Value::Null,
            _ => *other = any(random, 2),
        },
    }
}

fn change_members(random: &mut Random, map: &mut Map) {
    let key: Option<Str> = map.keys().nth(random.below(map.len())).cloned();
    match random.below(4) {
        0 => {
            map.insert(random.word(WORDS), any(random, 2));
        }
        1 => {
            if let Some(key) = key {
                map.remove(&key);
            }
        }
        2 => {
            let value = key.as_ref().and_then(|key| map.get(key)).cloned().unwrap_or_default();
            map.insert(random.word(WORDS), value);
        }
        _ => {
            if let Some(slot) = key.and_then(|key| map.get_mut(&key).map(|slot| slot as &mut Value)) {
                *slot = any(random, 2);
            }
        }
    }
}

fn change_items(random: &mut Random, items: &mut Vec<Value>) {
    let at = random.below(items.len());
    match random.below(5) {
        0 => items.insert(at, any(random, 2)),
        1 if !items.is_empty() => _ = items.remove(at),
        2 => {
            let copy = items.get(at).cloned();
            items.extend(copy);
        }
        3 => items.reverse(),
        _ if random.one_in(20) => {
            let copy = items.get(at).cloned().unwrap_or_default();
            items.extend(std::iter::repeat_n(copy, 1 << random.below(10)));
        }
        _ => {}
    }
}

/// Nests a value very deeply.
fn nest(random: &mut Random, value: &mut Value) {
    for _ in 0..1 << random.below(14) {
        let inner = std::mem::take(value);
        *value = if random.one_in(2) {
            Value::Array(vec![inner])
        } else {
            [("a", inner)].into_iter().collect::<Map>().into()
        };
    }
}
