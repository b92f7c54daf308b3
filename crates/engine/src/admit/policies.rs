//! Evaluates admission policies. Evaluation is synchronous; only conversions to the versions that policies match may
//! wait for a webhook.

use super::Rounds;
use super::cached::Cached;
use super::manifests::Manifests;
use super::matched_objects::{MatchedObjects, Reading, version_of};
use crate::{Admission, Target};
use pintle_admission::cel::{Inputs, RequestAuthorizer};
use pintle_admission::matching::{self, Matched};
use pintle_admission::policy::mutating::{Errors, Mutator, Patched};
use pintle_admission::policy::validating::{Validator, Verdict};
use pintle_admission::policy::{
    Application, Broken, Evaluator, Found, GROUP, Policies, count_mutation, namespace_object,
};
use pintle_admission::{Attributes, ClusterState, admission_request};
use pintle_kinds::Kind;
use pintle_meta::{GroupResource, GroupVersion, GroupVersionKind, Status};
use pintle_value::Value;
use std::sync::Arc;
use std::time::Instant;

/// The compiled policies, rebuilt when a policy or binding changes.
#[derive(Default)]
pub(crate) struct CachedPolicies {
    mutating: PluginPolicies<Mutator>,
    validating: PluginPolicies<Validator>,
    pub(super) mutating_manifests: Manifests,
    pub(super) validating_manifests: Manifests,
}

/// The compiled policies of one plugin: those of manifests alone, and together with those of the API.
struct PluginPolicies<E> {
    from_manifests: Cached<Policies<E>, 1>,
    all: Cached<Policies<E>, 3>,
}

impl<E> Default for PluginPolicies<E> {
    fn default() -> Self {
        PluginPolicies { from_manifests: Cached::default(), all: Cached::default() }
    }
}

/// The variables that every expression about a request sees in addition to its objects.
struct RequestVariables {
    request_authorizer: RequestAuthorizer,
    namespace: Option<Value>,
}

impl RequestVariables {
    fn expression_inputs<'a>(
        &'a self,
        objects: &'a MatchedObjects,
        request: &'a Value,
        params: Option<&'a Value>,
    ) -> Inputs<'a> {
        Inputs {
            object: objects.object.as_ref(),
            old: objects.old.as_ref(),
            request,
            namespace: self.namespace.as_ref(),
            params,
            request_authorizer: Some(&self.request_authorizer),
        }
    }
}

/// A request as expressions see it. Match conditions see the resource that was requested, policies the one that
/// matched.
struct RequestViews {
    request: Value,
    to_conditions: Value,
}

impl RequestViews {
    fn of(request: &Attributes<'_>, matched: &Matched) -> Self {
        let mut views = admission_request(request, matched, "");
        for key in ["object", "oldObject"] {
            views.set_at(&[key], Value::Null);
        }
        let to_conditions = match matching::own_place(request) {
            Some(own) => admission_request(request, &Matched { kind: matched.kind.clone(), ..own }, ""),
            None => views.clone(),
        };
        RequestViews { request: views, to_conditions }
    }
}

impl Admission {
    /// Returns the compiled mutating policies, or `None` if there are none or the plugin is disabled. `only_manifests`
    /// leaves out those of the API, which must not decide about themselves.
    pub(super) fn mutating_policies(&self, only_manifests: bool) -> Option<Arc<Policies<Mutator>>> {
        let slots = &self.policy_slots;
        let read = self.read_policies(&slots.mutating, &slots.mutating_manifests, only_manifests)?;
        self.plugins.is_on("MutatingAdmissionPolicy").then_some(read)
    }

    /// Returns the compiled validating policies, as [`Self::mutating_policies`] does.
    pub(super) fn validating_policies(&self, only_manifests: bool) -> Option<Arc<Policies<Validator>>> {
        let slots = &self.policy_slots;
        let read = self.read_policies(&slots.validating, &slots.validating_manifests, only_manifests)?;
        self.plugins.is_on("ValidatingAdmissionPolicy").then_some(read)
    }

