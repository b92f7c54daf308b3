//! ValidatingAdmissionPolicy: evaluates validations and applies the actions of bindings.

use super::{Application, Binding, Broken, Evaluator, error_type};
use crate::Attributes;
use crate::cel::{Activation, Conditions, Expression, Inputs, OutOfBudget, POLICY_BUDGET, Variables};
use pintle_cel::types::Type;
use pintle_cel::value::Value as CelValue;
use pintle_kinds::admission_expressions::{Expressions, Offered};
use pintle_meta::{Cause, Reason, Status};
use pintle_metrics::families;
use pintle_value::{Str, Value};
use std::time::{Duration, Instant};

/// The longest result of a messageExpression in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The compiled expressions of a policy.
pub struct Validator {
    variables: Variables,
    conditions: Conditions,
    validations: Vec<Validation>,
    /// Keys and expressions of audit annotations.
    annotations: Vec<(Str, Expression)>,
}

struct Validation {
    expression: Expression,
    message: Str,
    message_expression: Option<Expression>,
    reason: Str,
}

/// A failed validation: its message and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Denial {
    message: String,
    reason: Str,
    /// The index of the validation.
    index: usize,
}

impl Denial {
    fn failed(message: String) -> Self {
        Denial { message, reason: Str::default(), index: 0 }
    }
}

/// The result of a policy for one parameter.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Failed validations, to which the binding's actions apply.
    denials: Vec<Denial>,
    /// Errors that deny the request whatever the binding's actions are.
    errors: Vec<String>,
    /// Errors that are ignored (failurePolicy `Ignore`).
    ignored: Vec<String>,
}

/// The combined result of all policies so far.
#[derive(Default)]
pub struct Verdict {
    /// The first denial, which the client receives.
    refusal: Option<(String, Str)>,
    /// The warnings for the client.
    pub warnings: Vec<String>,
}

impl Evaluator for Validator {
    const RESOURCES: [&'static str; 2] = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];

    fn compile(spec: &Value) -> Self {
        let params = spec.at(&["paramKind"]).is_some_and(|kind| !kind.is_null());
        let offered = Offered { params, authorizer: true, patches: false };
        let mut expressions = Expressions::composed();
        let variables = Variables::compile(spec.items_at(&["variables"]), &mut expressions, offered);
        let message = |validation: &Value| {
            let text = validation.str_at(&["messageExpression"]);
            let offered = Offered { authorizer: false, ..offered };
            (!text.is_empty())
                .then(|| Expression::new(text, expressions.check(text, offered, &[Type::String])))
        };
        let validation = |validation: &Value| {
            let text = validation.str_at(&["expression"]);
            Validation {
                expression: Expression::new(text, expressions.check(text, offered, &[Type::Bool])),
                message: validation.str_at(&["message"]).into(),
                message_expression: message(validation),
                reason: validation.str_at(&["reason"]).into(),
            }
        };
        let annotation = |annotation: &Value| {
            let text = annotation.str_at(&["valueExpression"]);
            let expression =
                Expression::new(text, expressions.check(text, offered, &[Type::String, Type::Null]));
            (Str::from(annotation.str_at(&["key"])), expression)
        };
        Validator {
            conditions: Conditions::compile_within(
                spec.items_at(&["matchConditions"]),
                &expressions,
                offered,
            ),
            validations: spec.items_at(&["validations"]).iter().map(validation).collect(),
            annotations: spec.items_at(&["auditAnnotations"]).iter().map(annotation).collect(),
            variables,
        }
    }
}

impl Validator {
    /// Evaluates the policy. `request_of_conditions` is the request as match conditions see it.
    fn validate(
        &self,
        policy: &str,
        inputs: &Inputs<'_>,
        request_of_conditions: &Value,
        fails: bool,
    ) -> Outcome {
        let failed = |why: String| {
            if fails {
                Outcome { denials: vec![Denial::failed(why)], ..Outcome::default() }
            } else {
                Outcome { ignored: vec![why], ..Outcome::default() }
            }
        };
        let of_conditions = Inputs { request: request_of_conditions, ..*inputs };
        match self.conditions.matches_of_policy(policy, &of_conditions, &self.variables, fails) {
            Ok(true) => {}
            Ok(false) => return Outcome::default(),
            Err(why) => return failed(why),
        }
        let (denials, ignored) = match self.denials(inputs, fails) {
            Ok(found) => found,
            Err(out) => return failed(out.text()),
        };
        match self.annotate(policy, inputs) {
            Ok(errors) => Outcome { denials, errors: if fails { errors } else { Vec::new() }, ignored },
            Err(out) => failed(out.text()),
        }
    }

    /// The failed validations, and the errors that are ignored.
    fn denials(&self, inputs: &Inputs<'_>, fails: bool) -> Result<(Vec<Denial>, Vec<String>), OutOfBudget> {
        let mut budget = POLICY_BUDGET;
        let activation = Activation::new(*inputs, Some(&self.variables));
        let evaluate = |validation| activation.evaluate(validation, &mut budget);
        let outcomes: Vec<_> =
            self.validations.iter().map(|v| &v.expression).map(evaluate).collect::<Result<_, _>>()?;
        let messages = self.messages(inputs, &mut budget);
        let (mut denials, mut ignored) = (Vec::new(), Vec::new());
        for (at, (validation, outcome)) in self.validations.iter().zip(outcomes).enumerate() {
            let message = messages.as_ref().map(|messages| messages.get(at).and_then(Option::as_deref));
            let failed = match (outcome, message) {
                (Err(why), _) => why,
                (Ok(_), Err(out)) => format!("failed messageExpression: {}", out.text()),
                (Ok(CelValue::Bool(true)), _) => continue,
                (Ok(_), Ok(message)) => {
                    denials.push(Denial { index: at, ..validation.make_denial(message) });
                    continue;
                }
            };
            if fails {
                denials.push(Denial { index: at, ..Denial::failed(failed) })
            } else {
                ignored.push(failed)
            }
        }
        Ok((denials, ignored))
    }

