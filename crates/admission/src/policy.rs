//! Admission policies: CEL expressions about requests. Policies are compiled when they change. This module finds the
//! policies for a request; [`validating`] and [`mutating`] evaluate them. There is no I/O here: the caller converts
//! objects to other versions.

pub mod mutating;
mod params;
mod patch;
#[cfg(test)]
mod tests;
pub mod type_check;
pub mod validating;

use crate::matching::{Matched, Matcher};
use crate::{Attributes, ClusterState};
use params::{ParamKind, ParamRef};
use pintle_meta::GroupVersion;
use pintle_metrics::families;
use pintle_value::{Str, Value};
use std::sync::Arc;
use std::time::Duration;

/// The group of policies and bindings.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// Policies and bindings. Policies of the API do not apply to them, since they would decide about themselves.
const CONFIGURATION: [&str; 4] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// Resources that no policy applies to: reviews, which must work independently of policies.
const EXEMPT: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Returns whether only policies of manifest files apply to a request, because it is about policies or bindings.
pub fn is_configuration(request: &Attributes<'_>) -> bool {
    CONFIGURATION.iter().any(|plural| request.is(GROUP, plural))
}

/// Whether no policy applies to a request.
pub fn is_exempt(request: &Attributes<'_>) -> bool {
    EXEMPT.iter().any(|(group, plural)| request.is(group, plural))
}

/// The label `error_type` of a message. As in kube-apiserver, a denial is counted as an error, and a message that begins
/// with `compilation` as a compilation error.
fn error_type(message: &str) -> &'static str {
    if message.starts_with("compilation") {
        "compile_error"
    } else if message.starts_with("validation failed due to running out of cost budget") {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}

/// The compiled expressions of a policy.
pub trait Evaluator {
    /// The resources of the policies and of their bindings.
    const RESOURCES: [&'static str; 2];

    /// Compiles the `spec` of a policy. A compilation error is reported when the expression is evaluated.
    fn compile(spec: &Value) -> Self;
}

/// All policies of one kind that are bound, by name.
pub struct Policies<E>(Vec<Policy<E>>);

impl<E> Default for Policies<E> {
    fn default() -> Self {
        Policies(Vec::new())
    }
}

impl<E> Policies<E> {
    /// Appends other policies.
    pub fn followed_by(mut self, mut others: Self) -> Self {
        self.0.append(&mut others.0);
        self
    }
}

/// A policy and its bindings.
pub struct Policy<E> {
    /// The policy's name.
    pub name: Str,
    /// Whether an error of the policy rejects the request (failurePolicy).
    pub fails: bool,
    /// The compiled expressions.
    pub evaluator: Arc<E>,
    spec: Value,
    matcher: Option<Matcher>,
    params: Option<ParamKind>,
    bindings: Vec<Binding>,
}

/// The requests to which a policy applies.
pub struct Binding {
    /// The binding's name.
    pub name: Str,
    /// `validationActions`
    pub actions: Vec<Str>,
    matcher: Option<Matcher>,
    params: Option<ParamRef>,
}

/// How a policy applies to a request.
pub enum Found<'p, E> {
    /// An error prevents the server from determining whether the policy applies.
    Broken(Broken<'p, E>),
    /// The policy is evaluated, once for each parameter.
    Applicable(Application<'p, E>),
}

/// A policy that cannot be evaluated, and why. The binding is set if it is the cause.
#[expect(missing_docs, reason = "the names say it")]
pub struct Broken<'p, E> {
    pub policy: &'p Policy<E>,
    pub binding: Option<&'p Binding>,
    pub why: String,
}

/// A policy that is evaluated for a request.
pub struct Application<'p, E> {
    /// The policy.
    pub policy: &'p Policy<E>,
    /// The binding through which it applies.
    pub binding: &'p Binding,
    /// The version of the resource that its constraints matched.
    pub matched: Matched,
    /// The values of `params`, one per evaluation.
    pub params: Vec<Option<Value>>,
}

/// Counts that a mutation of a policy was applied, or why it was not.
pub fn count_mutation(application: &Application<'_, mutating::Mutator>, error: Option<&str>, took: Duration) {
    let labels =
        [error.map_or("no_error", error_type), application.policy.name.as_str(), &application.binding.name];
    families::MUTATING_POLICY_CHECKS.inc(&labels);
    families::MUTATING_POLICY_SECONDS.observe(&labels, took.as_secs_f64());
}