    /// Policies of manifests come before those of the API. Bindings only bind policies from the same source.
    fn read_policies<E: Evaluator>(
        &self,
        slot: &PluginPolicies<E>,
        manifests: &Manifests,
        only_manifests: bool,
    ) -> Option<Arc<Policies<E>>> {
        let [policies, bindings] = E::RESOURCES;
        let changed_at = || {
            Some([self.storage.admission_changed_at(policies)?, self.storage.admission_changed_at(bindings)?])
        };
        let changed_at = changed_at().filter(|_| !only_manifests);
        let manifests = manifests.current();
        let generation = manifests.as_ref().map_or(0, |manifests| manifests.generation);
        let of_manifests = |before: Option<&Policies<E>>| match &manifests {
            Some(set) => Policies::read(set.objects.clone(), &set.bindings, before),
            None => Policies::default(),
        };
        let Some([policies_at, bindings_at]) = changed_at else {
            manifests.as_ref()?;
            return Some(slot.from_manifests.at([generation], of_manifests));
        };
        Some(slot.all.at([policies_at, bindings_at, generation], |before| {
            let (policies, bindings) =
                (self.storage.objects(GROUP, policies, ""), self.storage.objects(GROUP, bindings, ""));
            of_manifests(before).followed_by(Policies::read(policies, &bindings, before))
        }))
    }

    fn request_variables(&self, request: &Attributes<'_>) -> Result<RequestVariables, Status> {
        let request_authorizer = RequestAuthorizer::new(&self.authorizer, request);
        // For a Namespace object, `namespaceObject` is null.
        if request.namespace.is_empty() || request.is("", "namespaces") {
            return Ok(RequestVariables { request_authorizer, namespace: None });
        }
        let found = self.storage.object("", "namespaces", "", request.namespace);
        let missing = || Status::not_found(&GroupResource::new("", "namespaces"), request.namespace);
        Ok(RequestVariables {
            request_authorizer,
            namespace: Some(namespace_object(&found.ok_or_else(missing)?)),
        })
    }

    /// Evaluates the validating policies. All are evaluated; the first denial in their order is returned.
    pub(super) async fn evaluate_validating_policies(
        &self,
        policies: &Policies<Validator>,
        request: &Attributes<'_>,
        target: &Target,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let mut found = policies.found(request, object, &*self.storage);
        if found.is_empty() {
            return Ok(());
        }
        self.convert_params(&mut found).await;
        let mut request_variables = None;
        let mut verdict = Verdict::default();
        let mut versions: Vec<(Matched, MatchedObjects)> = Vec::new();
        for found in &found {
            let application = match found {
                Found::Broken(broken) => {
                    verdict.broken(broken);
                    continue;
                }
                Found::Applicable(application) => application,
            };
            if !versions.iter().any(|(known, _)| *known == application.matched) {
                match self.convert_to_match(request, target, object, &application.matched).await {
                    Ok(objects) => versions.push((application.matched.clone(), objects)),
                    Err(status) => {
                        verdict.broken(&unconvertible(application, &status));
                        continue;
                    }
                }
            }
            let Some((_, objects)) = versions.iter().find(|(known, _)| *known == application.matched) else {
                continue;
            };
            let variables = match &mut request_variables {
                Some(variables) => variables,
                none => none.insert(self.request_variables(request)?),
            };
            let views = RequestViews::of(request, &application.matched);
            for params in &application.params {
                let inputs = variables.expression_inputs(objects, &views.request, params.as_ref());
                verdict.evaluate(application, &inputs, &views.to_conditions);
            }
        }
        warnings.append(&mut verdict.warnings);
        verdict.refusal(request, object)
    }

    /// Evaluates the mutating policies, one after the other.
    pub(super) async fn evaluate_mutating_policies(
        &self,
        policies: &Policies<Mutator>,
        request: &Attributes<'_>,
        target: &Target,
        mut object: Option<&mut Value>,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        let mut found = policies.found(request, object.as_deref(), &*self.storage);
        self.convert_params(&mut found).await;
        let mut errors = Errors::default();
        for found in &mut found {
            match found {
                Found::Broken(broken) => errors.broken(broken),
                Found::Applicable(application) => {
                    application.params.iter_mut().flatten().for_each(|p| self.strip_type(p))
                }
            }
        }
        let mut applications = found.iter().filter_map(|found| match found {
            Found::Applicable(application) => Some(application),
            Found::Broken(_) => None,
        });
        if let Some(first) = applications.next() {
            let applications = std::iter::once(first).chain(applications);
            self.change_by_policies(
                applications,
                request,
                target,
                object.as_deref_mut(),
                rounds,
                &mut errors,
            )
            .await?;
        }
        errors.refusal(request, object.as_deref())
    }

