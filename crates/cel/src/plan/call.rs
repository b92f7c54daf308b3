//! Plans calls: operators have their own forms, functions are resolved to their overload.

use std::sync::Arc;

use super::attribute::qualified_name;
use super::{Binary, Call, Dispatch, Member, Node, Planner, Set, names_within};
use crate::ast::{Expr, operators};
use crate::decl::{Function, Overload};
use crate::env::Reference;
use crate::eval::operator::Operator;
use crate::eval::{Evaluator, Price};
use crate::program::PlanError;
use crate::regexp;
use crate::types::Type;
use crate::value::{EvalError, Value};

/// The conversions that are evaluated at planning if their argument is constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// The functions whose second argument is a pattern that is compiled at planning if it is constant.
const PATTERNS: [&str; 3] = ["find", "findAll", "matches"];

/// Functions that check the types of their arguments themselves, as cel-go's do.
const UNGUARDED: [&str; 8] =
    ["contains", "endsWith", "startsWith", "matches", "size", "type", "dyn", operators::NEGATE];

/// The one function with several overloads whose arguments cel-go does not check either: it takes lists that are already flat.
const ALSO_FLAT: &str = "flatten";

impl Planner<'_> {
    pub(super) fn plan_call(
        &mut self,
        expr: &Expr,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Result<Node, PlanError> {
        match function {
            operators::AND => return Ok(Node::And(self.terms(expr, operators::AND)?.into())),
            operators::OR => return Ok(Node::Or(self.terms(expr, operators::OR)?.into())),
            operators::CONDITIONAL => return self.conditional(args),
            operators::EQUALS => return Ok(Node::Equal(Box::new(self.plan_pair(args)?))),
            operators::NOT_EQUALS => return Ok(Node::NotEqual(Box::new(self.plan_pair(args)?))),
            operators::INDEX => return self.index(args, false),
            operators::OPT_INDEX | operators::OPT_SELECT => return self.index(args, true),
            operators::NOT | operators::NOT_STRICTLY_FALSE => {
                let [operand] = args else { return Err(unplannable(function)) };
                let operand = Box::new(self.plan(operand)?);
                let not = function == operators::NOT;
                return Ok(if not { Node::Not(operand) } else { Node::NotStrictlyFalse(operand) });
            }
            _ => {}
        }
        let overload = self.only_overload(expr);
        if let Some(operator) = Operator::of(function) {
            return self.plan_binary(operator, overload.as_ref(), args);
        }
        if let ("or" | "orValue", Some(target), [other]) = (function, target, args)
            && overload.as_ref().is_none_or(|overload| {
                matches!(overload.id, "optional_or_optional" | "optional_orValue_value")
            })
        {
            let operands = Box::new((self.plan(target)?, self.plan(other)?));
            return Ok(if function == "or" {
                Node::OptionalOr(operands)
            } else {
                Node::OptionalOrValue(operands)
            });
        }
        self.plan_function(expr, function, target, args, overload)
    }

    /// The operands of a chain of `&&` or `||`, in order.
    fn terms(&mut self, expr: &Expr, operator: &str) -> Result<Vec<Node>, PlanError> {
        let mut terms = Vec::new();
        let mut pending = vec![expr];
        while let Some(expr) = pending.pop() {
            match &expr.kind {
                crate::ast::ExprKind::Call { function, target: None, args } if **function == *operator => {
                    pending.extend(args.iter().rev());
                }
                _ => terms.push(self.plan(expr)?),
            }
        }
        Ok(terms)
    }

    fn plan_pair(&mut self, args: &[Expr]) -> Result<(Node, Node), PlanError> {
        let [left, right] = args else { return Err(PlanError("an operator takes two operands".into())) };
        Ok((self.plan(left)?, self.plan(right)?))
    }

    fn only_overload(&self, expr: &Expr) -> Option<Overload> {
        match self.reference(expr) {
            Some(Reference::Function(function, candidates)) => match candidates.as_slice() {
                [only] => function.overloads.get(usize::from(*only)).cloned(),
                _ => None,
            },
            _ => None,
        }
    }

    fn plan_binary(
        &mut self,
        operator: Operator,
        overload: Option<&Overload>,
        args: &[Expr],
    ) -> Result<Node, PlanError> {
        let (left, right) = self.plan_pair(args)?;
        let id = overload.map_or("", |overload| overload.id);
        if self.folds()
            && let (Operator::In, "in_list", Node::Constant(Value::List(list))) = (operator, id, &right)
        {
            let elements: Vec<_> = list.iter().flatten().collect();
            if elements.is_empty() {
                return Ok(Node::Constant(Value::Bool(false)));
            }
            if let Some(set) = Set::of(elements) {
                return Ok(Node::Member(Box::new(Member { wanted: left, set })));
            }
        }
        Ok(Node::Binary(Box::new(Binary { operator, price: Price::of(id), left, right })))
    }

    fn plan_function(
        &mut self,
        expr: &Expr,
        name: &str,
        target: Option<&Expr>,
        args: &[Expr],
        overload: Option<Overload>,
    ) -> Result<Node, PlanError> {
        let (function, target) = self.resolve(expr, name, target)?;
        let operands = target.into_iter().chain(args);
        let types_known = operands.clone().all(|operand| self.type_is_known(operand));
        let args: Vec<Node> = operands.map(|operand| self.plan(operand)).collect::<Result<_, _>>()?;
        if self.folds()
            && PATTERNS.contains(&function.name)
            && let Some(Node::Constant(Value::String(pattern))) = args.get(1)
            && let Some(why) = regexp::error(pattern.as_str())
        {
            return Err(PlanError(why));
        }
        let id = overload.as_ref().map_or("", |overload| overload.id);
        let dispatch = choose_dispatch(&function, overload.as_ref(), &args, types_known);
        let trackers = self.env.trackers(function.name, id);
        let call =
            Call { function: function.name, args: args.into(), dispatch, price: Price::of(id), trackers };
        if self.folds()
            && CONVERSIONS.contains(&call.function)
            && let [Node::Constant(argument)] = &*call.args
        {
            let value = Evaluator::run(&call, std::slice::from_ref(argument));
            return value.map(Node::Constant).map_err(|err: EvalError| PlanError(err.to_string()));
        }
        Ok(Node::Call(Box::new(call)))
    }

    /// The function and its target; a target that was part of the name is `None`.
    fn resolve<'x>(
        &self,
        expr: &Expr,
        name: &str,
        target: Option<&'x Expr>,
    ) -> Result<(Arc<Function>, Option<&'x Expr>), PlanError> {
        if let Some(Reference::Function(function, _)) = self.reference(expr) {
            return Ok((function.clone(), target));
        }
        let find = |name: &str| {
            names_within(self.env.container(), name).find_map(|name| self.env.function(&name).cloned())
        };
        if let Some(qualified) = target.and_then(qualified_name)
            && let Some(function) = find(&format!("{qualified}.{name}"))
        {
            return Ok((function, None));
        }
        // An unknown function fails when it is called, and not before.
        Ok((find(name).unwrap_or_else(unknown), target))
    }

    /// Whether the checker knows the type that the value has at run time. It does not if a variable is an optional, whose
    /// value has no schema.
    fn type_is_known(&self, expr: &Expr) -> bool {
        if self.env.has_optional_variable() {
            return false;
        }
        let Some(checked) = self.checked else { return false };
        is_concrete(checked.type_of(expr.id))
    }
}