impl<E: Evaluator> Policies<E> {
    /// Reads policies and bindings. Reuses the compiled policies of `before` that have not changed.
    pub fn read(policies: Vec<Value>, bindings: &[Value], before: Option<&Policies<E>>) -> Self {
        let name = |object: &Value| Str::from(object.str_at(&["metadata", "name"]));
        let read = |mut policy: Value| {
            let name = name(&policy);
            let of_policy = |binding: &&Value| binding.str_at(&["spec", "policyName"]) == name.as_str();
            let bindings: Vec<Binding> = bindings.iter().filter(of_policy).map(Binding::read).collect();
            if bindings.is_empty() {
                return None;
            }
            let spec = policy.remove_at(&["spec"]).unwrap_or_default();
            let known = before.and_then(|b| b.0.iter().find(|p| p.name == name && p.spec == spec));
            let evaluator =
                known.map_or_else(|| Arc::new(E::compile(&spec)), |known| known.evaluator.clone());
            Some(Policy {
                fails: spec.str_at(&["failurePolicy"]) != "Ignore",
                matcher: spec.at(&["matchConstraints"]).map(Matcher::of_policy),
                params: ParamKind::read(&spec),
                name,
                evaluator,
                spec,
                bindings,
            })
        };
        Policies(policies.into_iter().filter_map(read).collect())
    }

    /// The policies that apply to a request, in the order of the names of policies and bindings.
    pub fn found<'p>(
        &'p self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        cluster: &dyn ClusterState,
    ) -> Vec<Found<'p, E>> {
        let mut found = Vec::new();
        for policy in &self.0 {
            match policy.match_request(request, object, cluster) {
                Ok(None) => {}
                Ok(Some(matched)) => {
                    policy.find_matching_bindings(request, object, cluster, &matched, &mut found)
                }
                Err(why) => found.push(Found::Broken(Broken { policy, binding: None, why })),
            }
        }
        found
    }
}

impl<E> Policy<E> {
    /// The version and kind of the policy's parameters.
    pub fn param_kind(&self) -> Option<(&GroupVersion, &str)> {
        self.params.as_ref().map(|kind| (&kind.version, kind.kind.as_str()))
    }

    fn match_request(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        cluster: &dyn ClusterState,
    ) -> Result<Option<Matched>, String> {
        let Some(matcher) = &self.matcher else {
            return Err("policy contained no match constraints, a required field".to_string());
        };
        let matched = matcher.matched(request, object, cluster).map_err(|status| status.message)?;
        if let (Some(kind), Some(_)) = (&self.params, &matched) {
            kind.check(cluster)?;
        }
        Ok(matched)
    }

    fn find_matching_bindings<'p>(
        &'p self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        cluster: &dyn ClusterState,
        matched: &Matched,
        found: &mut Vec<Found<'p, E>>,
    ) {
        for binding in &self.bindings {
            let is_matched = binding.matcher.as_ref().map_or(Ok(true), |matcher| {
                matcher.matched(request, object, cluster).map(|matched| matched.is_some())
            });
            let params = match is_matched {
                Ok(false) => continue,
                Ok(true) => params::collect(&self.params, &binding.params, request.namespace, cluster),
                Err(status) => Err(status.message),
            };
            found.push(match params {
                Ok(params) if params.is_empty() => continue,
                Ok(params) => {
                    Found::Applicable(Application { policy: self, binding, matched: matched.clone(), params })
                }
                Err(why) => Found::Broken(Broken { policy: self, binding: Some(binding), why }),
            });
        }
    }
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let spec = binding.get("spec").unwrap_or(&Value::Null);
        let actions = spec.items_at(&["validationActions"]).iter().filter_map(Value::as_str);
        Binding {
            name: binding.str_at(&["metadata", "name"]).into(),
            actions: actions.map(Str::from).collect(),
            matcher: spec.at(&["matchResources"]).filter(|m| !m.is_null()).map(Matcher::of_policy),
            params: ParamRef::read(spec),
        }
    }
}

impl<E> Broken<'_, E> {
    /// The text of the error.
    pub fn text(&self) -> String {
        let what = if self.binding.is_some() { "binding" } else { "policy" };
        format!("failed to configure {what}: {}", self.why)
    }
}

/// The `namespaceObject` of expressions.
pub fn namespace_object(namespace: &Value) -> Value {
    let mut out = Value::object();
    for key in ["spec", "status"] {
        out.set_at(&[key], namespace.get(key).cloned().unwrap_or_else(Value::object));
    }
    let mut metadata = namespace.get("metadata").cloned().unwrap_or_else(Value::object);
    for hidden in ["managedFields", "ownerReferences", "selfLink"] {
        metadata.remove_at(&[hidden]);
    }
    out.set_at(&["metadata"], metadata);
    out
}
