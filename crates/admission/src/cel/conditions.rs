//! `matchConditions`: whether a webhook or a policy applies to a request.

use super::{Activation, CONDITIONS_BUDGET, Expression, Inputs, Variables};
use pintle_cel::types::Type;
use pintle_cel::value::Value as CelValue;
use pintle_kinds::admission_expressions::{Expressions, Offered};
use pintle_metrics::families;
use pintle_value::Value;
use std::time::Instant;

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

    /// Returns whether all conditions are true. A false one decides, regardless of the others; otherwise a failing
    /// one is an error if `fails` (failurePolicy `Fail`) is set, and no match if not.
    pub fn matches(&self, inputs: &Inputs<'_>, fails: bool) -> Result<bool, String> {
        self.matches_within(inputs, None, fails)
    }

    /// Evaluates the conditions of a policy, and counts the result as kube-apiserver does: conditions that are all
    /// met are not timed.
    pub(crate) fn matches_of_policy(
        &self,
        policy: &str,
        inputs: &Inputs<'_>,
        variables: &Variables,
        fails: bool,
    ) -> Result<bool, String> {
        if self.0.is_empty() {
            return Ok(true);
        }
        let began = Instant::now();
        let (met, errors) = self.evaluate(inputs, Some(variables), fails);
        if met != Ok(true) {
            let labels = ["policy", policy, inputs.request.str_at(&["operation"]), "validate"];
            if errors > 0 {
                families::CONDITION_ERRORS.add(&labels, errors);
            }
            families::CONDITION_DURATION.observe(&labels, began.elapsed().as_secs_f64());
        }
        met
    }

    fn matches_within(
        &self,
        inputs: &Inputs<'_>,
        variables: Option<&Variables>,
        fails: bool,
    ) -> Result<bool, String> {
        self.evaluate(inputs, variables, fails).0
    }

    /// Returns whether all conditions are met, and how many failed before the first that is not.
    fn evaluate(
        &self,
        inputs: &Inputs<'_>,
        variables: Option<&Variables>,
        fails: bool,
    ) -> (Result<bool, String>, u64) {
        if self.0.is_empty() {
            return (Ok(true), 0);
        }
        // Conditions cannot use `namespaceObject`.
        let activation = Activation::new(Inputs { namespace: None, ..*inputs }, variables);
        let mut budget = CONDITIONS_BUDGET;
        let mut outcomes = Vec::with_capacity(self.0.len());
        for condition in &self.0 {
            match activation.evaluate(condition, &mut budget) {
                Ok(outcome) => outcomes.push(outcome),
                Err(out_of_budget) if fails => return (Err(out_of_budget.text()), 0),
                Err(_) => return (Ok(false), 0),
            }
        }
        let is_unmet = |outcome: &Result<CelValue, String>| matches!(outcome, Ok(CelValue::Bool(false)));
        let unmet = outcomes.iter().position(is_unmet);
        let before = outcomes.get(..unmet.unwrap_or(outcomes.len())).unwrap_or_default();
        let failed = before.iter().filter(|outcome| outcome.is_err()).count();
        let failed = u64::try_from(failed).unwrap_or(u64::MAX);
        if unmet.is_some() {
            return (Ok(false), failed);
        }
        let errors: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
        let met = if errors.is_empty() {
            Ok(true)
        } else if fails {
            Err(together(&errors))
        } else {
            Ok(false)
        };
        (met, failed)
    }
}

/// Joins several errors into one text without duplicates.
fn together(errors: &[String]) -> String {
    let mut reported: Vec<&str> = Vec::new();
    for error in errors {
        if !reported.contains(&error.as_str()) {
            reported.push(error);
        }
    }
    match reported.as_slice() {
        [one] => (*one).to_string(),
        many => format!("[{}]", many.join(", ")),
    }
}
