//! `quantity()`: amounts of resources, compared and added.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::decl::declare;
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
}

/// `quantity`, `isQuantity`, comparison, sums and conversions.
pub fn library() -> Library {
    let functions = declare(
        &[("quantity", Type::Object(QUANTITY.into()))],
        &[
            ("quantity", "string_to_quantity", "(string) -> quantity", |args| {
                match Amount::parse(text(args, 0)?) {
                    Ok(amount) => Ok(Value::Opaque(Arc::new(Quantity { amount, computed: false }))),
                    Err(error) => Err(EvalError::Failed(error.to_string())),
                }
            }),
            ("isQuantity", "is_quantity_string", "(string) -> bool", |args| {
                Ok(Value::Bool(Amount::parse(text(args, 0)?).is_ok()))
            }),
            // kube-apiserver declares this one as a function and not as a method.
            ("sign", "quantity_sign", "(quantity) -> int", |args| {
                Ok(Value::Int(i64::from(opaque::<Quantity>(args, 0)?.amount.sign())))
            }),
            ("isGreaterThan", "quantity_is_greater_than", "quantity.(quantity) -> bool", |args| {
                Ok(Value::Bool(order(args)?.is_gt()))
            }),
            ("isLessThan", "quantity_is_less_than", "quantity.(quantity) -> bool", |args| {
                Ok(Value::Bool(order(args)?.is_lt()))
            }),
            ("compareTo", "quantity_compare_to", "quantity.(quantity) -> int", |args| {
                Ok(Value::Int(order(args)? as i64))
            }),
            ("asApproximateFloat", "quantity_get_float", "quantity.() -> double", |args| {
                Ok(Value::Double(opaque::<Quantity>(args, 0)?.amount.as_f64()))
            }),
            ("asInteger", "quantity_get_int", "quantity.() -> int", |args| {
                let integer = opaque::<Quantity>(args, 0)?.amount.as_i64();
                integer
                    .map(Value::Int)
                    .ok_or_else(|| EvalError::Failed("cannot convert value to integer".into()))
            }),
            ("isInteger", "quantity_is_integer", "quantity.() -> bool", |args| {
                Ok(Value::Bool(opaque::<Quantity>(args, 0)?.amount.as_i64().is_some()))
            }),
            ("add", "quantity_add", "quantity.(quantity) -> quantity", add),
            ("add", "quantity_add_int", "quantity.(int) -> quantity", add),
            ("sub", "quantity_sub", "quantity.(quantity) -> quantity", subtract),
            ("sub", "quantity_sub_int", "quantity.(int) -> quantity", subtract),
        ],
    );
    Library { functions, ..Library::default() }
}

fn add<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    compute(args, Amount::try_add)
}

fn subtract<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    compute(args, Amount::try_sub)
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
