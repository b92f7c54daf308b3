//! The spec of a job, alone or in a CronJob.

use super::indexes;
use crate::core::podspec::{options::Options, spec::validate_template};
use crate::error_text::Internal;
use crate::fields::{list, member, opt_int, opt_text, text};
use crate::{check, facts};
use pintle_meta::field::{ErrorKind, Named};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::HashSet;

/// The limits of parallelism and of failed indexes of an indexed job.
const INDEXED_MAX: i64 = 100_000;
/// Above this number of completions the limits are lower.
const COMPLETIONS_SOFT_LIMIT: i64 = 100_000;
const PARALLELISM_FOR_MANY_MAX: i64 = 10_000;
const FAILED_INDEXES_FOR_MANY_MAX: i64 = 10_000;
const EXIT_CODES_MAX: usize = 255;
const SUCCEEDED_INDEXES_BYTES_MAX: usize = 64 * 1024;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const TYPE: &str = "batch/v1.JobSpec";
const COUNTS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];

/// Checks all but the selector.
pub(super) fn validate(spec: &Value, path: &Path<'_>, options: &Options, errors: &mut FieldErrors) {
    facts::check_fields(spec, TYPE, &COUNTS, path, errors);
    if opt_int(spec, "maxFailedIndexes").is_some() && opt_int(spec, "backoffLimitPerIndex").is_none() {
        errors.required(&path.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = opt_text(spec, "managedBy") {
        names::domain_prefixed_path(&path.field("managedBy"), manager, errors);
    }
    facts::check_fields(spec, TYPE, &["managedBy"], path, errors);
    validate_completion_mode(spec, path, errors);
    if let Some(policy) = member(spec, "podFailurePolicy") {
        validate_failure_policy(policy, spec, &path.field("podFailurePolicy"), errors);
    }
    validate_success_policy(spec, &path.field("successPolicy"), errors);
    let replacements: &[&str] = if member(spec, "podFailurePolicy").is_some() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    let replacement = opt_text(spec, "podReplacementPolicy");
    check::supported(&path.field("podReplacementPolicy"), replacement, replacements, errors);
    validate_job_template(spec, &path.field("template"), options, errors);
}

/// Returns whether the job is indexed.
pub(super) fn is_indexed(spec: &Value) -> bool {
    opt_text(spec, "completionMode") == Some("Indexed")
}

fn validate_completion_mode(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let mode = opt_text(spec, "completionMode");
    facts::check_fields(spec, TYPE, &["completionMode"], path, errors);
    if mode == Some("Indexed") {
        validate_indexed(spec, path, errors);
    }
    if mode.is_none_or(|m| m == "NonIndexed") {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = opt_int(spec, key) {
                errors.invalid(&path.field(key), value, "requires indexed completion mode");
            }
        }
    }
}

fn validate_indexed(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let [completions, parallelism, failed] =
        ["completions", "parallelism", "maxFailedIndexes"].map(|key| opt_int(spec, key));
    let failed_path = path.field("maxFailedIndexes");
    if completions.is_none() {
        errors.required(&path.field("completions"), "when completion mode is Indexed");
    }
    if let Some(count) = parallelism.filter(|p| *p > INDEXED_MAX) {
        let detail = format!("must be less than or equal to {INDEXED_MAX} when completion mode is Indexed");
        errors.invalid(&path.field("parallelism"), count, &detail);
    }
    if let (Some(all), Some(failed)) = (completions, failed)
        && failed > all
    {
        errors.invalid(&failed_path, failed, "must be less than or equal to completions");
    }
    if let Some(count) = failed.filter(|f| *f > INDEXED_MAX) {
        errors.invalid(&failed_path, count, &format!("must be less than or equal to {INDEXED_MAX}"));
    }
    let many = completions.is_some_and(|c| c > COMPLETIONS_SOFT_LIMIT);
    if !many || opt_int(spec, "backoffLimitPerIndex").is_none() {
        return;
    }
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {COMPLETIONS_SOFT_LIMIT}");
        errors.required(&failed_path, &detail);
    }
    let detail = |max: i64| {
        format!(
            "must be less than or equal to {max} when completions are above {COMPLETIONS_SOFT_LIMIT} and used with backoff limit per index"
        )
    };
    if let Some(count) = parallelism.filter(|p| *p > PARALLELISM_FOR_MANY_MAX) {
        errors.invalid(&path.field("parallelism"), count, &detail(PARALLELISM_FOR_MANY_MAX));
    }
    if let Some(count) = failed.filter(|f| *f > FAILED_INDEXES_FOR_MANY_MAX) {
        errors.invalid(&failed_path, count, &detail(FAILED_INDEXES_FOR_MANY_MAX));
    }
}

