//! `Program`: a planned expression. Programs are shared between threads and evaluated over borrowed values.

use crate::ast::Ast;
use crate::env::{Checked, Env, Options};
use crate::eval::{Evaluator, Prices};
use crate::plan::{self, Plan};
use crate::value::{EvalError, Value};

/// An expression that is ready to run.
pub struct Program {
    plan: Plan,
    prices: Prices,
}

/// Why an expression cannot become a program: a constant conversion that fails, or too deep a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub String);

/// The result of an evaluation.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    /// The value or the error.
    pub result: Result<Value<'a>, EvalError>,
    /// The actual cost.
    pub cost: u64,
}

/// Provides the variables of an evaluation.
pub trait Variables<'a> {
    /// The value of a variable; `None` if it is unset.
    fn variable(&self, name: &str) -> Option<Result<Value<'a>, EvalError>>;

    /// A field of a variable that is an [`Object::Input`](crate::value::Object); `None` if it has no such field.
    fn field(&self, _of: &str, _name: &str) -> Option<Result<Value<'a>, EvalError>> {
        None
    }
}

/// Variables by name.
struct Named<'v, 'a>(&'v [(&'v str, Value<'a>)]);

impl<'a> Variables<'a> for Named<'_, 'a> {
    fn variable(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| Ok(value.clone()))
    }
}

impl Program {
    /// Evaluates the expression. More than `limit` units of cost end it with `EvalError::CostLimit`.
    pub fn eval<'a>(&'a self, variables: &[(&str, Value<'a>)], limit: Option<u64>) -> Evaluation<'a> {
        self.eval_with(&Named(variables), limit)
    }

    /// Evaluates the expression with variables that are computed when they are needed.
    pub fn eval_with<'a>(&'a self, variables: &dyn Variables<'a>, limit: Option<u64>) -> Evaluation<'a> {
        let mut evaluator = Evaluator::new(&self.plan, variables, &self.prices, limit.unwrap_or(u64::MAX));
        let result = evaluator.eval(&self.plan.root);
        Evaluation { result, cost: evaluator.cost() }
    }

    fn new(env: &Env, plan: Plan) -> Program {
        let Options { presence_test_has_cost, strict, .. } = *env.options();
        let equality = env.trackers(crate::ast::operators::EQUALS, "equals");
        Program { plan, prices: Prices { equality, strict, presence_test_has_cost } }
    }
}

impl Checked {
    /// Plans the expression.
    pub fn plan(&self) -> Result<Program, PlanError> {
        Ok(Program::new(self.env(), plan::checked(self)?))
    }
}

impl Env {
    /// Plans an unchecked tree.
    pub fn plan_unchecked(&self, ast: &Ast) -> Result<Program, PlanError> {
        Ok(Program::new(self, plan::unchecked(self, &ast.root)?))
    }
}
