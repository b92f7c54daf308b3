//! Evaluates plans: one function per step, with a running cost that ends the evaluation at its limit.

use std::sync::Arc;

use crate::plan::{Binary, Call, Dispatch, Element, Member, Node, ObjectLiteral, Plan, Set};
use crate::program::Variables;
use crate::types::Type;
use crate::value::{EvalError, Object, Value};

mod attribute;
mod fold;
pub(crate) mod operator;
mod price;

pub(crate) use attribute::check_key;
pub(crate) use price::{Price, Prices};

/// The result of a step.
type Outcome<'a> = Result<Value<'a>, EvalError>;

/// One evaluation.
pub(crate) struct Evaluator<'a, 'v> {
    variables: &'v dyn Variables<'a>,
    /// The values of the loops' variables.
    locals: Vec<Local<'a>>,
    prices: &'a Prices,
    /// The last computed key that was not found.
    missed: Value<'a>,
    cost: u64,
    limit: u64,
}

/// A variable of a loop.
enum Local<'a> {
    /// A node that is evaluated when it is first read.
    Lazy(&'a Node),
    Ready(Outcome<'a>),
}

impl<'a, 'v> Evaluator<'a, 'v> {
    pub(crate) fn new(plan: &Plan, variables: &'v dyn Variables<'a>, prices: &'a Prices, limit: u64) -> Self {
        let locals = std::iter::repeat_with(|| Local::Ready(Ok(Value::Null))).take(plan.locals).collect();
        Evaluator { variables, locals, prices, missed: Value::Null, cost: 0, limit }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    #[inline]
    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::CostLimit) } else { Ok(()) }
    }

    pub(crate) fn eval(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::Has(attribute) => self.has(attribute),
            Node::And(terms) => self.logic(terms, false),
            Node::Or(terms) => self.logic(terms, true),
            Node::Equal(operands) => {
                let (left, right) = self.compared(operands)?;
                left.equals(&right).map(Value::Bool)
            }
            Node::NotEqual(operands) => {
                let (left, right) = self.compared(operands)?;
                // Values that cannot be compared are not equal.
                Ok(Value::Bool(!left.equals(&right).unwrap_or(false)))
            }
            Node::Binary(binary) => self.eval_binary(binary),
            Node::Not(operand) => self.eval_not(operand),
            Node::NotStrictlyFalse(operand) => {
                let operand = limited(self.eval(operand))?;
                self.charge(1)?;
                Ok(Value::Bool(!matches!(operand, Ok(Value::Bool(false)))))
            }
            Node::Member(member) => self.eval_member(member),
            Node::OptionalOr(operands) => match self.eval(&operands.0)? {
                Value::Optional(None) => self.eval(&operands.1),
                value => Ok(value),
            },
            Node::OptionalOrValue(operands) => match self.eval(&operands.0)? {
                Value::Optional(None) => self.eval(&operands.1),
                Value::Optional(Some(value)) => Ok(Arc::unwrap_or_clone(value)),
                value => Ok(value),
            },
            Node::Call(call) => self.eval_call(call),
            Node::List(elements) => {
                let list = limited(self.eval_list(elements))?;
                self.charge(crate::cost::LIST_CREATE)?;
                list.map(literal_list)
            }
            Node::Map(entries) => {
                let map = limited(self.eval_map(entries))?;
                self.charge(crate::cost::MAP_CREATE)?;
                map
            }
            Node::Object(object) => {
                let object = limited(self.eval_object(object))?;
                self.charge(crate::cost::OBJECT_CREATE)?;
                object
            }
            Node::Fold(fold) => self.eval_fold(fold),
        }
    }

    /// `&&` (which ends at `false`) and `||` (which ends at `true`). Otherwise the first error is the result.
    fn logic(&mut self, terms: &'a [Node], end: bool) -> Outcome<'a> {
        let mut failed = None;
        for term in terms {
            match limited(self.eval(term))? {
                Ok(Value::Bool(value)) if value == end => return Ok(Value::Bool(end)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(EvalError::NoSuchOverload)),
                Err(err) => failed = failed.or(Some(err)),
            }
        }
        failed.map_or(Ok(Value::Bool(!end)), Err)
    }

    fn eval_not(&mut self, operand: &'a Node) -> Outcome<'a> {
        let operand = limited(self.eval(operand))?;
        self.charge(1)?;
        match operand? {
            Value::Bool(value) => Ok(Value::Bool(!value)),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    /// Evaluates both operands, even if the first fails.
    fn operands(&mut self, left: &'a Node, right: &'a Node) -> Result<(Outcome<'a>, Outcome<'a>), EvalError> {
        Ok((limited(self.eval(left))?, limited(self.eval(right))?))
    }

    /// The operands of `==` or `!=`, with their cost charged.
    fn compared(&mut self, operands: &'a (Node, Node)) -> Result<(Value<'a>, Value<'a>), EvalError> {
        let (left, right) = self.operands(&operands.0, &operands.1)?;
        let cost = self.prices.cost_of_equality(&left, &right);
        self.charge(cost)?;
        Ok((left?, right?))
    }

    fn eval_binary(&mut self, binary: &'a Binary) -> Outcome<'a> {
        let (left, right) = self.operands(&binary.left, &binary.right)?;
        let cost = match binary.price {
            Price::One => 1,
            price => price.of_sizes(size(&left), || size(&right)),
        };
        self.charge(cost)?;
        match (&left, &right) {
            (Ok(left), Ok(right)) => binary.operator.apply(left, right),
            _ => Err(left.err().or(right.err()).unwrap_or(EvalError::NoSuchOverload)),
        }
    }

    fn eval_member(&mut self, member: &'a Member) -> Outcome<'a> {
        let wanted = self.eval(&member.wanted)?;
        let found = match (&member.set, &wanted) {
            (Set::Texts(texts), Value::String(wanted)) => {
                texts.binary_search_by(|text| (**text).cmp(wanted.as_str())).is_ok()
            }
            (Set::Texts(_), _) => false,
            (Set::Other(values), wanted) => values.iter().any(|value| value.equals(wanted).unwrap_or(false)),
        };
        Ok(Value::Bool(found))
    }

    fn eval_call(&mut self, call: &'a Call) -> Outcome<'a> {
        // cel-go stops at the first argument that fails, and charges nothing, unless it planned the call for exactly one
        // or two arguments.
        let stops =
            call.args.len() > 2 || matches!(call.dispatch, Dispatch::ByOverload(_) | Dispatch::Prepared(_));
        match &*call.args {
            [] => self.finish(call, &[]),
            [argument] => match limited(self.eval(argument))? {
                Ok(value) => self.finish(call, &[value]),
                Err(err) if stops => Err(err),
                Err(err) => self.refuse(call, &[Value::Null], err),
            },
            [first, second] if !stops => match self.operands(first, second)? {
                (Ok(first), Ok(second)) => self.finish(call, &[first, second]),
                (first, second) => {
                    let err = first.as_ref().err().or(second.as_ref().err()).cloned();
                    let args = [first.unwrap_or(Value::Null), second.unwrap_or(Value::Null)];
                    self.refuse(call, &args, err.unwrap_or(EvalError::NoSuchOverload))
                }
            },
            [first, second] => {
                let args = [self.eval(first)?, self.eval(second)?];
                self.finish(call, &args)
            }
            args => {
                let args: Vec<_> =
                    args.iter().map(|argument| self.eval(argument)).collect::<Result<_, _>>()?;
                self.finish(call, &args)
            }
        }
    }

    fn finish(&mut self, call: &'a Call, args: &[Value<'a>]) -> Outcome<'a> {
        let result = Evaluator::run(call, args);
        let cost = self.prices.call_cost(call, args, result.as_ref().unwrap_or(&Value::Null));
        self.charge(cost)?;
        result
    }

    /// Handles a failed argument: charges the call without executing it. cel-go takes the argument of `sort` and `distinct`
    /// for a list when it charges them.
    fn refuse(&mut self, call: &'a Call, args: &[Value<'a>], err: EvalError) -> Outcome<'a> {
        if matches!(call.function, "sort" | "distinct") && !call.trackers.is_empty() {
            return Err(EvalError::Panic(
                "interface conversion: *types.Err is not traits.Lister: missing method Add",
            ));
        }
        let cost = self.prices.call_cost(call, args, &Value::Null);
        self.charge(cost)?;
        Err(err)
    }

    /// Executes a call.
    pub(crate) fn run<'b>(call: &Call, args: &[Value<'b>]) -> Outcome<'b> {
        match &call.dispatch {
            Dispatch::Direct(run) => run(args),
            Dispatch::Prepared(run) => run(args),
            Dispatch::Guarded(run, params) if takes(params, args) => run(args),
            Dispatch::Guarded(..) => Err(no_such_overload(call.function, args)),
            Dispatch::ByOverload(function) => {
                let overload = function.overloads.iter().find(|overload| takes(&overload.params, args));
                overload.map_or_else(
                    || Err(no_such_overload(call.function, args)),
                    |overload| (overload.run)(args),
                )
            }
        }
    }

    /// The elements of a list literal; empty optionals are omitted.
    fn eval_list(&mut self, elements: &'a [Element]) -> Result<Vec<Value<'a>>, EvalError> {
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            let value = self.eval(&element.node)?;
            match (element.optional, value) {
                (false, value) => values.push(value),
                (true, Value::Optional(value)) => values.extend(value.map(Arc::unwrap_or_clone)),
                (true, value) => {
                    let message =
                        format!("cannot initialize optional list element from non-optional value {value}");
                    return Err(EvalError::Failed(message));
                }
            }
        }
        Ok(values)
    }

    fn eval_map(&mut self, entries: &'a [(Node, Element)]) -> Outcome<'a> {
        let mut values = Vec::with_capacity(entries.len());
        for (key, element) in entries {
            let key = self.eval(key)?;
            if self.prices.strict {
                check_new_key(&key, &values)?;
            }
            let value = self.eval(&element.node)?;
            match (element.optional, value) {
                (false, value) => values.push((key, value)),
                (true, Value::Optional(Some(value))) => values.push((key, Arc::unwrap_or_clone(value))),
                (true, Value::Optional(None)) => {
                    values.retain(|(known, _)| !known.equals(&key).unwrap_or(false))
                }
                (true, value) => return Err(not_optional(&key, &value)),
            }
        }
        Ok(literal_map(values))
    }

    fn eval_object(&mut self, object: &'a ObjectLiteral) -> Outcome<'a> {
        let mut values: Vec<(Arc<str>, Value<'a>)> = Vec::with_capacity(object.fields.len());
        for (name, element) in &object.fields {
            let value = match (element.optional, self.eval(&element.node)?) {
                (false, value) => value,
                (true, Value::Optional(Some(value))) => Arc::unwrap_or_clone(value),
                (true, Value::Optional(None)) => continue,
                (true, value) => return Err(not_optional(&Value::from(name.clone()), &value)),
            };
            values.push((name.clone(), value));
        }
        Ok(Value::Object(Object::Shared(object.name.clone(), values.into())))
    }
}

/// Returns an error only if the evaluation is over; the caller handles all others.
#[inline]
fn limited<T>(outcome: Result<T, EvalError>) -> Result<Result<T, EvalError>, EvalError> {
    match outcome {
        Err(err @ (EvalError::CostLimit | EvalError::Panic(_))) => Err(err),
        outcome => Ok(outcome),
    }
}

fn size(outcome: &Outcome<'_>) -> u64 {
    outcome.as_ref().map_or(1, Value::size)
}

/// Checks a key of a map literal according to the specification: its type, and that it is new.
fn check_new_key(key: &Value<'_>, entries: &[(Value<'_>, Value<'_>)]) -> Result<(), EvalError> {
    if !matches!(key, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::String(_)) {
        return Err(EvalError::Failed(format!("unsupported key type: {}", key.type_name())));
    }
    if entries.iter().any(|(known, _)| known.equals(key).unwrap_or(false)) {
        Err(EvalError::Failed(format!("Failed with repeated key: {key}")))
    } else {
        Ok(())
    }
}

fn not_optional(key: &Value<'_>, value: &Value<'_>) -> EvalError {
    EvalError::Failed(format!("cannot initialize optional entry '{key}' from non-optional value {value}"))
}

fn no_such_overload(function: &str, args: &[Value<'_>]) -> EvalError {
    let types: Vec<_> = args.iter().map(Value::type_name).collect();
    EvalError::Failed(format!("no such overload: {function}({})", types.join(", ")))
}

/// Whether values match the parameters of an overload, by their types at run time.
fn takes(params: &[Type], args: &[Value<'_>]) -> bool {
    params.len() == args.len() && params.iter().zip(args).all(|(param, value)| is_accepted_by(param, value))
}

fn is_accepted_by(param: &Type, value: &Value<'_>) -> bool {
    match (param, value) {
        (Type::Dyn | Type::Any | Type::Param(_) | Type::Error, _) => true,
        (Type::Wrapper(ty), value) => matches!(value, Value::Null) || is_accepted_by(ty, value),
        (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Map(_), Value::Object(Object::Tree(..)))
        | (Type::Type(_), Value::Type(_)) => true,
        // Of lists and maps, as in cel-go, only the first element counts.
        (Type::List(of), Value::List(list)) => {
            list.get(0).is_none_or(|first| is_read_accepted_by(of, &first))
        }
        (Type::Map(of), Value::Map(map)) => map
            .entry(0)
            .is_none_or(|(key, value)| is_accepted_by(&of.0, &key) && is_read_accepted_by(&of.1, &value)),
        (Type::Object(name), Value::Object(Object::Shared(other, _) | Object::Input(_, other))) => {
            name == other
        }
        (Type::Object(_), Value::Object(Object::Tree(..))) => true,
        (Type::Opaque(name, _), Value::Optional(_)) => **name == *crate::types::OPTIONAL,
        (Type::Opaque(name, _), Value::Opaque(opaque)) => opaque.cel_type().runtime_name() == *name,
        _ => false,
    }
}

fn is_read_accepted_by(param: &Type, read: &Result<Value<'_>, EvalError>) -> bool {
    matches!(param, Type::Dyn | Type::Any | Type::Param(_) | Type::Error)
        || read.as_ref().is_ok_and(|value| is_accepted_by(param, value))
}

/// The value of a list literal.
pub(crate) fn literal_list(elements: Vec<Value<'_>>) -> Value<'_> {
    Value::list(elements)
}

/// The value of a map literal.
pub(crate) fn literal_map<'a>(entries: Vec<(Value<'a>, Value<'a>)>) -> Value<'a> {
    Value::map(entries)
}
