//! Determines the condition `Available` of an APIService, with kube-apiserver's texts: its service and endpoints exist,
//! and the extension server answers a discovery request.

use super::{Aggregation, ApiService, MANAGER, Outcome, Remote, discovery};
use http::header::{ACCEPT_ENCODING, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use pintle_engine::services::{is_ready_endpoint, slice_port};
use pintle_meta::field::quoted;
use pintle_metrics::families;
use pintle_proxy::{Address, Transport, empty_body, header::RemoteUser};
use pintle_value::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How many requests are sent concurrently; one success is enough.
const ATTEMPTS: usize = 5;
/// The time-out of one request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A condition: status, reason, message.
struct Condition {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn unavailable(reason: &'static str, message: String) -> Self {
        Condition { status: "False", reason, message }
    }
}

/// Checks one APIService, writes its condition, and fetches the documents of an available extension server.
pub(super) async fn check(aggregation: &Aggregation, name: &str) -> Outcome {
    let Some(service) = aggregation.services().by_name.get(name).cloned() else { return Outcome::default() };
    let Some(remote) = &service.remote else {
        let message = "Local APIServices are always available".to_string();
        let failed = write(aggregation, name, &Condition { status: "True", reason: "Local", message }).await;
        return Outcome { failed, ..Outcome::default() };
    };
    let (condition, mut failed) = match examine_service(aggregation, &service, remote).await {
        Ok(()) => {
            let message = "all checks passed".to_string();
            (Condition { status: "True", reason: "Passed", message }, false)
        }
        // A missing service or endpoint will cause an event; an extension server that does not answer is retried.
        Err(condition) => {
            let again = condition.reason == "FailedDiscoveryCheck";
            (condition, again)
        }
    };
    // The spec may have changed during the check, which is then outdated. The change has caused another check.
    let now = aggregation.services().by_name.get(name).cloned();
    let is_current = |now: &Remote| now.service == remote.service && now.trust == remote.trust;
    if !now.and_then(|now| now.remote.as_ref().map(is_current)).unwrap_or(false) {
        return Outcome::default();
    }
    failed |= write(aggregation, name, &condition).await;
    let mut outcome = Outcome { failed, ..Outcome::default() };
    if condition.status == "True" {
        let document = discovery::fetch(aggregation, &service, remote).await;
        outcome.failed |= document.is_stale;
        outcome.document = Some(document);
    }
    outcome
}

async fn examine_service(
    aggregation: &Aggregation,
    service: &ApiService,
    remote: &Remote,
) -> Result<(), Condition> {
    let reference = &remote.service;
    let engine = &aggregation.engine;
    let described_service = format!("service/{} in {}", reference.name, quoted(&reference.namespace));
    let target = engine.storage().target("", "v1", "services", &reference.namespace, &reference.name);
    let Some(found) = target.and_then(|target| engine.reader().object_tree(&target).ok().flatten()) else {
        return Err(Condition::unavailable("ServiceNotFound", format!("{described_service} is not present")));
    };
    if found.str_at(&["spec", "type"]) == "ClusterIP" {
        let number = i64::from(reference.port);
        let mut ports = found.items_at(&["spec", "ports"]).iter();
        let Some(port) = ports.find(|port| port.get("port").and_then(Value::as_int) == Some(number)) else {
            let message = format!("{described_service} is not listening on port {number}");
            return Err(Condition::unavailable("ServicePortError", message));
        };
        let slices = engine.storage().endpoint_slices(&reference.namespace, &reference.name);
        if slices.is_empty() {
            let message = format!("cannot find endpointslices for {described_service}");
            return Err(Condition::unavailable("EndpointsNotFound", message));
        }
        let port_name = port.str_at(&["name"]);
        let is_active = |slice: &Value| {
            slice.items_at(&["endpoints"]).iter().any(is_ready_endpoint)
                && slice_port(slice, port_name).is_some()
        };
        if !slices.iter().any(is_active) {
            let message = format!(
                "endpointslices for {described_service} have no addresses with port name {}",
                quoted(port_name)
            );
            return Err(Condition::unavailable("MissingEndpoints", message));
        }
    }
    let unanswered = |why: String| Condition::unavailable("FailedDiscoveryCheck", why);
    let transport = remote.transport.clone().map_err(unanswered)?;
    let path = discovery::path(&service.group, &service.version);
    let mut attempts = JoinSet::new();
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        match aggregation.resolve(remote) {
            Ok(address) => _ = attempts.spawn(request_discovery(transport.clone(), address, path.clone())),
            Err(why) => last = why,
        }
    }
    while let Some(result) = attempts.join_next().await {
        match result {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => last = why,
            Err(_) => {}
        }
    }
    Err(unanswered(last))
}

