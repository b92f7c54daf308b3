//! Operators on values: arithmetic with overflow, comparison, membership.

use std::cmp::Ordering;

use crate::ast::operators;
use crate::value::{EvalError, List, Map, Object, Text, Value};

/// A binary operator that the evaluator executes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    In,
}

impl Operator {
    /// The operator of a function.
    pub(crate) fn of(function: &str) -> Option<Operator> {
        Some(match function {
            operators::ADD => Operator::Add,
            operators::SUBTRACT => Operator::Subtract,
            operators::MULTIPLY => Operator::Multiply,
            operators::DIVIDE => Operator::Divide,
            operators::MODULO => Operator::Modulo,
            operators::LESS => Operator::Less,
            operators::LESS_EQUALS => Operator::LessEquals,
            operators::GREATER => Operator::Greater,
            operators::GREATER_EQUALS => Operator::GreaterEquals,
            operators::IN => Operator::In,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Operator::Add => operators::ADD,
            Operator::Subtract => operators::SUBTRACT,
            Operator::Multiply => operators::MULTIPLY,
            Operator::Divide => operators::DIVIDE,
            Operator::Modulo => operators::MODULO,
            Operator::Less => operators::LESS,
            Operator::LessEquals => operators::LESS_EQUALS,
            Operator::Greater => operators::GREATER,
            Operator::GreaterEquals => operators::GREATER_EQUALS,
            Operator::In => operators::IN,
        }
    }

    /// Whether cel-go's type of the left operand has the operator at all; the error depends on that.
    fn takes(self, left: &Value<'_>) -> bool {
        use Value::{Bool, Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
        match self {
            Operator::Add => {
                matches!(
                    left,
                    Bytes(_)
                        | Double(_)
                        | Duration(_)
                        | Int(_)
                        | List(_)
                        | String(_)
                        | Timestamp(_)
                        | Uint(_)
                )
            }
            Operator::Subtract => {
                matches!(left, Double(_) | Duration(_) | Int(_) | Timestamp(_) | Uint(_) | String(_))
            }
            // In cel-go these operands are "receivers", which have their own error messages.
            Operator::Multiply | Operator::Divide => {
                matches!(left, Double(_) | Int(_) | Uint(_) | String(_) | Timestamp(_) | Duration(_))
            }
            Operator::Modulo => matches!(left, Int(_) | Uint(_) | String(_) | Timestamp(_) | Duration(_)),
            Operator::Less | Operator::LessEquals | Operator::Greater | Operator::GreaterEquals => {
                matches!(
                    left,
                    Bool(_)
                        | Bytes(_)
                        | Double(_)
                        | Duration(_)
                        | Int(_)
                        | String(_)
                        | Timestamp(_)
                        | Uint(_)
                )
            }
            Operator::In => true,
        }
    }

    /// Applies the operator to two values.
    #[inline]
    pub(crate) fn apply<'a>(self, left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>, EvalError> {
        let ordered = |wanted: fn(Ordering) -> bool| match left.compare(right) {
            Ok(ordering) => Ok(Value::Bool(wanted(ordering))),
            Err(err) => Err(self.overload_error(left, err)),
        };
        match self {
            Operator::Add => add(left, right),
            Operator::Subtract => subtract(left, right),
            Operator::Multiply | Operator::Divide | Operator::Modulo => self.scale(left, right),
            Operator::Less => return ordered(Ordering::is_lt),
            Operator::LessEquals => return ordered(Ordering::is_le),
            Operator::Greater => return ordered(Ordering::is_gt),
            Operator::GreaterEquals => return ordered(Ordering::is_ge),
            Operator::In => contains(left, right).map(Value::Bool),
        }
        .map_err(|err| self.overload_error(left, err))
    }

    /// `*`, `/` and `%`.
    fn scale<'a>(self, left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>, EvalError> {
        let by_zero = || {
            EvalError::failed(if self == Operator::Modulo { "modulus by zero" } else { "division by zero" })
        };
        match (left, right) {
            (Value::Int(a), Value::Int(b)) => match self {
                Operator::Multiply => a.checked_mul(*b),
                _ if *b == 0 => return Err(by_zero()),
                Operator::Divide => a.checked_div(*b),
                _ => a.checked_rem(*b),
            }
            .map(Value::Int)
            .ok_or_else(int_overflow),
            (Value::Uint(a), Value::Uint(b)) => match self {
                Operator::Multiply => a.checked_mul(*b),
                Operator::Divide => return a.checked_div(*b).map(Value::Uint).ok_or_else(by_zero),
                _ => return a.checked_rem(*b).map(Value::Uint).ok_or_else(by_zero),
            }
            .map(Value::Uint)
            .ok_or_else(uint_overflow),
            (Value::Double(a), Value::Double(b)) => match self {
                Operator::Multiply => Ok(Value::Double(a * b)),
                Operator::Divide => Ok(Value::Double(a / b)),
                _ => Err(EvalError::NoSuchOverload),
            },
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn overload_error(self, left: &Value<'_>, err: EvalError) -> EvalError {
        match err {
            EvalError::NoSuchOverload if !self.takes(left) => {
                EvalError::failed(format!("no such overload: {}", self.name()))
            }
            err => err,
        }
    }
}

/// An operator as a function of a library.
pub(crate) fn run<'a>(operator: Operator, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [left, right] => operator.apply(left, right),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn int_overflow() -> EvalError {
    EvalError::failed("integer overflow")
}

fn uint_overflow() -> EvalError {
    EvalError::failed("unsigned integer overflow")
}

fn timestamp_overflow() -> EvalError {
    EvalError::failed("timestamp overflow")
}

fn add<'a>(left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>, EvalError> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or_else(int_overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_add(*b).map(Value::Uint).ok_or_else(uint_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => Ok(Value::String(concatenate(a, b))),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes([&**a, &**b].concat().into())),
        (Value::List(a), Value::List(b)) => a.join(b).map(Value::List),
        (Value::Duration(a), Value::Duration(b)) => {
            a.checked_add(*b).map(Value::Duration).ok_or_else(int_overflow)
        }
        (Value::Duration(nanos), Value::Timestamp(moment))
        | (Value::Timestamp(moment), Value::Duration(nanos)) => {
            moment.plus(*nanos).map(Value::Timestamp).ok_or_else(timestamp_overflow)
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn concatenate<'a>(a: &Text<'a>, b: &Text<'a>) -> Text<'a> {
    match (a.as_str(), b.as_str()) {
        ("", _) => b.clone(),
        (_, "") => a.clone(),
        (a, b) => Text::Shared([a, b].concat().into()),
    }
}

fn subtract<'a>(left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>, EvalError> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.checked_sub(*b).map(Value::Int).ok_or_else(int_overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_sub(*b).map(Value::Uint).ok_or_else(uint_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => {
            a.checked_sub(*b).map(Value::Duration).ok_or_else(int_overflow)
        }
        (Value::Timestamp(moment), Value::Duration(nanos)) => {
            let nanos = nanos.checked_neg().ok_or_else(int_overflow)?;
            moment.plus(nanos).map(Value::Timestamp).ok_or_else(timestamp_overflow)
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            a.since(*b).map(Value::Duration).ok_or_else(|| EvalError::failed("duration overflow"))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Evaluates `left in right`.
fn contains(left: &Value<'_>, right: &Value<'_>) -> Result<bool, EvalError> {
    match right {
        Value::List(list) => in_list(left, list),
        Value::Map(map) => map.find(left).map(|found| found.is_some()),
        Value::Object(Object::Lazy(..)) => Err(EvalError::NoSuchOverload),
        Value::Object(object) => match left {
            Value::String(name) => object.get(name.as_str()).map(|found| found.is_some()),
            _ => Err(EvalError::NoSuchOverload),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn in_list(wanted: &Value<'_>, list: &List<'_>) -> Result<bool, EvalError> {
    // Only a list of a tree with a shape reports elements that cannot be compared.
    let strict = matches!(list, List::Tree(_, shape) | List::Set(_, shape, _) if shape.kind != crate::shape::ShapeKind::Dyn);
    let mut failed = None;
    for element in list.iter() {
        match element.and_then(|element| element.equals(wanted)) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(err) => failed = failed.or(Some(err)),
        }
    }
    match failed {
        Some(err) if strict => Err(err),
        _ => Ok(false),
    }
}

/// Evaluates `-a`.
pub(crate) fn negate<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Int(int)] => int.checked_neg().map(Value::Int).ok_or_else(int_overflow),
        [Value::Double(double)] => Ok(Value::Double(-double)),
        [Value::Duration(nanos)] => nanos.checked_neg().map(Value::Duration).ok_or_else(int_overflow),
        [Value::Bool(_) | Value::String(_) | Value::Timestamp(_)] => Err(EvalError::NoSuchOverload),
        _ => Err(EvalError::failed("no such overload: -_")),
    }
}

/// Evaluates `size(a)`.
pub(crate) fn size<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let size = match args {
        [Value::String(text)] => text.size(),
        [Value::Bytes(bytes)] => bytes.len() as u64,
        [Value::List(list)] => list.len() as u64,
        [Value::Map(map)] => Map::len(map) as u64,
        [Value::Object(Object::Lazy(..))] => return Err(EvalError::NoSuchOverload),
        [Value::Object(object)] => object.len() as u64,
        [Value::Timestamp(_) | Value::Duration(_)] => return Err(EvalError::NoSuchOverload),
        _ => return Err(EvalError::failed("no such overload: size")),
    };
    i64::try_from(size).map(Value::Int).map_err(|_| int_overflow())
}
