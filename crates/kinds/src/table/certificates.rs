//! Rows of certificate signing requests.

use super::BuiltinPrinter;
use super::cell::{age, filled_or, name, text, text_at};
use pintle_meta::{Timestamp, duration};
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[BuiltinPrinter {
    kind: "certificates.k8s.io/CertificateSigningRequest",
    needs: &[
        "spec.signerName",
        "spec.username",
        "spec.expirationSeconds",
        "status.conditions.type",
        "status.certificate",
    ],
    cells: signing_request,
}];

const NANOS_PER_SECOND: i64 = 1_000_000_000;

fn signing_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let requested = object.at(&["spec", "expirationSeconds"]).and_then(Value::as_int);
    let requested = requested
        .map(|seconds| duration::human(duration::GoDuration(seconds.saturating_mul(NANOS_PER_SECOND))));
    vec![
        name(object),
        age(object, now),
        filled_or(object, &["spec", "signerName"], "<none>"),
        text_at(object, &["spec", "username"]),
        text(requested.unwrap_or_else(|| "<none>".into())),
        text(status(object)),
    ]
}

fn status(object: &Value) -> String {
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
