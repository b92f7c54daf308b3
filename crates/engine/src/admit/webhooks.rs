//! Selects the webhooks for a request, calls them in order and applies their verdicts.

use super::Rounds;
use super::cached::Cached;
use super::calls::{Failure, WebhookRequest, calling};
use super::manifests::Manifests;
use super::matched_objects::MatchedObjects;
use super::metrics::{self, CallInProgress, WebhookCall};
use crate::{Admission, Target};
use pintle_admission::cel::{Inputs, RequestAuthorizer};
use pintle_admission::matching::Matched;
use pintle_admission::policy::GROUP;
use pintle_admission::webhook::{Webhook, review::Verdict, webhooks};
use pintle_admission::{Attributes, ClusterState, admission_request};
use pintle_apply::patch;
use pintle_meta::field::quoted;
use pintle_meta::{GroupResource, Status};
use pintle_value::{Value, json};
use pintle_webhook::Caller;
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

/// How many validating webhooks are called concurrently for one request.
const CALLS_TOGETHER_MAX: usize = 64;

/// The webhooks of all configurations, decoded again when a configuration changes.
pub struct Hooks {
    pub(super) mutating: WebhookSources,
    pub(super) validating: WebhookSources,
    /// The clients that call the webhooks of each plugin, with the credentials of its configuration.
    pub(super) mutating_caller: Arc<dyn Caller>,
    pub(super) validating_caller: Arc<dyn Caller>,
}

impl Hooks {
    /// Creates the set with one client for mutating and one for validating webhooks.
    pub fn new(mutating_caller: Arc<dyn Caller>, validating_caller: Arc<dyn Caller>) -> Self {
        Hooks {
            mutating: WebhookSources::default(),
            validating: WebhookSources::default(),
            mutating_caller,
            validating_caller,
        }
    }
}

/// The webhooks of one plugin: from manifest files and from objects of the API.
#[derive(Default)]
pub(super) struct WebhookSources {
    pub(super) manifests: Manifests,
    from_manifests: Cached<Vec<Webhook>, 1>,
    all: Cached<Vec<Webhook>, 2>,
}

/// The webhooks that must be called again in the second round.
#[derive(Default)]
pub(super) struct Reinvocation {
    /// The object after the first round; only recorded if a webhook has the reinvocation policy IfNeeded.
    last: Option<Value>,
    /// The webhooks with reinvocation policy IfNeeded that were called since the object last changed.
    called: BTreeSet<String>,
    /// The webhooks that are called again.
    due: BTreeSet<String>,
    /// Whether a patch was applied. From then on, timestamps that the server set have a precision of one second.
    patched: bool,
}

impl Reinvocation {
    fn require(&mut self) {
        self.due.append(&mut self.called);
    }
}

type Call<'a> = Pin<Box<dyn Future<Output = (Result<(), Status>, Vec<String>)> + Send + 'a>>;

impl Admission {
    /// Returns the mutating webhooks, or `None` if there are none or the plugin is disabled. `only_manifests` leaves out
    /// those of the API, which must not decide about their own configuration.
    pub(super) fn mutating_webhooks(&self, only_manifests: bool) -> Option<Arc<Vec<Webhook>>> {
        let plural = "mutatingwebhookconfigurations";
        let read = self.read_hooks(&self.hooks.mutating, plural, only_manifests)?;
        self.plugins.is_on("MutatingAdmissionWebhook").then_some(read)
    }

    /// Returns the validating webhooks, as [`Self::mutating_webhooks`] does.
    pub(super) fn validating_webhooks(&self, only_manifests: bool) -> Option<Arc<Vec<Webhook>>> {
        let plural = "validatingwebhookconfigurations";
        let read = self.read_hooks(&self.hooks.validating, plural, only_manifests)?;
        self.plugins.is_on("ValidatingAdmissionWebhook").then_some(read)
    }

