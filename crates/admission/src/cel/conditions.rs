//! `matchConditions`: whether a webhook or a policy applies to a request.

use super::{Activation, CONDITIONS_BUDGET, Expression, Inputs, Variables};
use pintle_cel::types::Type;
use pintle_cel::value::Value as CelValue;
use pintle_kinds::admission_expressions::{Expressions, Offered};
use pintle_value::Value;

/// The match conditions of a webhook or a policy, compiled.
#[derive(Default)]
pub struct Conditions(Vec<Expression>);

impl Conditions {
    /// Compiles the `matchConditions` of a webhook.
    pub fn compile(entries: &[Value]) -> Self {
        let offered = Offered { params: false, authorizer: true, patches: false };
        Conditions::compile_within(entries, &Expressions::default(), offered)
    }

    pub(crate) fn compile_within(entries: &[Value], expressions: &Expressions, offered: Offered) -> Self {
        let compile = |entry: &Value| {
            let text = entry.str_at(&["expression"]);
            Expression::new(text, expressions.check(text, offered, &[Type::Bool]))
        };
        Conditions(entries.iter().map(compile).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether all conditions are true. A false one decides, whatever the others are; otherwise a failing one
    /// is an error if `fails` (failurePolicy `Fail`) is set, and no match if not.
    pub fn matches(&self, inputs: &Inputs<'_>, fails: bool) -> Result<bool, String> {
        self.matches_within(inputs, None, fails)
    }

    pub(crate) fn matches_within(
        &self,
        inputs: &Inputs<'_>,
        variables: Option<&Variables>,
        fails: bool,
    ) -> Result<bool, String> {
        if self.0.is_empty() {
            return Ok(true);
        }
        // Conditions cannot use `namespaceObject`.
        let activation = Activation::new(Inputs { namespace: None, ..*inputs }, variables);
        let mut budget = CONDITIONS_BUDGET;
        let mut outcomes = Vec::with_capacity(self.0.len());
        for condition in &self.0 {
            match activation.evaluate(condition, &mut budget) {
                Ok(outcome) => outcomes.push(outcome),
                Err(out_of_budget) if fails => return Err(out_of_budget.text()),
                Err(_) => return Ok(false),
            }
        }
        if outcomes.iter().any(|outcome| matches!(outcome, Ok(CelValue::Bool(false)))) {
            return Ok(false);
        }
        let errors: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
        match errors.is_empty() {
            true => Ok(true),
            false if fails => Err(together(&errors)),
            false => Ok(false),
        }
    }
}

/// Joins several errors into one text without duplicates.
fn together(errors: &[String]) -> String {
    let mut told: Vec<&str> = Vec::new();
    for error in errors {
        if !told.contains(&error.as_str()) {
            told.push(error);
        }
    }
    match told.as_slice() {
        [one] => (*one).to_string(),
        many => format!("[{}]", many.join(", ")),
    }
}
