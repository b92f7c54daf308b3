//! `<` and the other comparisons: across numeric types; strings and bytes bytewise.

use std::cmp::Ordering;

use super::{EvalError, Value};

impl Value<'_> {
    /// Compares two values of ordered types.
    pub fn compare(&self, other: &Value<'_>) -> Result<Ordering, EvalError> {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => Ok(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
            (Value::String(a), Value::String(b)) => Ok(a.as_str().cmp(b.as_str())),
            (Value::Bytes(a), Value::Bytes(b)) => Ok(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
            (Value::Double(a), _) if a.is_nan() => Err(EvalError::failed(UNORDERED)),
            (
                Value::Int(_) | Value::Uint(_) | Value::Double(_),
                Value::Int(_) | Value::Uint(_) | Value::Double(_),
            ) => self.compare_numbers(other).ok_or_else(|| EvalError::failed(UNORDERED)),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    /// Compares two numbers; `None` if one is not a number.
    pub(super) fn compare_numbers(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
            (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
            (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            // Integers are rounded to doubles, as in cel-go.
            (Value::Double(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Value::Double(a), Value::Uint(b)) => a.partial_cmp(&(*b as f64)),
            (Value::Int(_) | Value::Uint(_), Value::Double(_)) => {
                other.compare_numbers(self).map(Ordering::reverse)
            }
            _ => None,
        }
    }
}

const UNORDERED: &str = "NaN values cannot be ordered";
