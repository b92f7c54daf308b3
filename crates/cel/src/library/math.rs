//! cel-go's `ext.Math`: least and greatest, rounding, signs, bits.

use std::cmp::Ordering;

use super::Library;
use super::operand::{Outcome, double_operand, elements, int_operand, value};
use crate::decl::{Function, Run, declare};
use crate::parser::macros;
use crate::value::{EvalError, Value};

/// The overloads of `math.@min` or `math.@max`: one number, two of any kinds, or a list.
macro_rules! extreme_functions {
    ($name:literal, $id:literal, $yields:expr) => {{
        let two: Run = |args| extreme_of_two(value(args, 0)?, value(args, 1)?, $yields, $name);
        let many: Run = |args| find_extreme(args, $yields, $name);
        declare(
            &[],
            &[
                ($name, concat!($id, "_double"), "(double) -> double", identity),
                ($name, concat!($id, "_int"), "(int) -> int", identity),
                ($name, concat!($id, "_uint"), "(uint) -> uint", identity),
                ($name, concat!($id, "_double_double"), "(double, double) -> double", two),
                ($name, concat!($id, "_int_int"), "(int, int) -> int", two),
                ($name, concat!($id, "_uint_uint"), "(uint, uint) -> uint", two),
                ($name, concat!($id, "_int_uint"), "(int, uint) -> dyn", two),
                ($name, concat!($id, "_int_double"), "(int, double) -> dyn", two),
                ($name, concat!($id, "_double_int"), "(double, int) -> dyn", two),
                ($name, concat!($id, "_double_uint"), "(double, uint) -> dyn", two),
                ($name, concat!($id, "_uint_int"), "(uint, int) -> dyn", two),
                ($name, concat!($id, "_uint_double"), "(uint, double) -> dyn", two),
                ($name, concat!($id, "_list_double"), "(list(double)) -> double", many),
                ($name, concat!($id, "_list_int"), "(list(int)) -> int", many),
                ($name, concat!($id, "_list_uint"), "(list(uint)) -> uint", many),
            ],
        )
    }};
}

/// The library as of `version`: 1 has rounding, signs and bits, 2 `sqrt`.
pub fn library(version: u32) -> Library {
    let mut functions = extreme_functions!("math.@min", "math_@min", Ordering::Greater);
    functions.extend(extreme_functions!("math.@max", "math_@max", Ordering::Less));
    if version >= 1 {
        functions.extend(rounding_functions());
        functions.extend(sign_functions());
        functions.extend(bit_functions());
    }
    if version >= 2 {
        functions.extend(declare(
            &[],
            &[
                ("math.sqrt", "math_sqrt_double", "(double) -> double", sqrt),
                ("math.sqrt", "math_sqrt_int", "(int) -> double", sqrt),
                ("math.sqrt", "math_sqrt_uint", "(uint) -> double", sqrt),
            ],
        ));
    }
    Library { functions, macros: macros::MATH.to_vec(), ..Library::default() }
}

fn identity<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    value(args, 0).cloned()
}

/// The second if the first compares to it as `yields`, otherwise the first.
fn extreme_of_two<'a>(a: &Value<'a>, b: &Value<'a>, yields: Ordering, name: &str) -> Outcome<'a> {
    let order = a.compare(b).map_err(|error| match error {
        EvalError::CostLimit => error,
        error => EvalError::Failed(format!("{error}: {name}")),
    })?;
    Ok(if order == yields { b } else { a }.clone())
}

fn find_extreme<'a>(args: &[Value<'a>], yields: Ordering, name: &str) -> Outcome<'a> {
    let elements = elements(args, 0)?;
    let mut rest = elements.iter();
    let Some(first) = rest.next() else {
        return Err(EvalError::Failed(format!("{name}(list) argument must not be empty")));
    };
    let mut found = first.clone();
    for element in rest {
        found = extreme_of_two(&found, element, yields, name)?;
    }
    match found {
        Value::Int(_) | Value::Uint(_) | Value::Double(_) => Ok(found),
        _ => Err(EvalError::Failed(format!("no such overload: {name}"))),
    }
}

fn rounding_functions() -> Vec<Function> {
    declare(
        &[],
        &[
            ("math.ceil", "math_ceil_double", "(double) -> double", |args| {
                Ok(double_operand(args, 0)?.ceil().into())
            }),
            ("math.floor", "math_floor_double", "(double) -> double", |args| {
                Ok(double_operand(args, 0)?.floor().into())
            }),
            ("math.round", "math_round_double", "(double) -> double", |args| {
                Ok(double_operand(args, 0)?.round().into())
            }),
            ("math.trunc", "math_trunc_double", "(double) -> double", |args| {
                Ok(double_operand(args, 0)?.trunc().into())
            }),
            ("math.isInf", "math_isInf_double", "(double) -> bool", |args| {
                Ok(double_operand(args, 0)?.is_infinite().into())
            }),
            ("math.isNaN", "math_isNaN_double", "(double) -> bool", |args| {
                Ok(double_operand(args, 0)?.is_nan().into())
            }),
            ("math.isFinite", "math_isFinite_double", "(double) -> bool", |args| {
                Ok(double_operand(args, 0)?.is_finite().into())
            }),
        ],
    )
}

