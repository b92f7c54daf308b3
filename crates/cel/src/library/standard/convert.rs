//! Conversions: `int("1")`, `string(1)`, `type(x)`, `dyn(x)`.

use crate::decl::{Function, declare};
use crate::number;
use crate::time::{self, Timestamp, TimestampError};
use crate::value::{EvalError, Text, Value};

pub(super) fn functions() -> Vec<Function> {
    declare(
        &[],
        &[
            ("type", "type", "(A) -> type(A)", |args| match args {
                [value] => Ok(Value::Type(value.cel_type())),
                _ => Err(EvalError::NoSuchOverload),
            }),
            ("bool", "bool_to_bool", "(bool) -> bool", to_bool),
            ("bool", "string_to_bool", "(string) -> bool", to_bool),
            ("bytes", "bytes_to_bytes", "(bytes) -> bytes", to_bytes),
            ("bytes", "string_to_bytes", "(string) -> bytes", to_bytes),
            ("double", "double_to_double", "(double) -> double", to_double),
            ("double", "int64_to_double", "(int) -> double", to_double),
            ("double", "string_to_double", "(string) -> double", to_double),
            ("double", "uint64_to_double", "(uint) -> double", to_double),
            ("duration", "duration_to_duration", "(duration) -> duration", to_duration),
            ("duration", "int64_to_duration", "(int) -> duration", to_duration),
            ("duration", "string_to_duration", "(string) -> duration", to_duration),
            ("dyn", "to_dyn", "(A) -> dyn", identity),
            ("int", "int64_to_int64", "(int) -> int", to_int),
            ("int", "double_to_int64", "(double) -> int", to_int),
            ("int", "duration_to_int64", "(duration) -> int", to_int),
            ("int", "string_to_int64", "(string) -> int", to_int),
            ("int", "timestamp_to_int64", "(timestamp) -> int", to_int),
            ("int", "uint64_to_int64", "(uint) -> int", to_int),
            ("string", "string_to_string", "(string) -> string", to_string),
            ("string", "bool_to_string", "(bool) -> string", to_string),
            ("string", "bytes_to_string", "(bytes) -> string", to_string),
            ("string", "double_to_string", "(double) -> string", to_string),
            ("string", "duration_to_string", "(duration) -> string", to_string),
            ("string", "int64_to_string", "(int) -> string", to_string),
            ("string", "timestamp_to_string", "(timestamp) -> string", to_string),
            ("string", "uint64_to_string", "(uint) -> string", to_string),
            ("timestamp", "timestamp_to_timestamp", "(timestamp) -> timestamp", to_timestamp),
            ("timestamp", "int64_to_timestamp", "(int) -> timestamp", to_timestamp),
            ("timestamp", "string_to_timestamp", "(string) -> timestamp", to_timestamp),
            ("uint", "uint64_to_uint64", "(uint) -> uint", to_uint),
            ("uint", "double_to_uint64", "(double) -> uint", to_uint),
            ("uint", "int64_to_uint64", "(int) -> uint", to_uint),
            ("uint", "string_to_uint64", "(string) -> uint", to_uint),
        ],
    )
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
