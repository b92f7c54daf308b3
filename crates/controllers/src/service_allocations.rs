//! Repairs the records of the addresses and node ports of services, and reports repairs as Events.

use pintle_engine::{Engine, Finding, Repairs};
use pintle_meta::{Status, Timestamp};
use pintle_value::{Str, Value};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// How often the records are compared with the services, if any of them changed. kube-apiserver looks at each change at once,
/// and at all records every three minutes.
const INTERVAL: Duration = Duration::from_secs(60);
/// The name with which kube-apiserver reports them.
const CONTROLLER: &str = "ipallocator-repair-controller";
const MANAGER: &str = "kube-apiserver";
/// How many faults are remembered, so that one that only its owner can repair is reported once.
const REPORTED_MAX: usize = 10_000;

/// Runs until the cache shuts down.
pub(crate) async fn run(engine: Arc<Engine>, hostname: String) {
    let mut repairs = Repairs::default();
    let mut reported = HashSet::new();
    while !engine.storage().cache().closed_within(INTERVAL).await {
        let findings = match engine.writer().repair_allocations(&mut repairs).await {
            Ok(findings) => findings,
            Err(status) => {
                tracing::warn!(error = %status.message, "allocations of services could not be repaired");
                continue;
            }
        };
        if reported.len() > REPORTED_MAX {
            reported.clear();
        }
        for finding in findings {
            if !reported.insert((finding.regarding.uid.clone(), finding.note.clone())) {
                continue;
            }
            tracing::error!("{}", finding.note);
            if let Err(status) = record(&engine, &finding, &hostname).await {
                tracing::warn!(error = %status.message, "an event could not be created");
            }
        }
    }
}

/// Creates the Event of a finding.
async fn record(engine: &Engine, finding: &Finding, hostname: &str) -> Result<(), Status> {
    let regarding = &finding.regarding;
    let namespace = if regarding.is_service { regarding.namespace.as_str() } else { "default" };
    let (seconds, nanos) = engine.storage().clock().now();
    let now = Timestamp { seconds, nanos };
    let unique = i128::from(seconds).saturating_mul(1_000_000_000).saturating_add(i128::from(nanos));
    let name = format!("{}.{unique:x}", regarding.name);
    let Some(target) = engine.storage().target("", "v1", "events", namespace, &name) else { return Ok(()) };
    let (api_version, kind) =
        if regarding.is_service { ("v1", "Service") } else { ("networking.k8s.io/v1", "IPAddress") };
    let mut event = Value::object();
    for (path, text) in [
        (["apiVersion"].as_slice(), Str::from("v1")),
        (&["kind"], "Event".into()),
        (&["metadata", "name"], name.as_str().into()),
        (&["metadata", "namespace"], namespace.into()),
        (&["involvedObject", "apiVersion"], api_version.into()),
        (&["involvedObject", "kind"], kind.into()),
        (&["involvedObject", "namespace"], regarding.namespace.clone()),
        (&["involvedObject", "name"], regarding.name.clone()),
        (&["involvedObject", "uid"], regarding.uid.clone()),
        (&["involvedObject", "resourceVersion"], regarding.revision.to_string().into()),
        (&["type"], "Warning".into()),
        (&["reason"], finding.reason.into()),
        (&["action"], finding.action.into()),
        (&["message"], finding.note.as_str().into()),
        (&["eventTime"], now.rfc3339_micro()),
        (&["reportingComponent"], CONTROLLER.into()),
        (&["reportingInstance"], format!("{CONTROLLER}-{hostname}").into()),
    ] {
        if !text.is_empty() {
            event.set_at(path, text.into());
        }
    }
    engine.writer().ensure(&target, MANAGER, event).await
}
