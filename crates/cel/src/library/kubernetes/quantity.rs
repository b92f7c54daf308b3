//! `quantity()`: amounts of resources, compared and added.

use std::any::Any;
use std::cmp::Ordering;
use std::sync::Arc;

use crate::decl::{Function, Overload, Run};
use crate::library::Library;
use crate::library::operand::{Outcome, int_operand, opaque, own, text};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};
use pintle_value::quantity::{Format, Quantity as Amount, TooManyDigits};

/// The name of the type.
pub const QUANTITY: &str = "kubernetes.Quantity";

/// A quantity as a value.
#[derive(Clone, Debug)]
struct Quantity {
    amount: Amount,
    /// Whether the quantity is a result of `add` or `sub`. In kube-apiserver those are pointers, which are only supported on the
    /// left of `==`: on the right the error is "no such overload".
    computed: bool,
}

impl Opaque for Quantity {
    fn cel_type(&self) -> Type {
        Type::Object(QUANTITY.into())
    }

    fn equals(&self, other: &Value<'_>) -> Result<bool, EvalError> {
        match own::<Quantity>(other) {
            Some(other) if !other.computed => Ok(self.amount == other.amount),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn text(&self) -> String {
        self.amount.to_string()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `quantity`, `isQuantity`, comparison, sums and conversions.
pub fn library() -> Library {
    let quantity = Type::Object(QUANTITY.into());
    let compares = |name, id, result, run: Run| {
        Function::new(name, [Overload::method(id, [quantity.clone(), quantity.clone()], result, run)])
    };
    let gives = |name, id, result, run: Run| {
        Function::new(name, [Overload::method(id, [quantity.clone()], result, run)])
    };
    let sums = |name, ids: [&'static str; 2], run: Run| {
        let [quantities, ints] = ids;
        Function::new(
            name,
            [
                Overload::method(quantities, [quantity.clone(), quantity.clone()], quantity.clone(), run),
                Overload::method(ints, [quantity.clone(), Type::Int], quantity.clone(), run),
            ],
        )
    };
    Library {
        functions: vec![
            Function::new(
                "quantity",
                [Overload::function("string_to_quantity", [Type::String], quantity.clone(), |args| {
                    match Amount::parse(text(args, 0)?) {
                        Ok(amount) => Ok(Value::Opaque(Arc::new(Quantity { amount, computed: false }))),
                        Err(error) => Err(EvalError::Failed(error.to_string())),
                    }
                })],
            ),
            Function::new(
                "isQuantity",
                [Overload::function("is_quantity_string", [Type::String], Type::Bool, |args| {
                    Ok(Value::Bool(Amount::parse(text(args, 0)?).is_ok()))
                })],
            ),
            // kube-apiserver declares this one as a function and not as a method.
            Function::new(
                "sign",
                [Overload::function("quantity_sign", [quantity.clone()], Type::Int, |args| {
                    Ok(Value::Int(i64::from(opaque::<Quantity>(args, 0)?.amount.sign())))
                })],
            ),
            compares("isGreaterThan", "quantity_is_greater_than", Type::Bool, |args| {
                Ok(Value::Bool(order(args)?.is_gt()))
            }),
            compares("isLessThan", "quantity_is_less_than", Type::Bool, |args| {
                Ok(Value::Bool(order(args)?.is_lt()))
            }),
            compares("compareTo", "quantity_compare_to", Type::Int, |args| {
                Ok(Value::Int(order(args)? as i64))
            }),
            gives("asApproximateFloat", "quantity_get_float", Type::Double, |args| {
                Ok(Value::Double(opaque::<Quantity>(args, 0)?.amount.as_f64()))
            }),
            gives("asInteger", "quantity_get_int", Type::Int, |args| {
                let integer = opaque::<Quantity>(args, 0)?.amount.as_i64();
                integer
                    .map(Value::Int)
                    .ok_or_else(|| EvalError::Failed("cannot convert value to integer".into()))
            }),
            gives("isInteger", "quantity_is_integer", Type::Bool, |args| {
                Ok(Value::Bool(opaque::<Quantity>(args, 0)?.amount.as_i64().is_some()))
            }),
            sums("add", ["quantity_add", "quantity_add_int"], |args| compute(args, Amount::try_add)),
            sums("sub", ["quantity_sub", "quantity_sub_int"], |args| compute(args, Amount::try_sub)),
        ],
        ..Library::default()
    }
}

fn order(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    Ok(opaque::<Quantity>(args, 0)?.amount.cmp(&opaque::<Quantity>(args, 1)?.amount))
}

type Sum = fn(&mut Amount, &Amount) -> Result<(), TooManyDigits>;

fn compute<'a>(args: &[Value<'a>], sum: Sum) -> Outcome<'a> {
    let mut amount = opaque::<Quantity>(args, 0)?.amount.clone();
    let summed = match opaque::<Quantity>(args, 1) {
        Ok(right) => sum(&mut amount, &right.amount),
        Err(_) => sum(&mut amount, &Amount::new(int_operand(args, 1)?, Format::DecimalSI)),
    };
    summed.map_err(|error| EvalError::Failed(error.to_string()))?;
    Ok(Value::Opaque(Arc::new(Quantity { amount, computed: true })))
}