    /// Converts parameters that only a webhook can convert to the version that their policy names.
    async fn convert_params<E>(&self, found: &mut [Found<'_, E>]) {
        for found in found {
            let Found::Applicable(application) = found else { continue };
            let Some((kind, version)) = self.converted_param_kind(application) else { continue };
            for params in application.params.iter_mut().flatten() {
                match self.reader.convert(&kind, std::mem::take(params), version).await {
                    Ok(converted) => *params = converted,
                    Err(status) => {
                        let (policy, binding) = (application.policy, Some(application.binding));
                        *found = Found::Broken(Broken { policy, binding, why: status.message });
                        break;
                    }
                }
            }
        }
    }

    /// The kind of a policy's parameters and the version that it names, if a webhook converts that kind.
    fn converted_param_kind<E>(&self, application: &Application<'_, E>) -> Option<(Arc<Kind>, usize)> {
        let (version, kind) = application.policy.param_kind()?;
        let kinds = self.storage.registry.kinds();
        let (kind, at) = kinds.by_kind(version, kind)?;
        kind.conversion.as_ref()?;
        Some((kind.clone(), at))
    }

    /// Removes kind and apiVersion from parameters of built-in kinds: kube-apiserver decodes them into Go structs
    /// without type and restores it only for validating policies.
    fn strip_type(&self, params: &mut Value) {
        let version = GroupVersion::parse(params.str_at(&["apiVersion"])).unwrap_or_default();
        let kinds = self.storage.registry.kinds();
        let kind = kinds.by_kind(&version, params.str_at(&["kind"]));
        if kind.is_some_and(|(kind, _)| kind.storage_version().schema.decodes_into_go_struct()) {
            for key in ["apiVersion", "kind"] {
                params.remove_at(&[key]);
            }
        }
    }

    async fn change_by_policies<'p>(
        &self,
        applications: impl Iterator<Item = &'p Application<'p, Mutator>>,
        request: &Attributes<'_>,
        target: &Target,
        mut object: Option<&mut Value>,
        rounds: &mut Rounds,
        errors: &mut Errors,
    ) -> Result<(), Status> {
        if rounds.is_second {
            rounds.policies.begin_again(object.as_deref());
        }
        let variables = self.request_variables(request)?;
        let mut objects: Option<MatchedObjects> = None;
        for application in applications {
            let next = self
                .convert_to_next_match(
                    request,
                    target,
                    object.as_deref_mut(),
                    objects.take(),
                    &application.matched,
                )
                .await;
            let next = match next {
                Ok(next) => objects.insert(next),
                Err(status) => {
                    errors.broken(&Broken { binding: None, ..unconvertible(application, &status) });
                    continue;
                }
            };
            let views = RequestViews::of(request, &application.matched);
            for params in &application.params {
                let evaluation = MutatingEvaluation { application, params: params.as_ref(), request, target };
                self.mutate_by(&evaluation, &variables, &views, next, rounds, errors)?;
            }
        }
        if let Some(objects) = &objects {
            if objects.is_changed {
                rounds.policies.require();
                rounds.again = true;
            }
            self.store_changes(target, object.as_deref_mut(), objects).await?;
        }
        rounds.policies.end(object.as_deref());
        Ok(())
    }

