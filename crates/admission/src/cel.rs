//! CEL expressions of admission at run time: their variables, cost limits and errors. Independent of policies and
//! webhooks.

mod conditions;
mod request_authorizer;
#[cfg(test)]
mod tests;

pub use conditions::Conditions;
pub use request_authorizer::RequestAuthorizer;

use pintle_cel::env::Checked;
use pintle_cel::program::Program;
use pintle_cel::value::{EvalError, Object, Value as CelValue};
use pintle_kinds::admission_expressions::{Expressions, Offered, VARIABLES_TYPE};
use pintle_value::{Str, Value};
use std::cell::{Cell, RefCell};

/// The cost limit of one evaluation of an expression.
const CALL_COST_MAX: u64 = 1_000_000;
/// The cost limit of the expressions of a policy for one request and one parameter.
pub(crate) const POLICY_BUDGET: u64 = 10_000_000;
/// The cost limit of the match conditions of a policy or webhook for one request.
const CONDITIONS_BUDGET: u64 = 2_500_000;
/// The variable that contains a policy's variables.
const VARIABLES: &str = "variables";

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The inputs of expressions. A missing object is null; without an authorizer, `authorizer` cannot be used.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The new object, in the version that matched.
    pub object: Option<&'a Value>,
    /// The old object, in the version that matched.
    pub old: Option<&'a Value>,
    /// The `AdmissionRequest`, without objects.
    pub request: &'a Value,
    /// The namespace of the object.
    pub namespace: Option<&'a Value>,
    /// The parameter of a policy.
    pub params: Option<&'a Value>,
    /// Answers the checks of `authorizer`.
    pub request_authorizer: Option<&'a RequestAuthorizer>,
}

/// A compiled expression. If it does not compile, every evaluation returns that error.
pub(crate) struct Expression {
    pub(crate) text: Str,
    program: Result<Program, String>,
}

impl Expression {
    pub(crate) fn new(text: &str, checked: Result<Checked, String>) -> Self {
        let planned = checked
            .and_then(|checked| checked.plan().map_err(|why| format!("program instantiation failed: {why}")));
        Expression { text: text.into(), program: planned }
    }

    /// The compilation error, if any.
    pub(crate) fn error(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }
}

/// The variables of a policy, compiled.
#[derive(Default)]
pub(crate) struct Variables(Vec<(Str, Expression)>);

impl Variables {
    /// Compiles variables and declares them in `expressions`.
    pub(crate) fn compile(entries: &[Value], expressions: &mut Expressions, offered: Offered) -> Self {
        let compile = |entry: &Value| {
            let (name, text) = (entry.str_at(&["name"]), entry.str_at(&["expression"]));
            (name.into(), Expression::new(text, expressions.declare(name, text, offered)))
        };
        Variables(entries.iter().map(compile).collect())
    }

    /// The index of the variable; of two with the same name, the later one.
    fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().rposition(|(known, _)| known == name)
    }
}

/// The budget is exhausted: no further expression is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfBudget;

impl OutOfBudget {
    pub(crate) fn text(self) -> String {
        OUT_OF_BUDGET.to_string()
    }
}

/// Evaluates expressions over the same inputs. Each variable is computed once, when it is first used.
pub(crate) struct Activation<'a> {
    inputs: Inputs<'a>,
    variables: Option<&'a Variables>,
    values: RefCell<Vec<Lazy<'a>>>,
    /// The cost of variables since the last expression.
    spent: Cell<u64>,
}

#[derive(Clone)]
enum Lazy<'a> {
    Unknown,
    /// The variable is being evaluated; a variable that refers to itself finds this.
    Evaluating,
    Known(Result<CelValue<'a>, EvalError>),
}

impl<'a> Activation<'a> {
    pub(crate) fn new(inputs: Inputs<'a>, variables: Option<&'a Variables>) -> Self {
        let values = vec![Lazy::Unknown; variables.map_or(0, |variables| variables.0.len())];
        Activation { inputs, variables, values: RefCell::new(values), spent: Cell::new(0) }
    }

    /// Evaluates an expression; the error is the reason for the failure.
    pub(crate) fn evaluate(
        &self,
        expression: &'a Expression,
        budget: &mut u64,
    ) -> Result<Result<CelValue<'a>, String>, OutOfBudget> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Ok(Err(format!("compilation error: {why}"))),
        };
        let evaluation = program.eval_with(self, Some(CALL_COST_MAX));
        for cost in [self.spent.take(), evaluation.cost] {
            *budget = budget.checked_sub(cost).ok_or(OutOfBudget)?;
        }
        Ok(evaluation
            .result
            .map_err(|why| format!("expression '{}' resulted in error: {why}", expression.text)))
    }

    fn compute_variable(&self, name: &str, expression: &'a Expression) -> Result<CelValue<'a>, EvalError> {
        let failed =
            |why: String| EvalError::Failed(format!("composited variable \"{name}\" fails to {why}"));
        let program = expression.program.as_ref().map_err(|why| failed(format!("compile: {why}")))?;
        let evaluation = program.eval_with(self, Some(CALL_COST_MAX));
        self.spent.set(self.spent.get().saturating_add(evaluation.cost));
        evaluation.result.map_err(|why| failed(format!("evaluate: {why}")))
    }
}

impl<'a> pintle_cel::program::Variables<'a> for Activation<'a> {
    fn variable(&self, name: &str) -> Option<Result<CelValue<'a>, EvalError>> {
        let tree = |tree: Option<&'a Value>| Some(Ok(tree.map_or(CelValue::Null, CelValue::any)));
        match name {
            "object" => tree(self.inputs.object),
            "oldObject" => tree(self.inputs.old),
            // At run time these are plain maps, although the checker has types for them.
            "request" => tree(Some(self.inputs.request)),
            "namespaceObject" => tree(self.inputs.namespace),
            "params" => tree(self.inputs.params),
            "authorizer" => {
                self.inputs.request_authorizer.map(|request_authorizer| Ok(request_authorizer.authorizer()))
            }
            "authorizer.requestResource" => self
                .inputs
                .request_authorizer
                .map(|request_authorizer| Ok(request_authorizer.request_resource())),
            VARIABLES => Some(Ok(CelValue::Object(Object::Input(VARIABLES.into(), VARIABLES_TYPE.into())))),
            _ => None,
        }
    }

    fn field(&self, _of: &str, name: &str) -> Option<Result<CelValue<'a>, EvalError>> {
        let variables = self.variables?;
        let at = variables.position(name)?;
        let (_, expression) = variables.0.get(at)?;
        let put = |state: Lazy<'a>| {
            if let Some(place) = self.values.borrow_mut().get_mut(at) {
                *place = state;
            }
        };
        let state = self.values.borrow().get(at).cloned()?;
        match state {
            Lazy::Known(value) => Some(value),
            Lazy::Evaluating => {
                Some(Err(EvalError::Failed(format!("variable \"{name}\" depends on itself"))))
            }
            Lazy::Unknown => {
                put(Lazy::Evaluating);
                let value = self.compute_variable(name, expression);
                put(Lazy::Known(value.clone()));
                Some(value)
            }
        }
    }
}