/// One request for discovery.
async fn request_discovery(transport: Arc<Transport>, address: Address, path: String) -> Result<(), String> {
    let url = format!("https://{}{path}", address.authority());
    let failing = |why: &str| format!("failing or missing response from {url}: {why}");
    let request = request(&address, &path).ok_or_else(|| failing("the path is no URI"))?;
    match tokio::time::timeout(TIMEOUT, transport.send(&address, request)).await {
        Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
        Ok(Ok(answer)) => Err(failing(&format!("bad status from {url}: {}", answer.status().as_u16()))),
        Ok(Err(why)) => Err(failing(&format!("Get \"{url}\": {why}"))),
        Err(_) => Err(failing(&format!(
            "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        ))),
    }
}

/// A request from this server itself to an extension server.
pub(super) fn request(address: &Address, path: &str) -> Option<Request<pintle_proxy::RequestBody>> {
    let mut request = Request::new(empty_body());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = path.parse::<Uri>().ok()?;
    let headers = request.headers_mut();
    let user = RemoteUser {
        name: "system:kube-aggregator",
        uid: "",
        groups: vec!["system:masters"],
        extra: Vec::new(),
    };
    user.set(headers).ok()?;
    headers.insert(HOST, HeaderValue::from_str(&address.authority()).ok()?);
    headers.insert(USER_AGENT, HeaderValue::from_static("Go-http-client/1.1"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    Some(request)
}

/// Writes the condition if it differs; returns whether that failed. The transition time only changes with the status.
async fn write(aggregation: &Aggregation, name: &str, condition: &Condition) -> bool {
    let Some(target) = aggregation.target(name) else { return false };
    let now = aggregation.engine.storage().now_text();
    let was_available = aggregation.is_available(name);
    let written = aggregation
        .engine
        .writer()
        .mutate(&target.sub("status"), Some(MANAGER), |live| set_condition(live, condition, &now))
        .await;
    if let Err(status) = &written {
        tracing::warn!(name, error = %status.message, "the availability of an APIService could not be written");
    }
    if written.is_ok() && was_available && condition.status == "False" {
        families::SERVICE_FAILURES.inc(&[name, condition.reason]);
    }
    written.is_err()
}

fn set_condition(live: &mut Value, condition: &Condition, now: &str) {
    let is_own = |c: &Value| c.str_at(&["type"]) == "Available";
    let mut conditions = live.items_at(&["status", "conditions"]).to_vec();
    let mut own = match conditions.iter().position(is_own) {
        Some(at) => conditions.remove(at),
        None => Value::object(),
    };
    own.set_at(&["type"], "Available".into());
    if own.str_at(&["status"]) != condition.status {
        own.set_at(&["status"], condition.status.into());
        own.set_at(&["lastTransitionTime"], now.into());
    }
    own.set_at(&["reason"], condition.reason.into());
    own.set_at(&["message"], condition.message.as_str().into());
    conditions.push(own);
    live.set_at(&["status", "conditions"], Value::Array(conditions));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_changes_with_the_status_only() {
        let mut live = Value::object();
        let failing = |message: &str| Condition::unavailable("FailedDiscoveryCheck", message.to_string());
        set_condition(&mut live, &failing("one"), "t1");
        set_condition(&mut live, &failing("two"), "t2");
        let condition = live.items_at(&["status", "conditions"]).first().cloned().unwrap_or_default();
        assert_eq!(condition.str_at(&["lastTransitionTime"]), "t1");
        assert_eq!(condition.str_at(&["message"]), "two");
        let passed = Condition { status: "True", reason: "Passed", message: "ok".into() };
        set_condition(&mut live, &passed, "t3");
        let condition = live.items_at(&["status", "conditions"]).first().cloned().unwrap_or_default();
        assert_eq!(condition.str_at(&["lastTransitionTime"]), "t3");
    }
}