    /// Applies one policy with one parameter object to the request's object.
    fn mutate_by(
        &self,
        evaluation: &MutatingEvaluation<'_>,
        variables: &RequestVariables,
        views: &RequestViews,
        objects: &mut MatchedObjects,
        rounds: &mut Rounds,
        errors: &mut Errors,
    ) -> Result<(), Status> {
        let MutatingEvaluation { application, params, .. } = *evaluation;
        let conditions = variables.expression_inputs(objects, &views.to_conditions, params);
        let policy = &application.policy;
        match policy.evaluator.matches(&policy.name, &conditions, policy.fails) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => {
                errors.failed(application, &why);
                return Ok(());
            }
        }
        if rounds.is_second && !rounds.policies.is_due(application, params) {
            return Ok(());
        }
        let before = objects.object.clone();
        for mutation in &application.policy.evaluator.mutations {
            let inputs = variables.expression_inputs(objects, &views.request, params);
            let version = version_of(evaluation.request, &application.matched);
            let Some(schema) = evaluation.target.kind.versions.get(version).map(|v| &v.schema) else {
                continue;
            };
            // An ApplyConfiguration can only set fields of kinds whose schema is published.
            let kind = &application.matched.kind;
            let schema = Some(schema).filter(|_| self.is_published(kind));
            let began = Instant::now();
            let patched = application.policy.evaluator.patch(mutation, &inputs, kind, schema);
            let outcome = match patched {
                Ok(patched) => self.take_over(evaluation, objects, patched),
                Err(why) => Err(MutationError::Ignorable(why)),
            };
            let why = match &outcome {
                Ok(()) => None,
                Err(MutationError::Ignorable(why)) => Some(why.as_str()),
                Err(MutationError::Refused(status)) => Some(status.message.as_str()),
            };
            count_mutation(application, why, began.elapsed());
            match outcome {
                Ok(()) => {}
                Err(MutationError::Ignorable(why)) => errors.failed(application, &why),
                Err(MutationError::Refused(status)) => return Err(*status),
            }
        }
        if objects.object != before {
            rounds.policies.require();
            rounds.again = true;
        }
        rounds.policies.record_evaluation(application, params);
        Ok(())
    }

    fn is_published(&self, kind: &GroupVersionKind) -> bool {
        self.storage.is_registered(&self.storage.registry.kinds(), &kind.kind, &kind.group_version())
    }

    /// Makes the result of a mutation the object of the request and applies its defaults.
    fn take_over(
        &self,
        evaluation: &MutatingEvaluation<'_>,
        objects: &mut MatchedObjects,
        patched: Patched,
    ) -> Result<(), MutationError> {
        if let Some(why) = evaluation.refused_conversion() {
            return Err(MutationError::Ignorable(why));
        }
        let (tree, reading) = match patched {
            Patched::Untouched => {
                objects.is_changed |= objects.object.is_some();
                return Ok(());
            }
            Patched::Document(tree) => (tree, Reading::Strict),
            Patched::Merged(tree) => (tree, Reading::Lenient),
        };
        match self.read_document(evaluation.target, objects, tree, reading) {
            Ok(object) => objects.change(self.with_defaults(evaluation.target, objects, object)),
            Err(status) if reading == Reading::Strict => {
                return Err(MutationError::Refused(Box::new(status)));
            }
            Err(status) => return Err(MutationError::Ignorable(status.message)),
        }
        Ok(())
    }
}

/// Why a mutation was not applied.
enum MutationError {
    /// The failure policy decides whether the request is denied.
    Ignorable(String),
    /// The request is refused.
    Refused(Box<Status>),
}

/// One mutating policy and the request that it is evaluated for.
struct MutatingEvaluation<'q> {
    application: &'q Application<'q, Mutator>,
    params: Option<&'q Value>,
    request: &'q Attributes<'q>,
    target: &'q Target,
}

impl MutatingEvaluation<'_> {
    /// Follows a limit of kube-apiserver: it converts a policy's result to the version of the request, but its
    /// converter only handles the object's own version, and it cannot convert scales of custom resources at all.
    fn refused_conversion(&self) -> Option<String> {
        let (own, matched) = (self.request.kind_in(self.request.version), &self.application.matched.kind);
        if !self.request.version.schema.converts_through_internal_version() {
            let is_other = matched.kind != self.request.kind.kind;
            let why =
                || format!("request to convert CR to an invalid group/version: {}", own.group_version());
            return is_other.then(why);
        }
        (own.group_version() != matched.group_version()).then(|| {
            format!(
                "converting ({}.{}) to ({}.{}): unknown conversion",
                matched.version, matched.kind, own.version, own.kind
            )
        })
    }
}

/// Builds the error for a policy whose matched version the object cannot be converted to.
fn unconvertible<'p, E>(application: &Application<'p, E>, status: &Status) -> Broken<'p, E> {
    let why = format!("failed to convert object version: {}", status.message);
    Broken { policy: application.policy, binding: Some(application.binding), why }
}
