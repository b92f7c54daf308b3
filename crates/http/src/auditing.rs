//! Audit of requests: when events are emitted, and what the filter chain records for them.

use crate::api::ApiResponse;
use crate::context::Context;
use crate::peer::Peer;
use crate::requestinfo::RequestInfo;
use crate::{Body, headers, respond, statuspb, target};
use bytes::Bytes;
use http::request::Parts;
use http_body_util::BodyExt;
use pintle_audit::{Notes, Received, Record, RequestAttributes, Stage};
use pintle_auth::authn::Remarks;
use pintle_auth::{UserInfo, authz};
use pintle_metrics::families;
use pintle_value::{cbor, json, yaml};
use std::net::IpAddr;

/// Starts the audit record of a request and emits its first event. The error is the answer to a request that must not
/// continue unrecorded.
pub(crate) async fn received(
    context: &Context,
    peer: &Peer,
    parts: &Parts,
    info: &RequestInfo,
    user: &UserInfo,
    remarks: &Remarks,
    id: &str,
) -> Result<Option<Box<Record>>, ApiResponse> {
    let Some(mut record) = begin(context, peer, parts, info, Some(user), id) else { return Ok(None) };
    remarks.annotations.iter().for_each(|(key, value)| record.notes.annotate(key, value));
    if record.stage(Stage::RequestReceived, pintle_audit::now()).await {
        return Ok(Some(Box::new(record)));
    }
    families::AUDIT_REJECTED.inc(&[]);
    let uri = target::path_and_query(parts);
    let text = format!("Internal Server Error: {uri:?}: failed to store audit event");
    Err(respond::text(500, &authz::html_safe(&text)))
}

/// Records a request that is refused before its user is known, with a single event, as in kube-apiserver. Returns the
/// answer.
pub(crate) async fn refused_early(
    context: &Context,
    peer: &Peer,
    parts: &Parts,
    info: &RequestInfo,
    id: &str,
    answer: ApiResponse,
    message: String,
) -> ApiResponse {
    let Some(mut record) = begin(context, peer, parts, info, None, id) else { return answer };
    record.response_message(message);
    if let Body::Full(body) = &answer.body
        && answer.is_acceptable
    {
        record.response_body(body);
    }
    record.answered(answer.code);
    record.stage(Stage::ResponseStarted, pintle_audit::now()).await;
    answer
}

/// Notes the answer that is recorded for a write that timed out. In kube-apiserver, the handler of the write learns of
/// it and answers, but only the audit sees that answer: the client already has the one of the time-out filter.
pub(crate) fn timed_out(record: &Record) {
    let document = json::bytes(&respond::handler_timed_out().to_value());
    record.notes.set_response(document);
}

/// Annotates the decision of the authorizers.
pub(crate) fn authorized(notes: &Notes, allowed: bool, reason: &str) {
    notes.annotate("authorization.k8s.io/decision", if allowed { "allow" } else { "forbid" });
    notes.annotate("authorization.k8s.io/reason", reason);
}

/// Records the answer. Emits the last event, or returns the record to the caller, which emits it when the body has
/// ended.
pub(crate) async fn answered(
    record: Option<Box<Record>>,
    mut answer: ApiResponse,
    long_running: bool,
    forwarded: bool,
) -> (ApiResponse, Option<Box<Record>>) {
    let Some(mut record) = record else { return (answer, None) };
    record.answered(answer.code);
    if record.wants_response() && !long_running && !forwarded {
        answer.body = match answer.body {
            Body::Full(bytes) => Body::Full(bytes),
            // kube-apiserver also holds the whole object in memory here.
            chunks => match chunks.collect().await {
                Ok(collected) => Body::Full(collected.to_bytes()),
                Err(_) => Body::empty(),
            },
        };
    }
    // kube-apiserver does not decode the answers of extension servers.
    if !forwarded && let Some(document) = response_document(&record, &answer) {
        record.response_body(&document);
        record.answered(answer.code);
    }
    if !long_running {
        record.stage(Stage::ResponseComplete, pintle_audit::now()).await;
        return (answer, None);
    }
    record.stage(Stage::ResponseStarted, pintle_audit::now()).await;
    (answer, Some(record))
}

/// The answer in JSON, if it is recorded: objects if the audit policy includes them, statuses always.
fn response_document(record: &Record, answer: &ApiResponse) -> Option<Bytes> {
    if let Some(noted) = record.notes.take_response() {
        return Some(noted.into());
    }
    let Body::Full(body) = &answer.body else { return None };
    if !answer.is_acceptable {
        return None;
    }
    let is_status = answer.code >= 400 || body.starts_with(b"{\"kind\":\"Status\"");
    if !(record.wants_response() || is_status) {
        return None;
    }
    let content_type = answer.headers.get("content-type").and_then(|value| value.to_str().ok())?;
    let tree = match content_type.split(';').next()? {
        "application/json" => return Some(body.clone()),
        "application/yaml" => yaml::parse(body).ok()?.value,
        "application/cbor" => cbor::decode(body).ok()?,
        "application/vnd.kubernetes.protobuf" => statuspb::decode(body)?,
        _ => return None,
    };
    let out = json::bytes(&tree);
    Some(out.into())
}

fn begin(
    context: &Context,
    peer: &Peer,
    parts: &Parts,
    info: &RequestInfo,
    user: Option<&UserInfo>,
    id: &str,
) -> Option<Record> {
    let auditor = context.auditor.as_ref()?;
    let attributes = RequestAttributes {
        user,
        verb: &info.verb,
        resource_request: info.resource_request,
        path: &info.path,
        group: &info.group,
        resource: &info.resource,
        subresource: &info.subresource,
        namespace: &info.namespace,
        name: &info.name,
    };
    auditor.begin(Received {
        attributes,
        version: &info.version,
        id,
        uri: target::path_and_query(parts),
        user_agent: &headers::first(&parts.headers, "user-agent"),
        source_ips: source_ips(parts, peer),
        received: pintle_audit::now(),
    })
}

/// The addresses in the forwarding headers and the peer's own address.
fn source_ips(parts: &Parts, peer: &Peer) -> Vec<String> {
    let mut ips: Vec<IpAddr> = Vec::new();
    let forwarded = headers::first(&parts.headers, "x-forwarded-for");
    ips.extend(forwarded.split(',').filter_map(|part| part.trim().parse::<IpAddr>().ok()));
    if let Ok(real) = headers::first(&parts.headers, "x-real-ip").parse::<IpAddr>()
        && !ips.contains(&real)
    {
        ips.push(real);
    }
    let remote = peer.address.ip().to_canonical();
    if ips.last() != Some(&remote) {
        ips.push(remote);
    }
    ips.iter().map(ToString::to_string).collect()
}
