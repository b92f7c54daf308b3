//! Rows of certificate signing requests.

use super::cell::text;
use pintle_meta::duration;
use pintle_value::Value;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

pub(super) fn display_status(object: &Value) -> String {
    let conditions = object.items_at(&["status", "conditions"]);
    let has = |type_: &str| conditions.iter().any(|condition| condition.str_at(&["type"]) == type_);
    let decided = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if object.str_at(&["status", "certificate"]).is_empty() { "" } else { ",Issued" };
    format!("{decided}{failed}{issued}")
}

pub(super) fn requested_duration(object: &Value) -> Value {
    let seconds = object.at(&["spec", "expirationSeconds"]).and_then(Value::as_int);
    let requested =
        seconds.map(|s| duration::human(duration::GoDuration(s.saturating_mul(NANOS_PER_SECOND))));
    text(requested.unwrap_or_else(|| "<none>".into()))
}

/// The last of the known conditions; they exclude each other.
pub(super) fn pod_certificate_state(object: &Value) -> Value {
    let conditions = object.items_at(&["status", "conditions"]).iter().rev().map(|c| c.str_at(&["type"]));
    let known = |kind: &&str| matches!(*kind, "Issued" | "Denied" | "Failed");
    text(conditions.into_iter().find(known).unwrap_or("Pending"))
}