fn validate_job_template(spec: &Value, path: &Path<'_>, options: &Options, errors: &mut FieldErrors) {
    let empty = Value::object();
    let template = spec.get("template").unwrap_or(&empty);
    validate_template(template, path, options, errors);
    let path = path.field("spec.restartPolicy");
    match template.str_at(&["spec", "restartPolicy"]) {
        "" | "Always" => errors.required(&path, "valid values: \"OnFailure\", \"Never\""),
        policy @ "OnFailure" if member(spec, "podFailurePolicy").is_some() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(&path, Named(policy), detail);
        }
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&path, Named(other), &["OnFailure", "Never"]),
    }
}

/// `["a" "b"]`, as Go prints a quoted list of strings.
fn valid_values(values: &[&str]) -> String {
    let list = values.iter().map(|v| format!("\"{v}\"")).collect::<Vec<_>>().join(" ");
    format!("valid values: [{list}]")
}

fn validate_failure_policy(policy: &Value, spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(policy, "batch/v1.PodFailurePolicy", path, errors);
    let pod = ["containers", "initContainers"].map(|key| spec.items_at(&["template", "spec", key]));
    let containers = pod.into_iter().flatten().map(|container| text(container, "name")).collect();
    check::each_item(policy, "rules", path, |rule, path| {
        validate_failure_rule(rule, spec, &containers, path, errors);
    });
}

fn validate_failure_rule(
    rule: &Value,
    spec: &Value,
    containers: &HashSet<&str>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let field = path.field("action");
    match text(rule, "action") {
        "" => errors.required(&field, &valid_values(&ACTIONS)),
        action @ "FailIndex" => {
            if opt_int(spec, "backoffLimitPerIndex").is_none() {
                errors.invalid(&field, Named(action), "requires the backoffLimitPerIndex to be set");
            }
        }
        action => check::supported(&field, Some(action), &ACTIONS, errors),
    }
    let codes = member(rule, "onExitCodes");
    let patterns = list(rule, "onPodConditions");
    if let Some(codes) = codes {
        validate_exit_codes(codes, containers, &path.field("onExitCodes"), errors);
    }
    facts::check_fields(rule, "batch/v1.PodFailurePolicyRule", &["onPodConditions"], path, errors);
    if codes.is_some() && !patterns.is_empty() {
        let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
        errors.push(ErrorKind::Invalid, path, None, detail);
    }
    if codes.is_none() && patterns.is_empty() {
        let detail = "specifying one of OnExitCodes and OnPodConditions is required";
        errors.push(ErrorKind::Invalid, path, None, detail);
    }
}

fn validate_exit_codes(codes: &Value, containers: &HashSet<&str>, path: &Path<'_>, errors: &mut FieldErrors) {
    let operator = text(codes, "operator");
    facts::check(codes, "batch/v1.PodFailurePolicyOnExitCodesRequirement", path, errors);
    if let Some(name) = opt_text(codes, "containerName").filter(|name| !containers.contains(name)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&path.field("containerName"), name, detail);
    }
    let path = path.field("values");
    let values: Vec<i64> = list(codes, "values").iter().map(|v| v.as_int().unwrap_or(0)).collect();
    if values.is_empty() {
        errors.invalid(&path, codes.get("values"), "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        errors.too_many(&path, values.len(), EXIT_CODES_MAX);
    }
    let mut seen = check::Unique::default();
    for (at, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.invalid(&path.index(at), *value, "must not be 0 for the In operator");
        }
        seen.check(value, &path.index(at), *value, errors);
    }
    if !values.is_sorted() {
        errors.invalid(&path, codes.get("values"), "must be ordered");
    }
}

fn validate_success_policy(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(policy) = member(spec, "successPolicy") else { return };
    if !is_indexed(spec) {
        let detail = "requires indexed completion mode";
        return errors.invalid(path, Internal(Some(policy), "batch/v1.SuccessPolicy"), detail);
    }
    facts::check(policy, "batch/v1.SuccessPolicy", path, errors);
    let path = path.field("rules");
    let completions = opt_int(spec, "completions");
    for (at, rule) in list(policy, "rules").iter().enumerate() {
        validate_success_rule(rule, completions, &path.index(at), errors);
    }
}

fn validate_success_rule(rule: &Value, completions: Option<i64>, path: &Path<'_>, errors: &mut FieldErrors) {
    let (count, listed) = (opt_int(rule, "succeededCount"), opt_text(rule, "succeededIndexes"));
    if count.is_none() && listed.is_none() {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    // Missing completions are an error of their own.
    let Some(completions) = completions else { return };
    let mut total = 0;
    if let Some(listed) = listed {
        let field = path.field("succeededIndexes");
        if listed.len() > SUCCEEDED_INDEXES_BYTES_MAX {
            errors.too_long(&field, SUCCEEDED_INDEXES_BYTES_MAX);
        }
        match indexes::count(listed, completions) {
            Ok(found) => total = found,
            Err(error) => errors.invalid(&field, listed, &format!("error parsing succeededIndexes: {error}")),
        }
    }
    let Some(count) = count else { return };
    let field = path.field("succeededCount");
    check::nonnegative(&field, count, errors);
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(&field, count, &detail);
    }
    if listed.is_some() && count > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(&field, count, &detail);
    }
}
