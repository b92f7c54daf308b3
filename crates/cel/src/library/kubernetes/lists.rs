//! Lists: `isSorted`, sum, minimum and maximum, and the position of an element.

use std::cmp::Ordering;

use crate::decl::{Row, declare};
use crate::library::Library;
use crate::library::operand::{Outcome, list, value};
use crate::value::{EvalError, Value};

/// `isSorted`, `sum`, `min`, `max`, `indexOf` and `lastIndexOf`.
pub fn library() -> Library {
    Library { functions: declare(&[], &FUNCTIONS), ..Library::default() }
}

const FUNCTIONS: [Row; 30] = [
    ("isSorted", "list_int_is_sorted_bool", "list(int).() -> bool", is_sorted),
    ("isSorted", "list_uint_is_sorted_bool", "list(uint).() -> bool", is_sorted),
    ("isSorted", "list_double_is_sorted_bool", "list(double).() -> bool", is_sorted),
    ("isSorted", "list_bool_is_sorted_bool", "list(bool).() -> bool", is_sorted),
    ("isSorted", "list_duration_is_sorted_bool", "list(duration).() -> bool", is_sorted),
    ("isSorted", "list_timestamp_is_sorted_bool", "list(timestamp).() -> bool", is_sorted),
    ("isSorted", "list_string_is_sorted_bool", "list(string).() -> bool", is_sorted),
    ("isSorted", "list_bytes_is_sorted_bool", "list(bytes).() -> bool", is_sorted),
    ("sum", "list_int_sum_int", "list(int).() -> int", |args| sum(args, Value::Int(0))),
    ("sum", "list_uint_sum_uint", "list(uint).() -> uint", |args| sum(args, Value::Uint(0))),
    ("sum", "list_double_sum_double", "list(double).() -> double", |args| sum(args, Value::Double(0.0))),
    ("sum", "list_duration_sum_duration", "list(duration).() -> duration", |args| {
        sum(args, Value::Duration(0))
    }),
    ("max", "list_int_max_int", "list(int).() -> int", greatest),
    ("max", "list_uint_max_uint", "list(uint).() -> uint", greatest),
    ("max", "list_double_max_double", "list(double).() -> double", greatest),
    ("max", "list_bool_max_bool", "list(bool).() -> bool", greatest),
    ("max", "list_duration_max_duration", "list(duration).() -> duration", greatest),
    ("max", "list_timestamp_max_timestamp", "list(timestamp).() -> timestamp", greatest),
    ("max", "list_string_max_string", "list(string).() -> string", greatest),
    ("max", "list_bytes_max_bytes", "list(bytes).() -> bytes", greatest),
    ("min", "list_int_min_int", "list(int).() -> int", least),
    ("min", "list_uint_min_uint", "list(uint).() -> uint", least),
    ("min", "list_double_min_double", "list(double).() -> double", least),
    ("min", "list_bool_min_bool", "list(bool).() -> bool", least),
    ("min", "list_duration_min_duration", "list(duration).() -> duration", least),
    ("min", "list_timestamp_min_timestamp", "list(timestamp).() -> timestamp", least),
    ("min", "list_string_min_string", "list(string).() -> string", least),
    ("min", "list_bytes_min_bytes", "list(bytes).() -> bytes", least),
    ("indexOf", "list_a_index_of_int", "list(A).(A) -> int", |args| {
        let (list, wanted) = (list(args, 0)?, value(args, 1)?);
        position_of((0..list.len()).find(|index| is_at(list, *index, wanted)))
    }),
    ("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) -> int", |args| {
        let (list, wanted) = (list(args, 0)?, value(args, 1)?);
        position_of((0..list.len()).rev().find(|index| is_at(list, *index, wanted)))
    }),
];

fn greatest<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    extreme(args, Ordering::Less, "max")
}

fn least<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    extreme(args, Ordering::Greater, "min")
}

fn is_sorted<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut before: Option<Value<'a>> = None;
    for element in list(args, 0)?.iter() {
        let element = element?;
        if before.is_some_and(|before| before.compare(&element).is_ok_and(Ordering::is_gt)) {
            return Ok(Value::Bool(false));
        }
        before = Some(element);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(args: &[Value<'a>], zero: Value<'a>) -> Outcome<'a> {
    let overflow = |ty: &str| EvalError::Failed(format!("{ty} overflow"));
    let mut sum = zero;
    for element in list(args, 0)?.iter() {
        sum = match (&sum, &element?) {
            (Value::Int(a), Value::Int(b)) => {
                Value::Int(a.checked_add(*b).ok_or_else(|| overflow("integer"))?)
            }
            (Value::Uint(a), Value::Uint(b)) => {
                Value::Uint(a.checked_add(*b).ok_or_else(|| overflow("unsigned integer"))?)
            }
            (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
            (Value::Duration(a), Value::Duration(b)) => {
                Value::Duration(a.checked_add(*b).ok_or_else(|| overflow("duration"))?)
            }
            _ => return Err(EvalError::NoSuchOverload),
        };
    }
    Ok(sum)
}

/// The element that compares to every other as `yields`.
fn extreme<'a>(args: &[Value<'a>], yields: Ordering, name: &str) -> Outcome<'a> {
    let mut found: Option<Value<'a>> = None;
    for element in list(args, 0)?.iter() {
        let element = element?;
        if found.as_ref().is_none_or(|found| found.compare(&element).is_ok_and(|order| order == yields)) {
            found = Some(element);
        }
    }
    found.ok_or_else(|| EvalError::Failed(format!("{name} called on empty list")))
}

fn is_at(list: &crate::value::List<'_>, index: usize, wanted: &Value<'_>) -> bool {
    matches!(list.get(index), Some(Ok(element)) if element.equals(wanted).unwrap_or(false))
}

fn position_of<'a>(found: Option<usize>) -> Outcome<'a> {
    Ok(Value::Int(found.map_or(-1, |index| index as i64)))
}
