//! Writes a tree as YAML, byte for byte as `sigs.k8s.io/yaml` does.

use super::emit::{Emitter, Style, analyze, choose};
use super::scalar::{self, Scalar};
use crate::quote::go_general;
use crate::{Str, Value, json};
use std::cmp::Ordering;

/// Keys longer than this are written after a `?`.
const SIMPLE_KEY_BYTES_MAX: usize = 128;

/// Writes `value` as one document with a line feed at its end.
pub fn print(value: &Value, out: &mut Vec<u8>) {
    let mut emitter = Emitter::new(out);
    let mut open: Vec<Open<'_>> = Vec::new();
    begin(value, Place::Other, &mut emitter, &mut open);
    while let Some(container) = open.last_mut() {
        let (value, place) = match &mut container.rest {
            Remaining::Items(items) => match items.next() {
                Some(item) => {
                    emitter.write_indent();
                    emitter.write_indicator("-", true, true);
                    (item, Place::Other)
                }
                None => {
                    emitter.indent = container.outer_indent;
                    open.pop();
                    continue;
                }
            },
            Remaining::Members(members) => match members.next() {
                Some((key, value)) => {
                    emitter.write_indent();
                    write_key(key, &mut emitter);
                    (value, Place::MapValue)
                }
                None => {
                    emitter.indent = container.outer_indent;
                    open.pop();
                    continue;
                }
            },
        };
        begin(value, place, &mut emitter, &mut open);
    }
    emitter.write_indent();
}

/// A collection that is not completely written.
struct Open<'a> {
    rest: Remaining<'a>,
    outer_indent: i32,
}

enum Remaining<'a> {
    Items(std::slice::Iter<'a, Value>),
    Members(std::vec::IntoIter<(&'a Str, &'a Value)>),
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    MapValue,
    Other,
}

/// Writes a scalar or an empty collection; of any other collection only the beginning.
fn begin<'a>(value: &'a Value, place: Place, emitter: &mut Emitter<'_>, open: &mut Vec<Open<'a>>) {
    let outer_indent = emitter.indent;
    match value {
        // Raw JSON never holds raw JSON.
        Value::Raw(raw) => begin(raw.value(), place, emitter, open),
        Value::Null => emitter.write_scalar("null", Style::Plain, false),
        Value::Bool(bool) => emitter.write_scalar(if *bool { "true" } else { "false" }, Style::Plain, false),
        Value::Int(int) => emitter.write_scalar(itoa::Buffer::new().format(*int), Style::Plain, false),
        Value::Float(float) => emitter.write_scalar(&float_text(*float), Style::Plain, false),
        Value::String(text) => write_text(text, emitter, false),
        Value::Array(items) if items.is_empty() => {
            emitter.write_indicator("[", true, false);
            emitter.write_indicator("]", false, false);
        }
        Value::Array(items) => {
            // A list under its key is not indented.
            if place != Place::MapValue || emitter.indention {
                emitter.indent = emitter.deeper(0);
            }
            open.push(Open { rest: Remaining::Items(items.iter()), outer_indent });
        }
        Value::Object(map) if map.is_empty() => {
            emitter.write_indicator("{", true, false);
            emitter.write_indicator("}", false, false);
        }
        Value::Object(map) => {
            emitter.indent = emitter.deeper(0);
            let members = in_natural_order(map.iter().collect());
            open.push(Open { rest: Remaining::Members(members.into_iter()), outer_indent });
        }
    }
}

fn write_key(key: &Str, emitter: &mut Emitter<'_>) {
    if key.len() <= SIMPLE_KEY_BYTES_MAX && !analyze(key).multiline {
        write_text(key, emitter, true);
        emitter.write_indicator(":", false, false);
    } else {
        emitter.write_indicator("?", true, true);
        write_text(key, emitter, false);
        emitter.write_indent();
        emitter.write_indicator(":", true, true);
    }
}

