//! cel-go's `ext.TwoVarComprehensions`: macros over index and element or key and value, and the function that builds
//! their maps.

use super::Library;
use super::operand::value;
use crate::decl::{Function, Overload};
use crate::parser::macros;
use crate::types::Type;
use crate::value::{EvalError, Map, Value};

/// `all`, `exists`, `existsOne`, `transformList`, `transformMap` and `transformMapEntry` over two variables.
pub fn library() -> Library {
    let (key, ty) = (Type::param("K"), Type::param("V"));
    let map = Type::map(key.clone(), ty.clone());
    Library {
        functions: vec![Function::new(
            "cel.@mapInsert",
            [
                Overload::function("@mapInsert_map_key_value", [map.clone(), key, ty], map.clone(), |args| {
                    map_at(args, 0)?.with(value(args, 1)?.clone(), value(args, 2)?.clone()).map(Value::Map)
                }),
                Overload::function("@mapInsert_map_map", [map.clone(), map.clone()], map, |args| {
                    let mut target = map_at(args, 0)?;
                    for (key, value) in map_at(args, 1)?.entries() {
                        target = target.with(key, value?)?;
                    }
                    Ok(Value::Map(target))
                }),
            ],
        )],
        macros: macros::TWO_VARIABLES.to_vec(),
        ..Library::default()
    }
}

fn map_at<'a>(args: &[Value<'a>], index: usize) -> Result<Map<'a>, EvalError> {
    match args.get(index) {
        Some(Value::Map(map)) => Ok(map.clone()),
        _ => Err(EvalError::NoSuchOverload),
    }
}