    /// Webhooks of manifests come before those of the API.
    fn read_hooks(
        &self,
        sources: &WebhookSources,
        plural: &str,
        only_manifests: bool,
    ) -> Option<Arc<Vec<Webhook>>> {
        let manifests = sources.manifests.current();
        let changed_at = self.storage.admission_changed_at(plural).filter(|_| !only_manifests);
        let Some(manifests) = manifests else {
            let read = |_: Option<&Vec<Webhook>>| webhooks(self.storage.objects(GROUP, plural, ""));
            return Some(sources.all.at([changed_at?, 0], read));
        };
        let of_manifests = || {
            let mut all = webhooks(manifests.objects.clone());
            all.iter_mut().for_each(|webhook| webhook.id.insert_str(0, "manifest/"));
            all
        };
        let generation = manifests.generation;
        let Some(changed_at) = changed_at else {
            return Some(sources.from_manifests.at([generation], |_| of_manifests()));
        };
        Some(sources.all.at([changed_at, generation], |_| {
            let mut all = of_manifests();
            all.append(&mut webhooks(self.storage.objects(GROUP, plural, "")));
            all
        }))
    }

    /// Calls the mutating webhooks, one after the other.
    pub(super) async fn call_mutating_webhooks(
        &self,
        webhooks: &[Webhook],
        request: &Attributes<'_>,
        target: &Target,
        mut object: Option<&mut Value>,
        rounds: &mut Rounds,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        if rounds.is_second && rounds.webhooks.last.as_ref() != object.as_deref() {
            rounds.webhooks.require();
        }
        let mut converted: Option<MatchedObjects> = None;
        for (index, webhook) in webhooks.iter().enumerate() {
            let current =
                converted.as_ref().and_then(|converted| converted.object.as_ref()).or(object.as_deref());
            let Some(matched) = webhook.matcher.matched(request, current, &*self.storage)? else { continue };
            let is_due = !rounds.is_second || rounds.webhooks.due.contains(&webhook.id);
            if !is_due && webhook.conditions.is_empty() {
                continue;
            }
            let next = self
                .convert_to_next_match(request, target, object.as_deref_mut(), converted.take(), &matched)
                .await;
            let next = converted.insert(next.map_err(|status| Status::internal(&internal(&status)))?);
            let call = WebhookCall { webhook, step: "admit", operation: request.operation.name() };
            if !self.meets_conditions(call, request, &matched, next)? || !is_due {
                continue;
            }
            let measured = CallInProgress::begin(call);
            let fresh = !rounds.webhooks.patched && has_fresh_times(request.old, next.object.as_ref());
            let place = format!("round_{}_index_{index}", u8::from(rounds.is_second));
            let called =
                self.call_mutating((webhook, &place), request, target, &matched, next, warnings).await;
            measured.finish(called.as_ref().err());
            let outcome = called.as_ref().copied().unwrap_or(Outcome::Unpatched);
            annotate_mutation(webhook, &place, outcome == Outcome::Changed);
            annotate_failure(webhook, "mutation", &place, called.as_ref().err());
            rounds.webhooks.patched |= outcome != Outcome::Unpatched;
            if outcome == Outcome::Changed || (outcome == Outcome::Alike && fresh) {
                rounds.webhooks.require();
                rounds.again = true;
            }
            if webhook.reinvocable {
                rounds.webhooks.called.insert(webhook.id.clone());
            }
            apply_failure_policy(webhook, called.map(|_| ()))?;
        }
        if let Some(converted) = &converted {
            self.store_changes(target, object.as_deref_mut(), converted).await?;
        }
        if !rounds.webhooks.called.is_empty() {
            rounds.webhooks.last = object.as_deref().cloned();
        }
        Ok(())
    }

    /// Returns whether a matched request also satisfies the webhook's match conditions.
    fn meets_conditions(
        &self,
        call: WebhookCall<'_>,
        request: &Attributes<'_>,
        matched: &Matched,
        converted: &MatchedObjects,
    ) -> Result<bool, Status> {
        let webhook = call.webhook;
        if webhook.conditions.is_empty() {
            return Ok(true);
        }
        let tree = admission_request(request, matched, "");
        let request_authorizer = RequestAuthorizer::new(&self.authorizer, request);
        let inputs = Inputs {
            object: converted.object.as_ref(),
            old: converted.old.as_ref(),
            request: &tree,
            namespace: None,
            params: None,
            request_authorizer: Some(&request_authorizer),
        };
        let began = Instant::now();
        let met = webhook.conditions.matches(&inputs, true);
        metrics::observe_conditions(call, &met, began.elapsed());
        // A webhook that fails open is not called if its conditions cannot be evaluated.
        if met.is_err() && webhook.fails_open {
            return Ok(false);
        }
        let resource =
            GroupResource { group: request.version.group.clone(), resource: request.kind.plural.clone() };
        met.map_err(|why| Status::forbidden(&resource, request.name, &why))
    }

