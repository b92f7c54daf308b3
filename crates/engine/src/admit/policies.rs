//! Policies: which there are, and what they say of a request. They run here and now; only the versions that they want
//! to see may be waited for.

use super::Rounds;
use super::cached::Cached;
use super::matched_objects::{MatchedObjects, Reading, version_of};
use crate::{Engine, Target};
use pintle_admission::cel::{Inputs, RequestAuthorizer};
use pintle_admission::matching::{self, Matched};
use pintle_admission::policy::mutating::{Errors, Mutator, Patched};
use pintle_admission::policy::validating::{Validator, Verdict};
use pintle_admission::policy::{Asked, Broken, Evaluator, Found, GROUP, Policies, namespace_object};
use pintle_admission::{Attributes, ClusterState, admission_request};
use pintle_meta::{GroupResource, GroupVersion, GroupVersionKind, Status};
use pintle_value::Value;
use std::sync::Arc;

/// The policies in force, compiled anew when one changes.
#[derive(Default)]
pub struct PolicySlots {
    mutating: Cached<Policies<Mutator>, 2>,
    validating: Cached<Policies<Validator>, 2>,
}

/// What all expressions about a request see beside its objects.
struct Surroundings {
    request_authorizer: RequestAuthorizer,
    namespace: Option<Value>,
}

impl Surroundings {
    fn inputs<'a>(
        &'a self,
        shown: &'a MatchedObjects,
        request: &'a Value,
        params: Option<&'a Value>,
    ) -> Inputs<'a> {
        Inputs {
            object: shown.object.as_ref(),
            old: shown.old.as_ref(),
            request,
            namespace: self.namespace.as_ref(),
            params,
            request_authorizer: Some(&self.request_authorizer),
        }
    }
}

/// A request as expressions see it, and as match conditions do: those are told of the resource that was asked for.
struct Told {
    request: Value,
    to_conditions: Value,
}

impl Told {
    fn of(request: &Attributes<'_>, matched: &Matched) -> Self {
        let mut told = admission_request(request, matched, "");
        for key in ["object", "oldObject"] {
            told.set_at(&[key], Value::Null);
        }
        let to_conditions = match matching::own_place(request) {
            Some(own) => admission_request(request, &Matched { kind: matched.kind.clone(), ..own }, ""),
            None => told.clone(),
        };
        Told { request: told, to_conditions }
    }
}

impl Engine {
    /// The policies that may change objects; none where there are none or they are turned off.
    pub(super) fn mutating_policies(&self) -> Option<Arc<Policies<Mutator>>> {
        let read = self.read_policies(&self.policy_slots.mutating)?;
        self.admission.is_on("MutatingAdmissionPolicy").then_some(read)
    }

    /// The policies that may refuse objects; none where there are none or they are turned off.
    pub(super) fn validating_policies(&self) -> Option<Arc<Policies<Validator>>> {
        let read = self.read_policies(&self.policy_slots.validating)?;
        self.admission.is_on("ValidatingAdmissionPolicy").then_some(read)
    }

    fn read_policies<E: Evaluator>(&self, slot: &Cached<Policies<E>, 2>) -> Option<Arc<Policies<E>>> {
        let [policies, bindings] = E::RESOURCES;
        let revisions = [self.changed_at(GROUP, policies)?, self.changed_at(GROUP, bindings)?];
        Some(slot.at(revisions, |before| {
            let (policies, bindings) = (self.objects(GROUP, policies, ""), self.objects(GROUP, bindings, ""));
            Policies::read(policies, &bindings, before)
        }))
    }

    fn surroundings(&self, request: &Attributes<'_>) -> Result<Surroundings, Status> {
        let request_authorizer = RequestAuthorizer::new(&self.authorizer, request);
        // The namespace of a namespace is not itself.
        if request.namespace.is_empty() || request.is("", "namespaces") {
            return Ok(Surroundings { request_authorizer, namespace: None });
        }
        let found = self.object("", "namespaces", "", request.namespace);
        let missing = || Status::not_found(&GroupResource::new("", "namespaces"), request.namespace);
        Ok(Surroundings {
            request_authorizer,
            namespace: Some(namespace_object(&found.ok_or_else(missing)?)),
        })
    }

