//! Rows of jobs.

use super::BuiltinPrinter;
use super::cell::{
    age, containers, count, is_set, is_terminating, is_true, name, number, selector, since, text, text_at,
    text_or,
};
use pintle_meta::{Timestamp, duration};
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[
    BuiltinPrinter { kind: "batch/CronJob", needs: CRON_JOB, cells: cron_job },
    BuiltinPrinter { kind: "batch/Job", needs: JOB, cells: job },
];

const CRON_JOB: &[&str] = &[
    "spec.schedule",
    "spec.timeZone",
    "spec.suspend",
    "spec.jobTemplate.spec.selector",
    "spec.jobTemplate.spec.template.spec.containers.name",
    "spec.jobTemplate.spec.template.spec.containers.image",
    "status.active#",
    "status.lastScheduleTime",
];
const JOB: &[&str] = &[
    "metadata.deletionTimestamp",
    "spec.completions",
    "spec.parallelism",
    "spec.selector",
    "spec.template.spec.containers.name",
    "spec.template.spec.containers.image",
    "status.succeeded",
    "status.startTime",
    "status.completionTime",
    "status.conditions.type",
    "status.conditions.status",
];

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "jobTemplate", "spec", "template", "spec"]);
    let suspend = match object.at(&["spec", "suspend"]).and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match object.str_at(&["status", "lastScheduleTime"]) {
        "" => text("<none>"),
        last => since(last, now),
    };
    vec![
        name(object),
        text_at(object, &["spec", "schedule"]),
        text_or(object, &["spec", "timeZone"], "<none>"),
        text(suspend),
        Value::Int(count(object, &["status", "active"])),
        last,
        age(object, now),
        names,
        images,
        selector(object.at(&["spec", "jobTemplate", "spec", "selector"])),
    ]
}

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec"]);
    vec![
        name(object),
        text(job_status(object)),
        text(completions(object)),
        job_duration(object, now),
        age(object, now),
        names,
        images,
        selector(object.at(&["spec", "selector"])),
    ]
}

fn job_status(object: &Value) -> &'static str {
    let conditions = object.items_at(&["status", "conditions"]);
    let first = |types: &[&'static str]| types.iter().find(|type_| is_true(conditions, type_)).copied();
    if let Some(ended) = first(&["Complete", "Failed"]) {
        return ended;
    }
    if is_terminating(object) {
        return "Terminating";
    }
    first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]).unwrap_or("Running")
}

fn completions(object: &Value) -> String {
    let succeeded = number(object, &["status", "succeeded"]);
    if is_set(object, &["spec", "completions"]) {
        return format!("{succeeded}/{}", number(object, &["spec", "completions"]));
    }
    match number(object, &["spec", "parallelism"]) {
        parallelism @ 2.. => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
}

fn job_duration(object: &Value, now: Timestamp) -> Value {
    let time = |key: &str| Timestamp::parse(object.str_at(&["status", key])).ok();
    let Some(start) = time("startTime") else { return text("") };
    let end = time("completionTime").unwrap_or(now);
    Value::String(duration::human(duration::GoDuration(end.nanos_since(&start))))
}
