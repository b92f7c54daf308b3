//! `pods/eviction`: deletes a pod unless a PodDisruptionBudget forbids it.

use super::{binding::set_condition, success};
use crate::retry::Attempts;
use crate::{Target, Writer};
use pintle_meta::options::{DeleteOptions, Preconditions};
use pintle_meta::selector::LabelSelector;
use pintle_meta::{Cause, FieldErrors, GroupKind, GroupResource, Status};
use pintle_value::{Path, Value};

/// How many evictions of a budget may be unconfirmed by its controller.
const DISRUPTED_PODS_MAX: usize = 2000;
/// How often the deletion of a pod without a budget is retried.
const ATTEMPTS_MAX: usize = 5;
const VIOLATES: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// The delete options of an eviction.
pub(super) struct EvictionOptions {
    options: DeleteOptions,
    /// Whether they are valid. As in kube-apiserver, an eviction fails only when it deletes the pod: a budget may refuse it
    /// before.
    validity: Result<(), Status>,
}

/// Reads the delete options of an eviction.
pub(super) fn options(eviction: &Value, name: &str, dry_run: bool) -> Result<EvictionOptions, Status> {
    if eviction.str_at(&["metadata", "name"]) != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let Some(given) = eviction.get("deleteOptions") else {
        let options = DeleteOptions { dry_run, ..DeleteOptions::default() };
        return Ok(EvictionOptions { options, validity: Ok(()) });
    };
    let unsafe_key = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if given.get(unsafe_key).and_then(Value::as_bool) == Some(true) {
        let mut errors = FieldErrors::new();
        let why = "can not be set for pod eviction, try after removing the option";
        errors.invalid(&Path::of("deleteOptions").field(unsafe_key), true, why);
        return Err(Status::invalid(&GroupKind::new("policy", "Eviction"), name, &errors));
    }
    check_dry_run(given.items_at(&["dryRun"]), dry_run)?;
    // These options are part of another object, so the kind that they state does not matter.
    let mut given = given.clone();
    given.remove_at(&["kind"]);
    given.remove_at(&["apiVersion"]);
    let (mut options, validity) = DeleteOptions::read(&given, false)?;
    options.dry_run |= dry_run;
    Ok(EvictionOptions { options, validity })
}

/// Refuses options whose dry run differs from that of the request.
fn check_dry_run(given: &[Value], dry_run: bool) -> Result<(), Status> {
    let given: Vec<&str> = given.iter().map(|value| value.as_str().unwrap_or_default()).collect();
    if !dry_run || given.is_empty() || given == ["All"] {
        return Ok(());
    }
    let given = given.join(" ");
    let why = format!("Non-matching dry-run options in request and content: [All] and [{given}]");
    Err(Status::unclassified(why))
}

impl Writer {
    /// Evicts a pod.
    pub(super) async fn evict(
        &self,
        target: &Target,
        name: &str,
        given: EvictionOptions,
    ) -> Result<Value, Status> {
        let options = &given.options;
        let pod = Target { subresource: Default::default(), ..target.named(name) };
        let live = self.unguarded(&pod, &given).await?;
        let Some(live) = live else { return Ok(success()) };
        let budgets = self.budgets(&pod, &live);
        let mut pinned = false;
        let budget = match budgets.as_slice() {
            [] => None,
            [one] => Some(one),
            _ => return Ok(too_many_budgets()),
        };
        if let Some(budget) = budget {
            pinned = !is_ready(&live) && allows_unready_eviction(budget);
            if !pinned {
                self.take_disruption(&pod, budget.str_at(&["metadata", "name"]), options.dry_run).await?;
            }
        }
        let mut deletion = options.clone();
        if pinned {
            pin(&mut deletion, live.str_at(&["metadata", "resourceVersion"]));
        }
        match self.mark_and_delete(&pod, deletion, &given.validity).await {
            Ok(()) => Ok(success()),
            Err(status) if status.code == 409 && pinned && !has_revision(options) => {
                Err(still_processed(budget.map_or("", |b| b.str_at(&["metadata", "name"]))))
            }
            Err(status) => Err(status),
        }
    }

