//! Validates the status of a job. Errors that the old object already has are ignored.

use super::{indexes, job_spec::is_indexed};
use crate::error_text::Internal;
use crate::fields::{flag, int, list, member, opt_int, opt_text, text};
use crate::{check, workload};
use pintle_meta::field::{ErrorKind, Named};
use pintle_meta::{FieldErrors, Timestamp};
use pintle_value::{Path, Value};
use std::collections::HashSet;

const STATUS: Path<'static> = Path::of("status");
/// A job before and after an update.
struct Change<'a> {
    job: &'a Value,
    status: &'a Value,
    old: &'a Value,
}

fn has_condition(status: &Value, kind: &str, value: &str) -> bool {
    list(status, "conditions").iter().any(|c| text(c, "type") == kind && text(c, "status") == value)
}

impl Change<'_> {
    fn is(&self, kind: &str) -> bool {
        has_condition(self.status, kind, "True")
    }

    fn was(&self, kind: &str) -> bool {
        has_condition(self.old, kind, "True")
    }

    /// Returns whether the condition became true or stopped being true.
    fn condition_changed(&self, kind: &str) -> bool {
        self.is(kind) != self.was(kind)
    }

    fn finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn finished_changed(&self) -> bool {
        self.finished() != (self.was("Complete") || self.was("Failed"))
    }

    fn changed(&self, key: &str) -> bool {
        self.status.get(key) != self.old.get(key)
    }
}

/// Validates an update of a job's status.
pub(super) fn validate(job: &Value, old: &Value, errors: &mut FieldErrors) {
    let change = Change { job, status: workload::status(job), old: workload::status(old) };
    workload::validate_counters(
        change.status,
        &["active", "succeeded", "failed", "ready", "terminating"],
        &STATUS,
        errors,
    );
    validate_uncounted_pods(change.status, errors);
    validate_conditions_and_times(&change, errors);
    validate_finished_job(&change, errors);
    validate_index_lists(&change, errors);
    if change.finished_changed() || change.changed("terminating") {
        let terminating = int(change.status, "terminating");
        if terminating > 0 && change.finished() {
            let detail = "terminating>0 is invalid for finished job";
            errors.invalid(&STATUS.field("terminating"), terminating, detail);
        }
    }
    if change.changed("ready") || change.changed("active") {
        let ready = opt_int(change.status, "ready");
        if let Some(ready) = ready.filter(|ready| *ready > int(change.status, "active")) {
            errors.invalid(&STATUS.field("ready"), ready, "cannot set more ready pods than active");
        }
    }
    validate_success_criteria(&change, errors);
    validate_transitions(&change, errors);
}

fn complain(detail: &str, errors: &mut FieldErrors) {
    errors.push(ErrorKind::Invalid, &STATUS.field("conditions"), None, detail);
}

fn validate_uncounted_pods(status: &Value, errors: &mut FieldErrors) {
    let path = STATUS.field("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for key in ["succeeded", "failed"] {
        for (at, uid) in status.items_at(&["uncountedTerminatedPods", key]).iter().enumerate() {
            let uid = uid.as_str().unwrap_or("");
            let list = path.field(key);
            if uid.is_empty() {
                errors.invalid(&list.index(at), Named(uid), "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(&list.index(at), Named(uid));
            }
        }
    }
}

fn validate_conditions_and_times(change: &Change<'_>, errors: &mut FieldErrors) {
    let complete = change.is("Complete");
    if (change.condition_changed("Complete") || change.condition_changed("Failed"))
        && complete
        && change.is("Failed")
    {
        complain("cannot set Complete=True and Failed=true conditions", errors);
    }
    if (change.condition_changed("Complete") || change.condition_changed("FailureTarget"))
        && complete
        && change.is("FailureTarget")
    {
        complain("cannot set Complete=True and FailureTarget=true conditions", errors);
    }
    let path = STATUS.field("completionTime");
    let completion = member(change.status, "completionTime");
    if change.condition_changed("Complete") || change.changed("completionTime") {
        if completion.is_some() && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.invalid(&path, completion, detail);
        }
        if completion.is_none() && complete {
            errors.required(&path, "completionTime is required for Complete jobs");
        }
    }
    if change.changed("startTime") || change.changed("completionTime") {
        let time = |key: &str| opt_text(change.status, key).and_then(|t| Timestamp::parse(t).ok());
        if let (Some(start), Some(end)) = (time("startTime"), time("completionTime"))
            && end.nanos_since(&start) < 0
        {
            errors.invalid(&path, completion, "must be equal to or after `startTime`");
        }
    }
    if (change.condition_changed("Failed") || change.changed("failedIndexes"))
        && change.is("Failed")
        && !change.is("FailureTarget")
    {
        complain("cannot set Failed=True condition without the FailureTarget=true condition", errors);
    }
    if (change.condition_changed("Complete") || change.condition_changed("SuccessCriteriaMet"))
        && complete
        && !change.is("SuccessCriteriaMet")
    {
        complain("cannot set Complete=True condition without the SuccessCriteriaMet=true condition", errors);
    }
}

