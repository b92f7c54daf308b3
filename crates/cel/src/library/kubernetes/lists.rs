//! Lists: `isSorted`, sum, minimum and maximum, and the position of an element.

use std::cmp::Ordering;

use crate::decl::{Function, Overload, Run};
use crate::library::Library;
use crate::library::operand::{Outcome, list, value};
use crate::types::Type;
use crate::value::{EvalError, Value};

/// `isSorted`, `sum`, `min`, `max`, `indexOf` and `lastIndexOf`.
pub fn library() -> Library {
    let any = Type::param("A");
    let position = |name, id, run: Run| {
        Function::new(name, [Overload::method(id, [Type::list(any.clone()), any.clone()], Type::Int, run)])
    };
    Library {
        functions: vec![
            Function::new(
                "isSorted",
                ordered_types().map(|ids| of_list(ids.ty, ids.is_sorted, Some(Type::Bool), is_sorted)),
            ),
            Function::new(
                "sum",
                [
                    of_list(Type::Int, "list_int_sum_int", None, |args| sum(args, Value::Int(0))),
                    of_list(Type::Uint, "list_uint_sum_uint", None, |args| sum(args, Value::Uint(0))),
                    of_list(Type::Double, "list_double_sum_double", None, |args| {
                        sum(args, Value::Double(0.0))
                    }),
                    of_list(Type::Duration, "list_duration_sum_duration", None, |args| {
                        sum(args, Value::Duration(0))
                    }),
                ],
            ),
            Function::new(
                "max",
                ordered_types()
                    .map(|ids| of_list(ids.ty, ids.max, None, |args| extreme(args, Ordering::Less, "max"))),
            ),
            Function::new(
                "min",
                ordered_types().map(|ids| {
                    of_list(ids.ty, ids.min, None, |args| extreme(args, Ordering::Greater, "min"))
                }),
            ),
            position("indexOf", "list_a_index_of_int", |args| {
                let wanted = value(args, 1)?;
                let list = list(args, 0)?;
                position_of((0..list.len()).find(|index| is_at(list, *index, wanted)))
            }),
            position("lastIndexOf", "list_a_last_index_of_int", |args| {
                let wanted = value(args, 1)?;
                let list = list(args, 0)?;
                position_of((0..list.len()).rev().find(|index| is_at(list, *index, wanted)))
            }),
        ],
        ..Library::default()
    }
}

/// A type with an order, and the ids of the overloads for lists of it.
struct Ordered {
    ty: Type,
    is_sorted: &'static str,
    max: &'static str,
    min: &'static str,
}

fn ordered_types() -> [Ordered; 8] {
    let row = |ty, is_sorted, max, min| Ordered { ty, is_sorted, max, min };
    [
        row(Type::Int, "list_int_is_sorted_bool", "list_int_max_int", "list_int_min_int"),
        row(Type::Uint, "list_uint_is_sorted_bool", "list_uint_max_uint", "list_uint_min_uint"),
        row(Type::Double, "list_double_is_sorted_bool", "list_double_max_double", "list_double_min_double"),
        row(Type::Bool, "list_bool_is_sorted_bool", "list_bool_max_bool", "list_bool_min_bool"),
        row(
            Type::Duration,
            "list_duration_is_sorted_bool",
            "list_duration_max_duration",
            "list_duration_min_duration",
        ),
        row(
            Type::Timestamp,
            "list_timestamp_is_sorted_bool",
            "list_timestamp_max_timestamp",
            "list_timestamp_min_timestamp",
        ),
        row(Type::String, "list_string_is_sorted_bool", "list_string_max_string", "list_string_min_string"),
        row(Type::Bytes, "list_bytes_is_sorted_bool", "list_bytes_max_bytes", "list_bytes_min_bytes"),
    ]
}

/// A method of a list; by default it returns an element.
fn of_list(ty: Type, id: &'static str, result: Option<Type>, run: Run) -> Overload {
    Overload::method(id, [Type::list(ty.clone())], result.unwrap_or(ty), run)
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
