//! CronJob.

use super::{job, job_spec, schedule, timezone};
use crate::core::podspec::{self, options::Options};
use crate::fields::{flag, member, opt_text, text};
use crate::{Hooks, Scope, check, facts, workload};
use pintle_meta::FieldErrors;
use pintle_meta::field::Named;
use pintle_value::{Path, Value};

const SPEC: Path<'static> = Path::of("spec");
const TYPE: &str = "batch/v1.CronJobSpec";
/// Names of jobs append a time to that of the CronJob and are limited to 63 bytes.
const NAME_BYTES_MAX: usize = 52;

pub(crate) struct CronJob;

impl Hooks for CronJob {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(workload::spec_of(object), None, &Options::of_template(None), errors);
        let name = object.str_at(&["metadata", "name"]);
        if name.len() > NAME_BYTES_MAX {
            errors.invalid(&Path::of("metadata.name"), name, "must be no more than 52 characters");
        }
    }

    fn validates_changed_metadata(&self, scope: Scope<'_>) -> bool {
        scope == Scope::Main
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Sub("status") {
            return;
        }
        let options = Options::of_template(old.at(&["spec", "jobTemplate", "spec", "template"]));
        validate_spec(workload::spec_of(object), Some(workload::spec_of(old)), &options, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut found = Vec::new();
        if old.is_none() {
            found.extend(workload::name_warning(object, workload::POD_NAMES));
        }
        if old.is_none_or(|old| podspec::options::generation(old) != podspec::options::generation(object)) {
            let job = object.at(&["spec", "jobTemplate", "spec"]).unwrap_or(&Value::Null);
            found.extend(job::spec_warnings(job, &SPEC.field("jobTemplate.spec")));
        }
        if old.is_some() && object.str_at(&["spec", "schedule"]).contains("TZ") {
            found.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_string());
        }
        found
    }
}

fn validate_spec(spec: &Value, old: Option<&Value>, options: &Options, errors: &mut FieldErrors) {
    validate_schedule(spec, old, &SPEC.field("schedule"), errors);
    facts::check_fields(spec, TYPE, &["startingDeadlineSeconds"], &SPEC, errors);
    let zone = opt_text(spec, "timeZone");
    if let Some(zone) = zone.filter(|_| old.is_none_or(|old| opt_text(old, "timeZone") != zone)) {
        check::each(timezone::complaints(zone), &SPEC.field("timeZone"), Named(zone), errors);
    }
    facts::check_fields(spec, TYPE, &["concurrencyPolicy"], &SPEC, errors);
    validate_job(spec, options, errors);
    let limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    facts::check_fields(spec, TYPE, &limits, &SPEC, errors);
}

fn validate_schedule(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    let text = text(spec, "schedule");
    if text.is_empty() {
        return errors.required(path, "");
    }
    if let Some(complaint) = schedule::complaint(text) {
        errors.invalid(path, text, &complaint);
    }
    let had_zone = old.is_some_and(|old| crate::fields::text(old, "schedule").contains("TZ"));
    if !text.contains("TZ") {
        return;
    }
    if !had_zone {
        errors.invalid(path, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if member(spec, "timeZone").is_some() {
        errors.invalid(path, text, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
}

/// The jobs get their own selectors.
fn validate_job(spec: &Value, options: &Options, errors: &mut FieldErrors) {
    let empty = Value::object();
    let job = spec.at(&["jobTemplate", "spec"]).unwrap_or(&empty);
    let path = SPEC.field("jobTemplate.spec");
    job_spec::validate(job, &path, options, errors);
    if member(job, "selector").is_some() {
        errors.invalid(
            &path.field("selector"),
            workload::selector_error_text(job),
            "`selector` will be auto-generated",
        );
    }
    if flag(job, "manualSelector") {
        errors.not_supported(&path.field("manualSelector"), true, &["nil", "false"]);
    }
}
