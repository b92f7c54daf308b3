//! cel-go's `ext.TwoVarComprehensions`: macros over index and element or key and value, and the function that builds
//! their maps.

use super::Library;
use super::operand::value;
use crate::decl::declare;
use crate::parser::macros;
use crate::value::{EvalError, Map, Value};

/// `all`, `exists`, `existsOne`, `transformList`, `transformMap` and `transformMapEntry` over two variables.
pub fn library() -> Library {
    let functions = declare(
        &[],
        &[
            ("cel.@mapInsert", "@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)", |args| {
                map_at(args, 0)?.with(value(args, 1)?.clone(), value(args, 2)?.clone()).map(Value::Map)
            }),
            ("cel.@mapInsert", "@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)", |args| {
                let mut target = map_at(args, 0)?;
                for (key, value) in map_at(args, 1)?.entries() {
                    target = target.with(key, value?)?;
                }
                Ok(Value::Map(target))
            }),
        ],
    );
    Library { functions, macros: macros::TWO_VARIABLES.to_vec(), ..Library::default() }
}

fn map_at<'a>(args: &[Value<'a>], index: usize) -> Result<Map<'a>, EvalError> {
    match args.get(index) {
        Some(Value::Map(map)) => Ok(map.clone()),
        _ => Err(EvalError::NoSuchOverload),
    }
}
