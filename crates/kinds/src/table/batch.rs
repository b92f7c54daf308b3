//! Rows of jobs.

use super::cell::{is_set, is_terminating, is_true, number, since, text};
use pintle_meta::{Timestamp, duration};
use pintle_value::Value;

pub(super) fn job_status(object: &Value) -> &'static str {
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

pub(super) fn completions_text(object: &Value) -> String {
    let succeeded = number(object, &["status", "succeeded"]);
    if is_set(object, &["spec", "completions"]) {
        return format!("{succeeded}/{}", number(object, &["spec", "completions"]));
    }
    match number(object, &["spec", "parallelism"]) {
        parallelism @ 2.. => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
}

pub(super) fn job_duration(object: &Value, now: Timestamp) -> Value {
    let time = |key: &str| Timestamp::parse(object.str_at(&["status", key])).ok();
    let Some(start) = time("startTime") else { return text("") };
    let end = time("completionTime").unwrap_or(now);
    Value::String(duration::human(duration::GoDuration(end.nanos_since(&start))))
}

pub(super) fn suspend(object: &Value) -> Value {
    text(match object.at(&["spec", "suspend"]).and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    })
}

pub(super) fn last_schedule(object: &Value, now: Timestamp) -> Value {
    match object.str_at(&["status", "lastScheduleTime"]) {
        "" => text("<none>"),
        last => since(last, now),
    }
}
