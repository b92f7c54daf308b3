//! Admission of a request: the built-in plugins, then the policies and webhooks that are configured as objects.
//!
//! If there are none of those, only the plugins run.

mod cached;
mod calls;
mod manifests;
mod matched_objects;
mod metrics;
mod policies;
mod webhooks;

pub(crate) use policies::CachedPolicies;
pub use webhooks::Hooks;

use crate::{Reader, Storage, Target, ownership};
use pintle_admission::{Attributes, Chain, EnginePlugin, Measuring, Operation, Step, matching, policy};
use pintle_auth::Authorizer;
use pintle_meta::Status;
use pintle_value::Value;
use std::sync::Arc;
use webhooks::Reinvocation;

const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// State that the first round of mutation hands to the reinvocation round.
#[derive(Default)]
pub(crate) struct Rounds {
    /// Whether this is the second and last round.
    pub(crate) is_second: bool,
    /// Whether a later mutator changed the object, so that the earlier ones must see it again.
    pub(crate) again: bool,
    webhooks: Reinvocation,
    policies: policy::mutating::Reinvocation,
}

/// Admission control: decides whether a request is allowed, and changes its object before that.
pub struct Admission {
    pub(crate) storage: Arc<Storage>,
    pub(crate) reader: Arc<Reader>,
    /// The built-in plugins.
    pub(crate) plugins: Chain,
    /// Answers the authorization checks in expressions of policies and webhooks.
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) hooks: Hooks,
    pub(crate) policy_slots: CachedPolicies,
}

impl Admission {
    /// Returns whether policies or webhooks are configured in addition to the plugins.
    pub(crate) fn has_policies_or_webhooks(&self) -> bool {
        self.mutating_webhooks(false).is_some()
            || self.validating_webhooks(false).is_some()
            || self.mutating_policies(false).is_some()
            || self.validating_policies(false).is_some()
    }

    /// Counts the mutating and the validating step of a connection for which no policy or webhook is called.
    pub(crate) fn count_connection_without_webhooks(&self) {
        use EnginePlugin as Plugin;
        for (step, plugins) in [
            (Step::Admit, [Plugin::MutatingAdmissionPolicy, Plugin::MutatingAdmissionWebhook]),
            (Step::Validate, [Plugin::ValidatingAdmissionPolicy, Plugin::ValidatingAdmissionWebhook]),
        ] {
            let mut measuring = self.plugins.measure(step, Operation::Connect);
            plugins.into_iter().for_each(|plugin| measuring.observe(plugin, false));
        }
    }

    /// Runs the mutating plugins, policies and webhooks on the object of a request; deletions have no object. `object_target`
    /// is the target in the object's own kind, which for a subresource may be the subresource's kind. Returns whether there
    /// were policies or webhooks to call.
    pub(crate) async fn mutate_admitted(
        &self,
        request: &Attributes<'_>,
        object_target: &Target,
        mut object: Option<&mut Value>,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Status> {
        let asks_plugins = matches!(request.operation, Operation::Create | Operation::Update);
        let webhooks = self.mutating_webhooks(matching::is_exempt(request));
        let changes_object = !policy::is_exempt(request) && request.operation != Operation::Delete;
        let policies = self.mutating_policies(policy::is_configuration(request)).filter(|_| changes_object);
        let asks_others = webhooks.is_some() || policies.is_some();
        let fields = |object: &Value| object.at(&MANAGED_FIELDS).cloned();
        let before = object.as_deref().filter(|_| asks_others).and_then(fields);
        let mut rounds = Rounds::default();
        let mut measuring = self.plugins.measure(Step::Admit, request.operation);
        if request.operation == Operation::Delete {
            self.plugins.admit_deletion(request, &*self.storage, &mut measuring)?;
        }
        loop {
            if let Some(object) = object.as_deref_mut().filter(|_| asks_plugins) {
                self.plugins.mutate(request, object, &*self.storage, &mut measuring)?;
            }
            let mut outcome = Ok(());
            if let Some(policies) = &policies {
                let object = object.as_deref_mut();
                outcome = self
                    .evaluate_mutating_policies(policies, request, object_target, object, &mut rounds)
                    .await;
            }
            measuring.observe(EnginePlugin::MutatingAdmissionPolicy, outcome.is_err());
            outcome?;
            let mut outcome = Ok(());
            if let Some(webhooks) = &webhooks {
                let asked = self.call_mutating_webhooks(
                    webhooks,
                    request,
                    object_target,
                    object.as_deref_mut(),
                    &mut rounds,
                    warnings,
                );
                outcome = asked.await;
            }
            measuring.observe(EnginePlugin::MutatingAdmissionWebhook, outcome.is_err());
            outcome?;
            if rounds.is_second || !rounds.again {
                break;
            }
            rounds.is_second = true;
        }
        drop(measuring);
        let Some(object) = object.filter(|_| asks_plugins) else { return Ok(asks_others) };
        if asks_others {
            warnings.extend(ownership::restore_managed_fields(object, before));
        }
        self.plugins.check_escalation(request, object, &*self.storage)?;
        Ok(asks_others)
    }

    /// Runs the validating plugins, policies and webhooks on a request. Quotas may follow: the step ends when the result is
    /// dropped.
    pub(crate) async fn validate_admitted(
        &self,
        request: &Attributes<'_>,
        object_target: &Target,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<Measuring<'_>, Status> {
        let mut measuring = self.plugins.measure(Step::Validate, request.operation);
        if request.operation != Operation::Connect {
            self.plugins.validate(request, object, &*self.storage, warnings, &mut measuring).await?;
        }
        let policies = self.validating_policies(policy::is_configuration(request));
        let mut outcome = Ok(());
        if let Some(policies) = policies.filter(|_| !policy::is_exempt(request)) {
            outcome =
                self.evaluate_validating_policies(&policies, request, object_target, object, warnings).await;
        }
        measuring.observe(EnginePlugin::ValidatingAdmissionPolicy, outcome.is_err());
        outcome?;
        let outcome = match self.validating_webhooks(matching::is_exempt(request)) {
            Some(webhooks) => {
                self.call_validating_webhooks(&webhooks, request, object_target, object, warnings).await
            }
            None => Ok(()),
        };
        measuring.observe(EnginePlugin::ValidatingAdmissionWebhook, outcome.is_err());
        outcome?;
        Ok(measuring)
    }
}