    /// Deletes a pod to which no budget applies; otherwise returns the pod.
    async fn unguarded(&self, pod: &Target, given: &EvictionOptions) -> Result<Option<Value>, Status> {
        let options = &given.options;
        let mut attempts = Attempts::new(ATTEMPTS_MAX);
        loop {
            let Some(live) = self.reader.object_tree(pod)? else {
                return Err(Status::not_found(&pod.kind.group_resource(), &pod.name));
            };
            let phase = live.str_at(&["status", "phase"]);
            let ended = matches!(phase, "Succeeded" | "Failed")
                || live.at(&["metadata", "deletionTimestamp"]).is_some();
            if !ended && phase != "Pending" {
                return Ok(Some(live));
            }
            let mut deletion = options.clone();
            if !ended && !has_revision(options) {
                pin(&mut deletion, live.str_at(&["metadata", "resourceVersion"]));
            }
            match self.mark_and_delete(pod, deletion, &given.validity).await {
                Ok(()) => return Ok(None),
                Err(status) if status.code == 409 && !has_revision(options) => attempts.again(|| status)?,
                Err(status) => return Err(status),
            }
        }
    }

    /// The budgets whose selector matches a pod.
    fn budgets(&self, pod: &Target, live: &Value) -> Vec<Value> {
        use pintle_admission::ClusterState;
        let mut all = self.storage.objects("policy", "poddisruptionbudgets", &pod.namespace);
        all.retain(|budget| {
            let selector = budget.at(&["spec", "selector"]).map(LabelSelector::from_value);
            matches!(selector, Some(Ok(selector)) if selector.matches_object(live))
        });
        all
    }

    /// Takes one disruption from a budget, or refuses the eviction.
    async fn take_disruption(&self, pod: &Target, name: &str, dry_run: bool) -> Result<(), Status> {
        let found = self.storage.target("policy", "v1", "poddisruptionbudgets", &pod.namespace, name);
        let budget = found.ok_or_else(|| Status::internal("there are no disruption budgets"))?.sub("status");
        let now = self.storage.now_text();
        let take_one = |tree: &mut Value| take_one(tree, &pod.name, &now);
        match self.update(&budget, Some("kube-apiserver"), dry_run, &take_one).await? {
            Some(_) => Ok(()),
            None => Err(Status::not_found(&budget.kind.group_resource(), name)),
        }
    }

    /// Sets the DisruptionTarget condition on the pod and deletes it.
    async fn mark_and_delete(
        &self,
        pod: &Target,
        mut options: DeleteOptions,
        validity: &Result<(), Status>,
    ) -> Result<(), Status> {
        if !options.dry_run {
            let now = self.storage.now_text();
            let preconditions = options.preconditions.clone();
            let mark = |tree: &mut Value| {
                if let Some(preconditions) = &preconditions {
                    let metadata = tree.get("metadata").unwrap_or(&Value::Null);
                    preconditions.check(&GroupKind::new("", "Pod"), metadata)?;
                }
                set_condition(tree, evicted_status(), &now);
                Ok(())
            };
            let Some(marked) = self.update(pod, None, false, &mark).await? else {
                return Err(Status::not_found(&pod.kind.group_resource(), &pod.name));
            };
            if let Some(revision) = options.preconditions.as_mut().and_then(|p| p.resource_version.as_mut()) {
                *revision = marked.revision().to_string().into();
            }
        }
        validity.clone()?;
        self.delete_admitted(pod, &options).await.map(|_| ())
    }
}

fn evicted_status() -> Value {
    let mut condition = Value::object();
    for (key, text) in [
        ("type", "DisruptionTarget"),
        ("status", "True"),
        ("reason", "EvictionByEvictionAPI"),
        ("message", "Eviction API: evicting"),
    ] {
        condition.set_at(&[key], text.into());
    }
    condition
}

fn has_revision(options: &DeleteOptions) -> bool {
    options.preconditions.as_ref().is_some_and(|p| p.resource_version.is_some())
}

fn pin(options: &mut DeleteOptions, revision: &str) {
    options.preconditions.get_or_insert_with(Preconditions::default).resource_version = Some(revision.into());
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.items_at(&["status", "conditions"]);
    conditions.iter().any(|c| c.str_at(&["type"]) == "Ready" && c.str_at(&["status"]) == "True")
}