fn validate_finished_job(change: &Change<'_>, errors: &mut FieldErrors) {
    let (status, finished, condition_changed) = (change.status, change.finished(), change.finished_changed());
    let active = int(status, "active");
    if (condition_changed || change.changed("active")) && active > 0 && finished {
        errors.invalid(&STATUS.field("active"), active, "active>0 is invalid for finished job");
    }
    let spec = workload::spec_of(change.job);
    let nothing_to_do = flag(spec, "suspend") && opt_int(spec, "completions") == Some(0);
    let started = member(status, "startTime").is_some();
    if (condition_changed || change.changed("startTime")) && !nothing_to_do && finished && !started {
        errors.required(&STATUS.field("startTime"), "startTime is required for finished job");
    }
    let uncounted = member(status, "uncountedTerminatedPods");
    let any = uncounted.is_some_and(|u| ["succeeded", "failed"].iter().any(|key| !list(u, key).is_empty()));
    if (condition_changed || change.changed("uncountedTerminatedPods")) && finished && any {
        let field = STATUS.field("uncountedTerminatedPods");
        errors.invalid(
            &field,
            Internal(uncounted, "batch/v1.UncountedTerminatedPods"),
            "must be empty for finished job",
        );
    }
}

fn validate_index_lists(change: &Change<'_>, errors: &mut FieldErrors) {
    let spec = workload::spec_of(change.job);
    let completions = opt_int(spec, "completions");
    let per_index = opt_int(spec, "backoffLimitPerIndex").is_some();
    let completed = text(change.status, "completedIndexes");
    let failed = opt_text(change.status, "failedIndexes");
    let (completed_path, failed_path) = (STATUS.field("completedIndexes"), STATUS.field("failedIndexes"));
    let (completed_changed, failed_changed) =
        (change.changed("completedIndexes"), change.changed("failedIndexes"));
    let fault = |list: &str| completions.and_then(|all| indexes::count(list, all).err());
    if let Some(error) = fault(completed).filter(|_| completed_changed) {
        errors.invalid(&completed_path, completed, &format!("error parsing completedIndexes: {error}"));
    }
    if let Some(failed) = failed.filter(|_| failed_changed && per_index)
        && let Some(error) = fault(failed)
    {
        errors.invalid(&failed_path, Named(failed), &format!("error parsing failedIndexes: {error}"));
    }
    if completed_changed && !completed.is_empty() && !is_indexed(spec) {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&completed_path, completed, detail);
    }
    let Some(failed) = failed else { return };
    if failed_changed && !per_index {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&failed_path, failed, detail);
    }
    if failed_changed || completed_changed {
        let both = completions.and_then(|all| indexes::overlap(completed, failed, all));
        if let Some(index) = both {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.invalid(&failed_path, failed, &detail);
        }
    }
}

fn validate_success_criteria(change: &Change<'_>, errors: &mut FieldErrors) {
    let met = change.is("SuccessCriteriaMet");
    if met && change.is("Failed") {
        complain("cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
    }
    if met && change.is("FailureTarget") {
        complain("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
    }
    let policy = change.job.at(&["spec", "successPolicy"]).is_some();
    if policy && !met && change.is("Complete") {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        complain(detail, errors);
    }
}

/// Validates transitions that cannot be undone.
fn validate_transitions(change: &Change<'_>, errors: &mut FieldErrors) {
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if change.was(kind) && !change.is(kind) {
            complain(&format!("cannot disable the terminal {kind}=True condition"), errors);
        }
    }
    let spec = workload::spec_of(change.job);
    let scales = is_indexed(spec) && spec.get("completions") == spec.get("parallelism");
    for key in ["failed", "succeeded"] {
        let count = int(change.status, key);
        if count < int(change.old, key) && !(key == "succeeded" && scales) {
            errors.invalid(&STATUS.field(key), count, &format!("cannot decrease the {key} counter"));
        }
    }
    let completion = |status: &Value| member(status, "completionTime").cloned();
    let (new, old) = (completion(change.status), completion(change.old));
    if new.is_some() && old.is_some() && new != old {
        errors.invalid(&STATUS.field("completionTime"), new.as_ref(), check::IMMUTABLE);
    }
    let resuming = change.was("Suspended") && has_condition(change.status, "Suspended", "False");
    let had_start = member(change.old, "startTime").is_some();
    if change.changed("startTime") && !resuming && had_start && !flag(spec, "suspend") {
        let detail = "field is immutable for unsuspended job once set";
        errors.invalid(&STATUS.field("startTime"), change.status.get("startTime"), detail);
    }
    if change.was("SuccessCriteriaMet") && !change.is("SuccessCriteriaMet") {
        complain("cannot disable the SuccessCriteriaMet=True condition", errors);
    }
    if change.was("Complete") && !change.was("SuccessCriteriaMet") && change.is("SuccessCriteriaMet") {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        complain(detail, errors);
    }
}