    /// Calls one mutating webhook and applies its patch.
    async fn call_mutating(
        &self,
        (webhook, place): (&Webhook, &str),
        request: &Attributes<'_>,
        target: &Target,
        matched: &Matched,
        converted: &mut MatchedObjects,
        warnings: &mut Vec<String>,
    ) -> Result<Outcome, Failure> {
        let (object, old) = (converted.object.as_ref(), converted.old.as_ref());
        let call = WebhookRequest { webhook, request, matched, object, old, mutating: true };
        let verdict = self.call_webhook(&call, warnings).await?;
        let Some(patch) = read_patch(&verdict)? else { return Ok(Outcome::Unpatched) };
        let Some(object) = &converted.object else {
            let name = quoted(&webhook.name);
            let why = format!(
                "admission webhook {name} attempted to modify the object, which is not supported for this operation"
            );
            return Err(Failure::Internal(Status::internal(&why)));
        };
        if verdict.patch_type != "JSONPatch" {
            return Err(Failure::Calling {
                why: format!("unsupported patch type {}", quoted(&verdict.patch_type)),
                code: webhook.denial(&verdict.result).code,
            });
        }
        annotate_patch(webhook, place, &verdict);
        let refuse = |why: String| Failure::Internal(Status::internal(&why));
        let patched = patch.apply(object.clone()).map_err(|error| refuse(error.to_string()))?;
        let (changed, differs) = self.read_patched(target, converted, patched).map_err(Failure::Internal)?;
        converted.change(changed);
        Ok(if differs { Outcome::Changed } else { Outcome::Alike })
    }

    /// Calls the validating webhooks concurrently. If several deny the request, the first in their order is reported.
    pub(super) async fn call_validating_webhooks(
        &self,
        webhooks: &[Webhook],
        request: &Attributes<'_>,
        target: &Target,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let mut due = Vec::new();
        let mut versions: Vec<(Matched, MatchedObjects)> = Vec::new();
        for webhook in webhooks {
            let Some(matched) = webhook.matcher.matched(request, object, &*self.storage)? else { continue };
            if !versions.iter().any(|(known, _)| *known == matched) {
                let converted = self.convert_to_match(request, target, object, &matched).await;
                let converted = converted.map_err(|status| Status::internal(&status.message))?;
                versions.push((matched.clone(), converted));
            }
            let Some((_, converted)) = versions.iter().find(|(known, _)| *known == matched) else { continue };
            let call = WebhookCall { webhook, step: "validating", operation: request.operation.name() };
            if self.meets_conditions(call, request, &matched, converted)? {
                due.push((webhook, matched));
            }
        }
        let mut done = 0_usize;
        for some in due.chunks(CALLS_TOGETHER_MAX) {
            let calls = some.iter().enumerate().filter_map(|(index, (webhook, matched))| {
                let (matched, converted) = versions.iter().find(|(known, _)| known == matched)?;
                Some(Box::pin(self.call_validating(
                    webhook,
                    request,
                    matched,
                    converted,
                    done.saturating_add(index),
                )) as Call<'_>)
            });
            let mut refusal = Ok(());
            for (outcome, call_warnings) in together(calls.collect()).await {
                warnings.extend(call_warnings);
                refusal = refusal.and(outcome);
            }
            refusal?;
            done = done.saturating_add(some.len());
        }
        Ok(())
    }

    async fn call_validating(
        &self,
        webhook: &Webhook,
        request: &Attributes<'_>,
        matched: &Matched,
        converted: &MatchedObjects,
        index: usize,
    ) -> (Result<(), Status>, Vec<String>) {
        let (object, old) = (converted.object.as_ref(), converted.old.as_ref());
        let call = WebhookRequest { webhook, request, matched, object, old, mutating: false };
        let mut warnings = Vec::new();
        let operation = request.operation.name();
        let measured = CallInProgress::begin(WebhookCall { webhook, step: "validating", operation });
        let called = self.call_webhook(&call, &mut warnings).await;
        measured.finish(called.as_ref().err());
        annotate_failure(webhook, "validating", &format!("round_0_index_{index}"), called.as_ref().err());
        (apply_failure_policy(webhook, called.map(|_| ())), warnings)
    }
}

/// The name of the configuration that a webhook belongs to.
fn configuration(webhook: &Webhook) -> &str {
    webhook.id.split('/').next().unwrap_or("")
}

/// Records in the audit event whether a webhook changed the object.
fn annotate_mutation(webhook: &Webhook, place: &str, mutated: bool) {
    pintle_audit::annotate(&format!("mutation.webhook.admission.k8s.io/{place}"), || {
        let (configuration, name) = (quoted(configuration(webhook)), quoted(&webhook.name));
        format!("{{\"configuration\":{configuration},\"webhook\":{name},\"mutated\":{mutated}}}")
    });
}

/// Records a webhook's patch in the audit event, if its level includes objects.
fn annotate_patch(webhook: &Webhook, place: &str, verdict: &Verdict) {
    pintle_audit::annotate_with_objects(&format!("patch.webhook.admission.k8s.io/{place}"), || {
        let (configuration, name) = (quoted(configuration(webhook)), quoted(&webhook.name));
        let mut patch = Vec::new();
        pintle_value::json::compact(&verdict.patch, &mut patch);
        let patch = String::from_utf8_lossy(&patch);
        let patch_type = quoted(&verdict.patch_type);
        format!(
            "{{\"configuration\":{configuration},\"webhook\":{name},\"patch\":{patch},\"patchType\":{patch_type}}}"
        )
    });
}

/// Records in the audit event that a webhook failed and its failure policy let the request continue.
fn annotate_failure(webhook: &Webhook, step: &str, place: &str, failure: Option<&Failure>) {
    if webhook.fails_open && matches!(failure, Some(Failure::Calling { .. })) {
        let key = format!("failed-open.{step}.webhook.admission.k8s.io/{place}");
        pintle_audit::annotate(&key, || webhook.name.to_string());
    }
}

/// The effect of a webhook's patch on the object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unpatched,
    /// The patch left the object unchanged.
    Alike,
    Changed,
}