    /// Asks policies that may refuse the request. All are asked; the first that refuses is heard.
    pub(super) async fn ask_validating_policies(
        &self,
        policies: &Policies<Validator>,
        request: &Attributes<'_>,
        target: &Target,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let found = policies.found(request, object, self);
        if found.is_empty() {
            return Ok(());
        }
        let mut surroundings = None;
        let mut verdict = Verdict::default();
        let mut versions: Vec<(Matched, MatchedObjects)> = Vec::new();
        for found in &found {
            let asked = match found {
                Found::Broken(broken) => {
                    verdict.broken(broken);
                    continue;
                }
                Found::Asked(asked) => asked,
            };
            if !versions.iter().any(|(known, _)| *known == asked.matched) {
                match self.show(request, target, object, &asked.matched).await {
                    Ok(shown) => versions.push((asked.matched.clone(), shown)),
                    Err(status) => {
                        verdict.broken(&unseen(asked, &status));
                        continue;
                    }
                }
            }
            let Some((_, shown)) = versions.iter().find(|(known, _)| *known == asked.matched) else {
                continue;
            };
            let around = match &mut surroundings {
                Some(around) => around,
                none => none.insert(self.surroundings(request)?),
            };
            let told = Told::of(request, &asked.matched);
            for params in &asked.params {
                let inputs = around.inputs(shown, &told.request, params.as_ref());
                verdict.ask(asked, &inputs, &told.to_conditions);
            }
        }
        warnings.append(&mut verdict.warnings);
        verdict.refusal(request, object)
    }

    /// Asks policies that may change the object, one after the other.
    pub(super) async fn ask_mutating_policies(
        &self,
        policies: &Policies<Mutator>,
        request: &Attributes<'_>,
        target: &Target,
        mut object: Option<&mut Value>,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        let mut found = policies.found(request, object.as_deref(), self);
        let mut errors = Errors::default();
        for found in &mut found {
            match found {
                Found::Broken(broken) => errors.broken(broken),
                Found::Asked(asked) => asked.params.iter_mut().flatten().for_each(|p| self.strip_type(p)),
            }
        }
        let mut asked = found.iter().filter_map(|found| match found {
            Found::Asked(asked) => Some(asked),
            Found::Broken(_) => None,
        });
        if let Some(first) = asked.next() {
            let asked = std::iter::once(first).chain(asked);
            self.change_by_policies(asked, request, target, object.as_deref_mut(), rounds, &mut errors)
                .await?;
        }
        errors.refusal(request, object.as_deref())
    }

    /// Parameters of built-in kinds come without their type: kube-apiserver keeps it aside and only gives it back to
    /// policies that change nothing.
    fn strip_type(&self, params: &mut Value) {
        let version = GroupVersion::parse(params.str_at(&["apiVersion"])).unwrap_or_default();
        let kinds = self.registry.kinds();
        let kind = kinds.by_kind(&version, params.str_at(&["kind"]));
        if kind.is_some_and(|(kind, _)| kind.storage_version().schema.is_go()) {
            for key in ["apiVersion", "kind"] {
                params.remove_at(&[key]);
            }
        }
    }