    /// Evaluates all messageExpressions, whether their validation fails or not; `None` for an unusable result.
    fn messages(&self, inputs: &Inputs<'_>, budget: &mut u64) -> Result<Vec<Option<String>>, OutOfBudget> {
        let activation =
            Activation::new(Inputs { request_authorizer: None, ..*inputs }, Some(&self.variables));
        let usable =
            |text: &String| !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
        let mut messages = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let said = match &validation.message_expression {
                Some(expression) => activation.evaluate(expression, budget)?.ok(),
                None => None,
            };
            let text = said.and_then(|said| said.as_str().map(|text| text.trim().to_string()));
            messages.push(text.filter(usable));
        }
        Ok(messages)
    }

    /// Adds the policy's audit annotations to the request's audit event and returns errors.
    fn annotate(&self, policy: &str, inputs: &Inputs<'_>) -> Result<Vec<String>, OutOfBudget> {
        let mut budget = POLICY_BUDGET;
        let activation =
            Activation::new(Inputs { request_authorizer: None, ..*inputs }, Some(&self.variables));
        let mut errors = Vec::new();
        for (key, expression) in &self.annotations {
            match activation.evaluate(expression, &mut budget)? {
                Err(why) => errors.push(why),
                Ok(value) => {
                    if let Some(text) = value.as_str().map(str::trim).filter(|text| !text.is_empty()) {
                        pintle_audit::annotate(&format!("{policy}/{key}"), || text.to_string());
                    }
                }
            }
        }
        Ok(errors)
    }
}

impl Validation {
    fn make_denial(&self, said: Option<&str>) -> Denial {
        let given = self.message.trim();
        let message = match said {
            Some(said) => said.to_string(),
            None if !given.is_empty() => given.to_string(),
            None => format!("failed expression: {}", self.expression.text.trim()),
        };
        Denial { message, reason: self.reason.clone(), index: 0 }
    }
}

/// Annotates a failed validation. As in kube-apiserver, only the first one of a request is recorded.
fn audit_failure(policy: &str, binding: &Binding, denial: &Denial) {
    pintle_audit::annotate("validation.policy.admission.k8s.io/validation_failure", || {
        let text = |text: &str| {
            let mut out = Vec::new();
            pintle_value::json::write_string(text, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        let actions: Vec<String> = binding.actions.iter().map(|action| text(action)).collect();
        format!(
            "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{},\"validationActions\":[{}]}}]",
            text(&denial.message),
            text(policy),
            text(&binding.name),
            denial.index,
            actions.join(",")
        )
    });
}

fn count_validation(policy: &str, binding: &str, action: &str, message: &str, took: Duration) {
    let labels = [action, error_type(message), policy, binding];
    families::VALIDATING_POLICY_CHECKS.inc(&labels);
    families::VALIDATING_POLICY_SECONDS.observe(&labels, took.as_secs_f64());
}

impl Verdict {
    /// Records that a policy cannot be evaluated.
    pub fn broken(&mut self, broken: &Broken<'_, Validator>) {
        if broken.policy.fails {
            let binding = broken.binding.map(|binding| &*binding.name);
            self.record_denial(&broken.policy.name, binding, Denial::failed(broken.text()));
        }
    }

    /// Evaluates a policy with one parameter.
    pub fn evaluate(
        &mut self,
        application: &Application<'_, Validator>,
        inputs: &Inputs<'_>,
        request_of_conditions: &Value,
    ) {
        let (policy, binding) = (application.policy, application.binding);
        let began = Instant::now();
        let Outcome { denials, errors, ignored } =
            policy.evaluator.validate(&policy.name, inputs, request_of_conditions, policy.fails);
        let took = began.elapsed();
        let count = |action: &str, message: &str| {
            count_validation(&policy.name, &binding.name, action, message, took)
        };
        ignored.iter().for_each(|why| count("allow", why));
        for denial in denials {
            for action in &binding.actions {
                count(&action.to_ascii_lowercase(), &denial.message);
                match action.as_str() {
                    "Deny" => self.record_denial(&policy.name, Some(&binding.name), denial.clone()),
                    "Warn" => self.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, denial.message
                    )),
                    "Audit" => audit_failure(&policy.name, binding, &denial),
                    _ => {}
                }
            }
        }
        for why in errors {
            count("deny", &why);
            self.record_denial(&policy.name, Some(&binding.name), Denial::failed(why));
        }
    }

    fn record_denial(&mut self, policy: &str, binding: Option<&str>, denial: Denial) {
        let bound = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
        let message =
            format!("ValidatingAdmissionPolicy '{policy}'{bound} denied request: {}", denial.message);
        self.refusal.get_or_insert((message, denial.reason));
    }

    /// The denial of the request, if it is denied.
    pub fn refusal(self, request: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        let Some((message, reason)) = self.refusal else { return Ok(()) };
        let mut status = request.forbidden(object, &message);
        status.refuse_for(match reason.as_str() {
            "Forbidden" => Reason::Forbidden,
            "Unauthorized" => Reason::Unauthorized,
            "RequestEntityTooLarge" => Reason::RequestEntityTooLarge,
            _ => Reason::Invalid,
        });
        status.details.causes.push(Cause { message, ..Cause::default() });
        Err(status)
    }
}