/// Returns whether the server set timestamps for this request. kube-apiserver holds them with more precision than a
/// patched document, so there every patch counts as a change.
fn has_fresh_times(old: Option<&Value>, object: Option<&Value>) -> bool {
    const PATH: [&str; 2] = ["metadata", "managedFields"];
    let known = old.map(|old| old.items_at(&PATH)).unwrap_or_default();
    let noted = object.map(|object| object.items_at(&PATH)).unwrap_or_default();
    noted.iter().any(|entry| !known.contains(entry))
}

/// Applies the failure policy: a failed call only stops the request if the policy is Fail.
fn apply_failure_policy(webhook: &Webhook, called: Result<(), Failure>) -> Result<(), Status> {
    match called {
        Ok(()) => Ok(()),
        Err(Failure::Calling { why, .. }) if webhook.fails_open => {
            tracing::warn!(error = calling(webhook, &why), "a webhook failed and is ignored");
            Ok(())
        }
        Err(failure) => Err(failure.status(webhook)),
    }
}

/// The patch of a verdict, or `None` if it has no operations.
fn read_patch(verdict: &Verdict) -> Result<Option<patch::json::Patch>, Failure> {
    if verdict.patch.is_empty() {
        return Ok(None);
    }
    let refuse = |why: String| {
        Failure::unusable_answer(format!("received undecodable patch in webhook response: {why}"))
    };
    let parsed = json::parse(&verdict.patch).map_err(|error| refuse(error.to_string()))?;
    let is_empty = parsed.value.is_null() || parsed.value.as_array().is_some_and(|items| items.is_empty());
    let patch = patch::json::decode(parsed.value, &[], false).map_err(|error| refuse(error.to_string()))?;
    Ok((!is_empty).then_some(patch))
}

/// The error message for an object that cannot be converted to the matched version.
fn internal(status: &Status) -> String {
    Status::internal(&status.message).message
}

/// Waits for all calls concurrently and returns the outcomes in the order of the calls.
async fn together(mut calls: Vec<Call<'_>>) -> Vec<(Result<(), Status>, Vec<String>)> {
    let mut outcomes: Vec<Option<_>> = calls.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut waits = false;
        for (call, outcome) in calls.iter_mut().zip(&mut outcomes) {
            if outcome.is_none() {
                match call.as_mut().poll(cx) {
                    Poll::Ready(done) => *outcome = Some(done),
                    Poll::Pending => waits = true,
                }
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    outcomes.into_iter().flatten().collect()
}