fn number(budget: &Value, key: &str) -> i64 {
    budget.at(&["status", key]).and_then(Value::as_int).unwrap_or(0)
}

/// Returns whether a budget allows the eviction of pods that are not ready.
fn allows_unready_eviction(budget: &Value) -> bool {
    let desired = number(budget, "desiredHealthy");
    budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow"
        || (number(budget, "currentHealthy") >= desired && desired > 0)
}

fn take_one(budget: &mut Value, pod: &str, now: &str) -> Result<(), Status> {
    let name = budget.str_at(&["metadata", "name"]).to_string();
    let forbidden = |why| Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), &name, why);
    let generation = crate::metadata::generation(budget);
    if number(budget, "observedGeneration") < generation {
        return Err(still_processed(&name));
    }
    let allowed = number(budget, "disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    let disrupted = budget.at(&["status", "disruptedPods"]).and_then(Value::as_object).map_or(0, |m| m.len());
    if disrupted > DISRUPTED_PODS_MAX {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(none_allowed(budget, &name));
    }
    budget.set_at(&["status", "disruptionsAllowed"], Value::Int(allowed.saturating_sub(1)));
    if allowed == 1 {
        let mut condition = Value::object();
        condition.set_at(&["type"], "DisruptionAllowed".into());
        condition.set_at(&["reason"], "InsufficientPods".into());
        condition.set_at(&["status"], "False".into());
        condition.set_at(&["observedGeneration"], Value::Int(number(budget, "observedGeneration")));
        set_condition(budget, condition, now);
    }
    budget.set_at(&["status", "disruptedPods", pod], now.into());
    Ok(())
}

fn disruption_error(message: String, retry_seconds: i32) -> Status {
    let mut status = Status::too_many_requests(VIOLATES, retry_seconds);
    status.details.causes.push(Cause {
        reason: "DisruptionBudget".into(),
        message,
        field: Default::default(),
    });
    status
}

fn still_processed(name: &str) -> Status {
    disruption_error(format!("The disruption budget {name} is still being processed by the server."), 10)
}

fn none_allowed(budget: &Value, name: &str) -> Status {
    let conditions = budget.items_at(&["status", "conditions"]);
    let says_no = conditions
        .iter()
        .find(|c| c.str_at(&["type"]) == "DisruptionAllowed")
        .filter(|c| c.str_at(&["status"]) == "False" && !c.str_at(&["message"]).is_empty());
    let (desired, current) = (number(budget, "desiredHealthy"), number(budget, "currentHealthy"));
    let message = match says_no.map(|c| (c.str_at(&["reason"]), c.str_at(&["message"]))) {
        Some(("SyncFailed", why)) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
            )
        }
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        Some((reason, why)) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {why}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    };
    disruption_error(message, 0)
}

fn too_many_budgets() -> Value {
    let mut out = success();
    out.set_at(&["status"], "Failure".into());
    let why =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    out.set_at(&["message"], why.into());
    out.set_at(&["code"], Value::Int(500));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    #[test]
    fn options_in_the_eviction_agree_with_those_of_the_request() {
        let differs = "Non-matching dry-run options in request and content: [All] and ";
        for (given, dry_run, expected) in [
            (r#"{}"#, false, Ok(false)),
            (r#"{}"#, true, Ok(true)),
            (r#"{"dryRun":["All"]}"#, true, Ok(true)),
            (r#"{"dryRun":["All"],"kind":"Eviction"}"#, false, Ok(true)),
            (r#"{"dryRun":["Some"]}"#, true, Err(format!("{differs}[Some]"))),
            (r#"{"dryRun":[null,"All"]}"#, true, Err(format!("{differs}[ All]"))),
        ] {
            let eviction = format!(r#"{{"metadata":{{"name":"p"}},"deleteOptions":{given}}}"#);
            let eviction = json::parse(eviction.as_bytes()).unwrap().value;
            let options = options(&eviction, "p", dry_run);
            assert_eq!(
                options.map(|o| o.options.dry_run).map_err(|s| s.message),
                expected,
                "{given} {dry_run}"
            );
        }
    }
}