    async fn change_by_policies<'p>(
        &self,
        asked: impl Iterator<Item = &'p Asked<'p, Mutator>>,
        request: &Attributes<'_>,
        target: &Target,
        mut object: Option<&mut Value>,
        rounds: &mut Rounds,
        errors: &mut Errors,
    ) -> Result<(), Status> {
        if rounds.is_second {
            rounds.policies.begin_again(object.as_deref());
        }
        let around = self.surroundings(request)?;
        let mut shown: Option<MatchedObjects> = None;
        for asked in asked {
            let next =
                self.show_again(request, target, object.as_deref_mut(), shown.take(), &asked.matched).await;
            let next = match next {
                Ok(next) => shown.insert(next),
                Err(status) => {
                    errors.broken(&Broken { binding: None, ..unseen(asked, &status) });
                    continue;
                }
            };
            let told = Told::of(request, &asked.matched);
            for params in &asked.params {
                let question = Question { asked, params: params.as_ref(), request, target };
                self.mutate_by(&question, &around, &told, next, rounds, errors)?;
            }
        }
        if let Some(shown) = &shown {
            if shown.is_changed {
                rounds.policies.require();
                rounds.again = true;
            }
            self.keep(target, object.as_deref_mut(), shown).await?;
        }
        rounds.policies.end(object.as_deref());
        Ok(())
    }

    /// Lets one policy change the object, with one parameter.
    fn mutate_by(
        &self,
        question: &Question<'_>,
        around: &Surroundings,
        told: &Told,
        shown: &mut MatchedObjects,
        rounds: &mut Rounds,
        errors: &mut Errors,
    ) -> Result<(), Status> {
        let Question { asked, params, .. } = *question;
        let conditions = around.inputs(shown, &told.to_conditions, params);
        match asked.policy.evaluator.matches(&conditions, asked.policy.fails) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => {
                errors.failed(asked, &why);
                return Ok(());
            }
        }
        if rounds.is_second && !rounds.policies.is_due(asked, params) {
            return Ok(());
        }
        let before = shown.object.clone();
        for mutation in &asked.policy.evaluator.mutations {
            let inputs = around.inputs(shown, &told.request, params);
            let version = version_of(question.request, &asked.matched);
            let Some(schema) = question.target.kind.versions.get(version).map(|v| &v.schema) else {
                continue;
            };
            // Fields can only be set of kinds that are published with the versions that they belong to.
            let kind = &asked.matched.kind;
            let schema = Some(schema).filter(|_| self.is_published(kind));
            let patched = asked.policy.evaluator.patch(mutation, &inputs, kind, schema);
            match patched {
                Ok(patched) => self.take_over(question, shown, patched, errors)?,
                Err(why) => errors.failed(asked, &why),
            }
        }
        if shown.object != before {
            rounds.policies.require();
            rounds.again = true;
        }
        rounds.policies.asked(asked, params);
        Ok(())
    }

    fn is_published(&self, kind: &GroupVersionKind) -> bool {
        self.is_registered(&self.registry.kinds(), &kind.kind, &kind.group_version())
    }

    /// Makes what a mutation came to the object of the request, with its defaults.
    fn take_over(
        &self,
        question: &Question<'_>,
        shown: &mut MatchedObjects,
        patched: Patched,
        errors: &mut Errors,
    ) -> Result<(), Status> {
        if let Some(why) = question.refused_conversion() {
            errors.failed(question.asked, &why);
            return Ok(());
        }
        let (tree, reading) = match patched {
            Patched::Untouched => {
                shown.is_changed |= shown.object.is_some();
                return Ok(());
            }
            Patched::Document(tree) => (tree, Reading::Strict),
            Patched::Merged(tree) => (tree, Reading::Lenient),
        };
        match self.read_document(question.target, shown, tree, reading) {
            Ok(object) => shown.change(self.with_defaults(question.target, shown, object)),
            Err(status) if reading == Reading::Strict => return Err(status),
            Err(status) => errors.failed(question.asked, &status.message),
        }
        Ok(())
    }
}

/// One policy that may change the object of a request.
struct Question<'q> {
    asked: &'q Asked<'q, Mutator>,
    params: Option<&'q Value>,
    request: &'q Attributes<'q>,
    target: &'q Target,
}

impl Question<'_> {
    /// kube-apiserver converts what a policy made of a typed object to the version of the request, though it can only
    /// convert to and from its own; scales of custom resources it cannot convert at all.
    fn refused_conversion(&self) -> Option<String> {
        let (own, matched) = (self.request.kind_in(self.request.version), &self.asked.matched.kind);
        if !self.request.version.schema.is_go() {
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

/// A policy that cannot be shown the object.
fn unseen<'p, E>(asked: &Asked<'p, E>, status: &Status) -> Broken<'p, E> {
    let why = format!("failed to convert object version: {}", status.message);
    Broken { policy: asked.policy, binding: Some(asked.binding), why }
}
