//! MutatingAdmissionPolicy: evaluates mutations, and tracks which policies must be reinvoked.

use super::{Application, Broken, Evaluator, Policy, patch};
use crate::Attributes;
use crate::cel::{Activation, Conditions, Expression, Inputs, POLICY_BUDGET, Variables};
pub use patch::Patched;
use pintle_kinds::admission_expressions::{Expressions, Offered, apply_configuration_type, json_patch_type};
use pintle_meta::{Cause, GroupVersionKind, Reason, Status};
use pintle_schema::Schema;
use pintle_value::{Str, Value};
use std::collections::BTreeSet;

/// The compiled expressions of a policy.
pub struct Mutator {
    variables: Variables,
    conditions: Conditions,
    /// The policy's mutations, in order.
    pub mutations: Vec<Mutation>,
    reinvocable: bool,
}

/// One mutation of a policy.
pub enum Mutation {
    /// A JSON patch.
    JsonPatch(Change),
    /// An apply configuration.
    Apply(Change),
}

/// The expression that computes a change.
pub struct Change(Expression);

/// The policies to call in the second round.
#[derive(Default)]
pub struct Reinvocation {
    /// The object at the end of the first round.
    last: Option<Value>,
    /// The policies with reinvocation policy IfNeeded that were evaluated since the object last changed.
    evaluated: BTreeSet<Key>,
    /// The policies to evaluate again.
    due: BTreeSet<Key>,
}

/// A policy, a binding, and the namespace and name of a parameter.
type Key = (Str, Str, Str, Str);

/// The errors of policies.
#[derive(Default)]
pub struct Errors(Vec<(String, Option<Reason>)>);

impl Evaluator for Mutator {
    const RESOURCES: [&'static str; 2] = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];

    fn compile(spec: &Value) -> Self {
        let params = spec.at(&["paramKind"]).is_some_and(|kind| !kind.is_null());
        let offered = Offered { params, authorizer: true, patches: false };
        let mut expressions = Expressions::composed();
        let variables = Variables::compile(spec.items_at(&["variables"]), &mut expressions, offered);
        let change = |text: &str, wanted| {
            let offered = Offered { patches: true, ..offered };
            Change(Expression::new(text, expressions.check(text, offered, &[wanted])))
        };
        let mutation = |mutation: &Value| match mutation.str_at(&["patchType"]) {
            "JSONPatch" => {
                Mutation::JsonPatch(change(mutation.str_at(&["jsonPatch", "expression"]), json_patch_type()))
            }
            _ => {
                let text = mutation.str_at(&["applyConfiguration", "expression"]);
                Mutation::Apply(change(text, apply_configuration_type()))
            }
        };
        Mutator {
            conditions: Conditions::compile_within(
                spec.items_at(&["matchConditions"]),
                &expressions,
                offered,
            ),
            mutations: spec.items_at(&["mutations"]).iter().map(mutation).collect(),
            reinvocable: spec.str_at(&["reinvocationPolicy"]) == "IfNeeded",
            variables,
        }
    }
}

impl Mutator {
    /// Returns whether the policy's match conditions hold.
    pub fn matches(&self, policy: &str, inputs: &Inputs<'_>, fails: bool) -> Result<bool, String> {
        self.conditions.matches_of_policy(policy, inputs, &self.variables, fails)
    }

    /// Evaluates one mutation on an object of this kind and type. Some kinds have no known type.
    pub fn patch(
        &self,
        mutation: &Mutation,
        inputs: &Inputs<'_>,
        kind: &GroupVersionKind,
        schema: Option<&Schema>,
    ) -> Result<Patched, String> {
        let (Mutation::JsonPatch(Change(expression)) | Mutation::Apply(Change(expression))) = mutation;
        let Some(object) = inputs.object else { return Ok(Patched::Untouched) };
        if let Some(why) = expression.error() {
            return Err(why.to_string());
        }
        let activation = Activation::new(*inputs, Some(&self.variables));
        let mut budget = POLICY_BUDGET;
        let value = activation.evaluate(expression, &mut budget).map_err(|out| out.text())??;
        match mutation {
            Mutation::JsonPatch(_) => patch::apply_json(&value, object),
            Mutation::Apply(_) => patch::apply_configuration(&value, object, kind, schema),
        }
    }
}

impl Reinvocation {
    /// Starts the second round with this object.
    pub fn begin_again(&mut self, object: Option<&Value>) {
        if self.last.as_ref() != object {
            self.require();
        }
    }

    /// Returns whether a policy must be evaluated again.
    pub fn is_due(&self, application: &Application<'_, Mutator>, param: Option<&Value>) -> bool {
        self.due.contains(&application_key(application, param))
    }

    /// Marks the policies evaluated so far for reinvocation, because the object has changed.
    pub fn require(&mut self) {
        self.due.append(&mut self.evaluated);
    }

    /// Records that a policy was evaluated, if its reinvocation policy is IfNeeded.
    pub fn record_evaluation(&mut self, application: &Application<'_, Mutator>, param: Option<&Value>) {
        if application.policy.evaluator.reinvocable {
            self.evaluated.insert(application_key(application, param));
        }
    }

    /// Ends a round with this object.
    pub fn end(&mut self, object: Option<&Value>) {
        self.last = object.cloned();
    }
}

fn application_key(application: &Application<'_, Mutator>, param: Option<&Value>) -> Key {
    let param_text =
        |key: &str| param.map(|param| Str::from(param.str_at(&["metadata", key]))).unwrap_or_default();
    (
        application.policy.name.clone(),
        application.binding.name.clone(),
        param_text("namespace"),
        param_text("name"),
    )
}

impl Errors {
    /// Records that a policy cannot be evaluated.
    pub fn broken(&mut self, broken: &Broken<'_, Mutator>) {
        let binding = broken.binding.map(|binding| &*binding.name);
        self.push(broken.policy, binding, &broken.text(), None);
    }

    /// Records that a policy failed.
    pub fn failed(&mut self, application: &Application<'_, Mutator>, why: &str) {
        self.push(application.policy, Some(&application.binding.name), why, Some(Reason::Invalid));
    }

    fn push(&mut self, policy: &Policy<Mutator>, binding: Option<&str>, why: &str, reason: Option<Reason>) {
        if !policy.fails {
            return;
        }
        let name = &policy.name;
        let message = match binding {
            Some(binding) => format!("policy '{name}' with binding '{binding}' denied request: {why}"),
            None => format!("policy {} denied request: {why}", pintle_meta::field::quoted(name)),
        };
        self.0.push((message, reason));
    }

    /// The denial of the request, if it is denied.
    pub fn refusal(self, request: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        let Some((message, reason)) = self.0.first() else { return Ok(()) };
        let mut status = request.forbidden(object, "admission request denied by policy");
        status.message.clone_from(message);
        // As in kube-apiserver, the code stays 403 for every reason.
        status.reason = reason.unwrap_or(status.reason);
        let causes = self.0.into_iter().map(|(message, _)| Cause { message, ..Cause::default() });
        status.details.causes.extend(causes);
        Err(status)
    }
}
