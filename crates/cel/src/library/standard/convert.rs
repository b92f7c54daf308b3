//! Conversions: `int("1")`, `string(1)`, `type(x)`, `dyn(x)`.

use std::sync::Arc;

use crate::decl::{Function, Overload, Run};
use crate::number;
use crate::time::{self, Timestamp, TimestampError};
use crate::types::Type;
use crate::value::{EvalError, Text, Value};

pub(super) fn functions() -> Vec<Function> {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let to = |name: &'static str, result: Type, run: Run, rows: Vec<(&'static str, Type)>| {
        let overload = |(id, from): (&'static str, Type)| Overload::function(id, [from], result.clone(), run);
        Function::new(name, rows.into_iter().map(overload).collect::<Vec<_>>())
    };
    let a = Type::param("A");
    vec![
        Function::new(
            "type",
            [Overload::function(
                "type",
                [a.clone()],
                Type::Type(Some(Arc::new(a.clone()))),
                |args| match args {
                    [value] => Ok(Value::Type(value.cel_type())),
                    _ => Err(EvalError::NoSuchOverload),
                },
            )],
        ),
        to("bool", Bool, to_bool, vec![("bool_to_bool", Bool), ("string_to_bool", String)]),
        to("bytes", Bytes, to_bytes, vec![("bytes_to_bytes", Bytes), ("string_to_bytes", String)]),
        to(
            "double",
            Double,
            to_double,
            vec![
                ("double_to_double", Double),
                ("int64_to_double", Int),
                ("string_to_double", String),
                ("uint64_to_double", Uint),
            ],
        ),
        to(
            "duration",
            Duration,
            to_duration,
            vec![
                ("duration_to_duration", Duration),
                ("int64_to_duration", Int),
                ("string_to_duration", String),
            ],
        ),
        Function::new("dyn", [Overload::function("to_dyn", [a], Type::Dyn, identity)]),
        to(
            "int",
            Int,
            to_int,
            vec![
                ("int64_to_int64", Int),
                ("double_to_int64", Double),
                ("duration_to_int64", Duration),
                ("string_to_int64", String),
                ("timestamp_to_int64", Timestamp),
                ("uint64_to_int64", Uint),
            ],
        ),
        to(
            "string",
            String,
            to_string,
            vec![
                ("string_to_string", String),
                ("bool_to_string", Bool),
                ("bytes_to_string", Bytes),
                ("double_to_string", Double),
                ("duration_to_string", Duration),
                ("int64_to_string", Int),
                ("timestamp_to_string", Timestamp),
                ("uint64_to_string", Uint),
            ],
        ),
        to(
            "timestamp",
            Timestamp,
            to_timestamp,
            vec![
                ("timestamp_to_timestamp", Timestamp),
                ("int64_to_timestamp", Int),
                ("string_to_timestamp", String),
            ],
        ),
        to(
            "uint",
            Uint,
            to_uint,
            vec![
                ("uint64_to_uint64", Uint),
                ("double_to_uint64", Double),
                ("int64_to_uint64", Int),
                ("string_to_uint64", String),
            ],
        ),
    ]
}

type Outcome<'a> = Result<Value<'a>, EvalError>;

fn identity<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    args.first().cloned().ok_or(EvalError::NoSuchOverload)
}

fn unconvertible<'a>(value: &Value<'_>, to: &str) -> Outcome<'a> {
    Err(EvalError::failed(format!("type conversion error from '{}' to '{to}'", value.type_name())))
}

fn to_bool<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match identity(args)? {
        Value::Bool(value) => Ok(Value::Bool(value)),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => unconvertible(&Value::String(text), "bool"),
        },
        value => unconvertible(&value, "bool"),
    }
}

fn to_bytes<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match identity(args)? {
        Value::Bytes(bytes) => Ok(Value::Bytes(bytes)),
        Value::String(text) => Ok(Value::Bytes(text.as_str().as_bytes().into())),
        value => unconvertible(&value, "bytes"),
    }
}

fn to_double<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let value = identity(args)?;
    let double = match &value {
        Value::Double(double) => Some(*double),
        Value::Int(int) => Some(*int as f64),
        Value::Uint(uint) => Some(*uint as f64),
        Value::String(text) => number::parse_double(text.as_str()),
        _ => None,
    };
    double.map_or_else(|| unconvertible(&value, "double"), |double| Ok(Value::Double(double)))
}

fn to_duration<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let value = identity(args)?;
    let nanos = match &value {
        Value::Duration(nanos) => Some(*nanos),
        Value::String(text) => time::parse_duration(text.as_str()),
        _ => None,
    };
    nanos
        .map_or_else(|| unconvertible(&value, "google.protobuf.Duration"), |nanos| Ok(Value::Duration(nanos)))
}

fn to_int<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let value = identity(args)?;
    let overflow = || EvalError::failed("integer overflow");
    match &value {
        Value::Int(int) => Ok(Value::Int(*int)),
        Value::Double(double) => number::double_to_int(*double).map(Value::Int).ok_or_else(overflow),
        Value::Uint(uint) => i64::try_from(*uint).map(Value::Int).map_err(|_| overflow()),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(moment) => Ok(Value::Int(moment.seconds)),
        Value::String(text) => match number::parse_int(text.as_str()) {
            Some(int) => Ok(Value::Int(int)),
            None => unconvertible(&value, "int"),
        },
        _ => unconvertible(&value, "int"),
    }
}

fn to_uint<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let value = identity(args)?;
    let overflow = || EvalError::failed("unsigned integer overflow");
    match &value {
        Value::Uint(uint) => Ok(Value::Uint(*uint)),
        Value::Double(double) => number::double_to_uint(*double).map(Value::Uint).ok_or_else(overflow),
        Value::Int(int) => u64::try_from(*int).map(Value::Uint).map_err(|_| overflow()),
        Value::String(text) => match number::parse_uint(text.as_str()) {
            Some(uint) => Ok(Value::Uint(uint)),
            None => unconvertible(&value, "uint"),
        },
        _ => unconvertible(&value, "uint"),
    }
}

fn to_timestamp<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let value = identity(args)?;
    let overflow = || EvalError::failed("timestamp overflow");
    match &value {
        Value::Timestamp(moment) => Ok(Value::Timestamp(*moment)),
        Value::Int(seconds) => Timestamp::utc(*seconds, 0).map(Value::Timestamp).ok_or_else(overflow),
        Value::String(text) => match time::parse(text.as_str()) {
            Ok(moment) => Ok(Value::Timestamp(moment)),
            Err(TimestampError::OutOfRange) => Err(overflow()),
            Err(TimestampError::Unreadable) => unconvertible(&value, "google.protobuf.Timestamp"),
        },
        _ => unconvertible(&value, "google.protobuf.Timestamp"),
    }
}

/// Evaluates `string(value)`.
pub(crate) fn to_string<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let value = identity(args)?;
    let text = match &value {
        Value::String(_) => return Ok(value),
        Value::Bool(value) => value.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Uint(uint) => uint.to_string(),
        Value::Double(double) => number::go_general(*double),
        Value::Duration(nanos) => time::duration_text(*nanos),
        Value::Timestamp(moment) => time::format(*moment),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => return Ok(Value::String(Text::Shared(text.into()))),
            Err(_) => return Err(EvalError::failed("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Null => "null".to_owned(),
        _ => return unconvertible(&value, "string"),
    };
    Ok(text.into())
}
