//! cel-go's `ext.Math`: least and greatest, rounding, signs, bits.

use std::cmp::Ordering;

use super::Library;
use super::operand::{Outcome, double_operand, elements, int_operand, value};
use crate::decl::{Function, Overload, Run};
use crate::parser::macros;
use crate::types::Type;
use crate::value::{EvalError, Value};

/// The library as of `version`: 1 has rounding, signs and bits, 2 `sqrt`.
pub fn library(version: u32) -> Library {
    let mut functions = vec![least_function(), greatest_function()];
    if version >= 1 {
        functions.extend(rounding_functions());
        functions.extend(sign_functions());
        functions.extend(bit_functions());
    }
    if version >= 2 {
        functions.push(Function::new(
            "math.sqrt",
            [
                Overload::function("math_sqrt_double", [Type::Double], Type::Double, sqrt),
                Overload::function("math_sqrt_int", [Type::Int], Type::Double, sqrt),
                Overload::function("math_sqrt_uint", [Type::Uint], Type::Double, sqrt),
            ],
        ));
    }
    Library { functions, macros: macros::MATH.to_vec(), ..Library::default() }
}

/// The overloads of `math.@min` and `math.@max`: one number, two of any kinds, or a list.
fn extreme_overloads(ids: [&'static str; 15], one: Run, two: Run, many: Run) -> Vec<Overload> {
    use Type::{Double, Dyn, Int, Uint};
    let signatures: [(Vec<Type>, Type, Run); 15] = [
        (vec![Double], Double, one),
        (vec![Int], Int, one),
        (vec![Uint], Uint, one),
        (vec![Double, Double], Double, two),
        (vec![Int, Int], Int, two),
        (vec![Uint, Uint], Uint, two),
        (vec![Int, Uint], Dyn, two),
        (vec![Int, Double], Dyn, two),
        (vec![Double, Int], Dyn, two),
        (vec![Double, Uint], Dyn, two),
        (vec![Uint, Int], Dyn, two),
        (vec![Uint, Double], Dyn, two),
        (vec![Type::list(Double)], Double, many),
        (vec![Type::list(Int)], Int, many),
        (vec![Type::list(Uint)], Uint, many),
    ];
    let overloads = ids.into_iter().zip(signatures);
    overloads.map(|(id, (params, result, run))| Overload::function(id, params, result, run)).collect()
}

fn least_function() -> Function {
    let ids = [
        "math_@min_double",
        "math_@min_int",
        "math_@min_uint",
        "math_@min_double_double",
        "math_@min_int_int",
        "math_@min_uint_uint",
        "math_@min_int_uint",
        "math_@min_int_double",
        "math_@min_double_int",
        "math_@min_double_uint",
        "math_@min_uint_int",
        "math_@min_uint_double",
        "math_@min_list_double",
        "math_@min_list_int",
        "math_@min_list_uint",
    ];
    Function::new(
        "math.@min",
        extreme_overloads(
            ids,
            identity,
            |args| extreme_of_two(value(args, 0)?, value(args, 1)?, Ordering::Greater, "math.@min"),
            |args| find_extreme(args, Ordering::Greater, "math.@min"),
        ),
    )
}

fn greatest_function() -> Function {
    let ids = [
        "math_@max_double",
        "math_@max_int",
        "math_@max_uint",
        "math_@max_double_double",
        "math_@max_int_int",
        "math_@max_uint_uint",
        "math_@max_int_uint",
        "math_@max_int_double",
        "math_@max_double_int",
        "math_@max_double_uint",
        "math_@max_uint_int",
        "math_@max_uint_double",
        "math_@max_list_double",
        "math_@max_list_int",
        "math_@max_list_uint",
    ];
    Function::new(
        "math.@max",
        extreme_overloads(
            ids,
            identity,
            |args| extreme_of_two(value(args, 0)?, value(args, 1)?, Ordering::Less, "math.@max"),
            |args| find_extreme(args, Ordering::Less, "math.@max"),
        ),
    )
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
    let to_double =
        |name, id, run: Run| Function::new(name, [Overload::function(id, [Type::Double], Type::Double, run)]);
    let to_bool =
        |name, id, run: Run| Function::new(name, [Overload::function(id, [Type::Double], Type::Bool, run)]);
    vec![
        to_double("math.ceil", "math_ceil_double", |args| Ok(double_operand(args, 0)?.ceil().into())),
        to_double("math.floor", "math_floor_double", |args| Ok(double_operand(args, 0)?.floor().into())),
        to_double("math.round", "math_round_double", |args| Ok(double_operand(args, 0)?.round().into())),
        to_double("math.trunc", "math_trunc_double", |args| Ok(double_operand(args, 0)?.trunc().into())),
        to_bool("math.isInf", "math_isInf_double", |args| Ok(double_operand(args, 0)?.is_infinite().into())),
        to_bool("math.isNaN", "math_isNaN_double", |args| Ok(double_operand(args, 0)?.is_nan().into())),
        to_bool("math.isFinite", "math_isFinite_double", |args| {
            Ok(double_operand(args, 0)?.is_finite().into())
        }),
    ]
}

fn sign_functions() -> Vec<Function> {
    vec![
        Function::new(
            "math.abs",
            [
                Overload::function("math_abs_double", [Type::Double], Type::Double, |args| {
                    Ok(double_operand(args, 0)?.abs().into())
                }),
                Overload::function("math_abs_int", [Type::Int], Type::Int, |args| {
                    let overflow = || EvalError::Failed("integer overflow".into());
                    int_operand(args, 0)?.checked_abs().map(Value::Int).ok_or_else(overflow)
                }),
                Overload::function("math_abs_uint", [Type::Uint], Type::Uint, identity),
            ],
        ),
        Function::new(
            "math.sign",
            [
                Overload::function("math_sign_double", [Type::Double], Type::Double, sign),
                Overload::function("math_sign_int", [Type::Int], Type::Int, sign),
                Overload::function("math_sign_uint", [Type::Uint], Type::Uint, sign),
            ],
        ),
    ]
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
    let binary = |name, [ints, uints]: [&'static str; 2], second_of_uints: Type, run: Run| {
        Function::new(
            name,
            [
                Overload::function(ints, [Type::Int, Type::Int], Type::Int, run),
                Overload::function(uints, [Type::Uint, second_of_uints], Type::Uint, run),
            ],
        )
    };
    let two = |name, ids, run: Run| binary(name, ids, Type::Uint, run);
    // The number of places to shift by is always an int.
    let shift = |name, ids, run: Run| binary(name, ids, Type::Int, run);
    vec![
        two("math.bitAnd", ["math_bitAnd_int_int", "math_bitAnd_uint_uint"], |args| {
            bitwise(args, |a, b| a & b)
        }),
        two("math.bitOr", ["math_bitOr_int_int", "math_bitOr_uint_uint"], |args| bitwise(args, |a, b| a | b)),
        two("math.bitXor", ["math_bitXor_int_int", "math_bitXor_uint_uint"], |args| {
            bitwise(args, |a, b| a ^ b)
        }),
        Function::new(
            "math.bitNot",
            [
                Overload::function("math_bitNot_int_int", [Type::Int], Type::Int, bit_not),
                Overload::function("math_bitNot_uint_uint", [Type::Uint], Type::Uint, bit_not),
            ],
        ),
        shift("math.bitShiftLeft", ["math_bitShiftLeft_int_int", "math_bitShiftLeft_uint_int"], |args| {
            shift_bits(args, "math.bitShiftLeft", u64::checked_shl)
        }),
        // Integers are shifted as bits, without sign extension.
        shift("math.bitShiftRight", ["math_bitShiftRight_int_int", "math_bitShiftRight_uint_int"], |args| {
            shift_bits(args, "math.bitShiftRight", u64::checked_shr)
        }),
    ]
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