fn sign_functions() -> Vec<Function> {
    declare(
        &[],
        &[
            ("math.abs", "math_abs_double", "(double) -> double", |args| {
                Ok(double_operand(args, 0)?.abs().into())
            }),
            ("math.abs", "math_abs_int", "(int) -> int", |args| {
                let overflow = || EvalError::Failed("integer overflow".into());
                int_operand(args, 0)?.checked_abs().map(Value::Int).ok_or_else(overflow)
            }),
            ("math.abs", "math_abs_uint", "(uint) -> uint", identity),
            ("math.sign", "math_sign_double", "(double) -> double", sign),
            ("math.sign", "math_sign_int", "(int) -> int", sign),
            ("math.sign", "math_sign_uint", "(uint) -> uint", sign),
        ],
    )
}

fn sign<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match value(args, 0)? {
        Value::Double(double) if double.is_nan() => Ok(Value::Double(*double)),
        Value::Double(double) => {
            Ok(Value::Double(f64::from(i8::from(*double > 0.0).saturating_sub(i8::from(*double < 0.0)))))
        }
        Value::Int(int) => Ok(Value::Int(int.signum())),
        Value::Uint(uint) => Ok(Value::Uint(u64::from(*uint > 0))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn sqrt<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match value(args, 0)? {
        Value::Double(double) => Ok(double.sqrt().into()),
        Value::Int(int) => Ok((*int as f64).sqrt().into()),
        Value::Uint(uint) => Ok((*uint as f64).sqrt().into()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn bit_functions() -> Vec<Function> {
    let and: Run = |args| bitwise(args, |a, b| a & b);
    let or: Run = |args| bitwise(args, |a, b| a | b);
    let xor: Run = |args| bitwise(args, |a, b| a ^ b);
    let left: Run = |args| shift_bits(args, "math.bitShiftLeft", u64::checked_shl);
    // Integers are shifted as bits, without sign extension.
    let right: Run = |args| shift_bits(args, "math.bitShiftRight", u64::checked_shr);
    declare(
        &[],
        &[
            ("math.bitAnd", "math_bitAnd_int_int", "(int, int) -> int", and),
            ("math.bitAnd", "math_bitAnd_uint_uint", "(uint, uint) -> uint", and),
            ("math.bitOr", "math_bitOr_int_int", "(int, int) -> int", or),
            ("math.bitOr", "math_bitOr_uint_uint", "(uint, uint) -> uint", or),
            ("math.bitXor", "math_bitXor_int_int", "(int, int) -> int", xor),
            ("math.bitXor", "math_bitXor_uint_uint", "(uint, uint) -> uint", xor),
            ("math.bitNot", "math_bitNot_int_int", "(int) -> int", bit_not),
            ("math.bitNot", "math_bitNot_uint_uint", "(uint) -> uint", bit_not),
            // The number of places to shift by is always an int.
            ("math.bitShiftLeft", "math_bitShiftLeft_int_int", "(int, int) -> int", left),
            ("math.bitShiftLeft", "math_bitShiftLeft_uint_int", "(uint, int) -> uint", left),
            ("math.bitShiftRight", "math_bitShiftRight_int_int", "(int, int) -> int", right),
            ("math.bitShiftRight", "math_bitShiftRight_uint_int", "(uint, int) -> uint", right),
        ],
    )
}

fn bitwise<'a>(args: &[Value<'a>], op: fn(u64, u64) -> u64) -> Outcome<'a> {
    match (value(args, 0)?, value(args, 1)?) {
        (Value::Int(a), Value::Int(b)) => Ok(Value::Int(op(*a as u64, *b as u64) as i64)),
        (Value::Uint(a), Value::Uint(b)) => Ok(Value::Uint(op(*a, *b))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn bit_not<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match value(args, 0)? {
        Value::Int(int) => Ok(Value::Int(!int)),
        Value::Uint(uint) => Ok(Value::Uint(!uint)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn shift_bits<'a>(args: &[Value<'a>], name: &str, shift: fn(u64, u32) -> Option<u64>) -> Outcome<'a> {
    let by = int_operand(args, 1)?;
    if by < 0 {
        return Err(EvalError::Failed(format!("{name}() negative offset: {by}")));
    }
    // All bits are shifted out by 64 or more.
    let op = |bits| u32::try_from(by).ok().and_then(|by| shift(bits, by)).unwrap_or(0);
    match value(args, 0)? {
        Value::Int(int) => Ok(Value::Int(op(*int as u64) as i64)),
        Value::Uint(uint) => Ok(Value::Uint(op(*uint))),
        _ => Err(EvalError::NoSuchOverload),
    }
}