/// Whether every value of the type has the same type at run time.
fn is_concrete(ty: &Type) -> bool {
    !matches!(ty, Type::Dyn | Type::Any | Type::Param(_) | Type::Error | Type::Wrapper(_) | Type::Null)
}

fn choose_dispatch(
    function: &Arc<Function>,
    overload: Option<&Overload>,
    args: &[Node],
    types_known: bool,
) -> Dispatch {
    let singleton = UNGUARDED.contains(&function.name);
    let Some(overload) = overload.or_else(|| function.overloads.first().filter(|_| singleton)) else {
        return Dispatch::ByOverload(function.clone());
    };
    let constants: Vec<_> = args.iter().map(Node::as_constant).collect();
    if let Some(prepared) = overload.prepare.and_then(|prepare| prepare(&constants)) {
        return Dispatch::Prepared(prepared);
    }
    if types_known || singleton || function.name == ALSO_FLAT {
        Dispatch::Direct(overload.run)
    } else {
        Dispatch::Guarded(overload.run, overload.params.clone())
    }
}

/// A function without overloads.
fn unknown() -> Arc<Function> {
    Arc::new(Function { name: "unbound", overloads: Vec::new() })
}

fn unplannable(function: &str) -> PlanError {
    PlanError(format!("no such overload: {function}"))
}

impl Set {
    /// `None` if an element is not of a primitive type.
    fn of(elements: Vec<Value<'static>>) -> Option<Set> {
        let texts: Option<Vec<Arc<str>>> =
            elements.iter().map(|element| element.as_str().map(Arc::from)).collect();
        if let Some(mut texts) = texts {
            texts.sort_unstable();
            return Some(Set::Texts(texts));
        }
        let primitive = |value: &Value<'_>| {
            matches!(
                value,
                Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
            )
        };
        elements.iter().all(primitive).then_some(Set::Other(elements))
    }
}