fn write_text(text: &str, emitter: &mut Emitter<'_>, simple_key: bool) {
    let wanted = if text.contains('\n') {
        Style::Literal
    } else if scalar::resolve(text) == Scalar::Text && !scalar::is_base60(text) {
        Style::Plain
    } else {
        Style::DoubleQuoted
    };
    let style = choose(wanted, analyze(text), text, simple_key);
    emitter.write_scalar(text, style, simple_key);
}

/// A float as it is after a round trip through JSON: whole numbers that fit 64 bits are integers.
fn float_text(float: f64) -> String {
    if float.is_nan() {
        return ".nan".into();
    }
    if float.is_infinite() {
        return if float > 0.0 { ".inf" } else { "-.inf" }.into();
    }
    let mut text = Vec::new();
    json::write_float(float, &mut text);
    match scalar::resolve(&String::from_utf8_lossy(&text)) {
        Scalar::Int(int) => int.to_string(),
        Scalar::Uint(uint) => uint.to_string(),
        _ => go_general(float),
    }
}

type Member<'a> = (&'a Str, &'a Value);

/// Sorts by keys as go-yaml does. Its order is not total for all keys, on which the sort of the standard library may panic:
/// this one merges sorted runs of doubling length.
fn in_natural_order(mut members: Vec<Member<'_>>) -> Vec<Member<'_>> {
    let mut run = 1;
    while run < members.len() {
        let mut merged = Vec::with_capacity(members.len());
        for runs in members.chunks(run.saturating_mul(2)) {
            let (left, right) = runs.split_at(run.min(runs.len()));
            merge(left, right, &mut merged);
        }
        members = merged;
        run = run.saturating_mul(2);
    }
    members
}

/// Appends the members of two sorted runs in their order.
fn merge<'a>(mut left: &[Member<'a>], mut right: &[Member<'a>], merged: &mut Vec<Member<'a>>) {
    while let (Some((first, rest_of_left)), Some((second, rest_of_right))) =
        (left.split_first(), right.split_first())
    {
        if natural(first.0, second.0) == Ordering::Greater {
            merged.push(*second);
            right = rest_of_right;
        } else {
            merged.push(*first);
            left = rest_of_left;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
}

/// go-yaml's order of keys: letters come after everything else; runs of digits compare as numbers.
fn natural(a: &str, b: &str) -> Ordering {
    let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let common = (0..=common).rev().find(|&at| a.is_char_boundary(at) && b.is_char_boundary(at)).unwrap_or(0);
    let (Some(rest_a), Some(rest_b)) = (a.get(common..), b.get(common..)) else { return a.cmp(b) };
    let (Some(first_a), Some(first_b)) = (rest_a.chars().next(), rest_b.chars().next()) else {
        return rest_a.len().cmp(&rest_b.len());
    };
    match (first_a.is_alphabetic(), first_b.is_alphabetic()) {
        (true, true) => return first_a.cmp(&first_b),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // Inside a number a zero is a digit like any other, at its start it is not.
    let in_number = (first_a == '0' || first_b == '0')
        && a.get(..common)
            .unwrap_or("")
            .bytes()
            .rev()
            .take_while(u8::is_ascii_digit)
            .any(|digit| digit != b'0');
    let (number_a, length_a) = leading_number(rest_a, in_number);
    let (number_b, length_b) = leading_number(rest_b, in_number);
    number_a.cmp(&number_b).then(length_a.cmp(&length_b)).then(first_a.cmp(&first_b))
}

fn leading_number(text: &str, in_number: bool) -> (i64, usize) {
    let digits = text.bytes().take_while(u8::is_ascii_digit);
    digits.fold((i64::from(in_number), 0), |(number, length), digit| {
        (
            number.wrapping_mul(10).wrapping_add(i64::from(digit.saturating_sub(b'0'))),
            length.saturating_add(1),
        )
    })
}
