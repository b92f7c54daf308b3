//! Paths that are not resources: version, health, metrics, index, OpenID documents.

use crate::api::ApiResponse;
use crate::conditional::Conditions;
use crate::context::Context;
use crate::discovery::{DiscoveryState, Merged, serve as discovery};
use crate::health;
use crate::negotiate::{Accept, Media, consumes};
use crate::openapi::{Source, serve as documents};
use crate::openid::{KEYS_MEDIA_TYPE, OpenId};
use crate::{compress, respond, version};
use pintle_metrics::Notation;
use std::sync::Arc;

/// The media type of metrics in protobuf.
const METRICS_PROTOBUF: &str = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily;";

/// A request for a path that is not a resource.
pub(crate) struct NonResourceRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a [(String, String)],
    pub(crate) accept: &'a Accept,
    pub(crate) content_type: &'a str,
    pub(crate) if_none_match: &'a str,
    pub(crate) conditions: &'a Conditions,
    pub(crate) accept_encoding: &'a str,
}

/// Answers a request for a path that is not a resource.
pub(crate) fn serve(
    context: &Context,
    state: &Arc<DiscoveryState>,
    request: &NonResourceRequest<'_>,
) -> ApiResponse {
    if context.pages.paths().any(|path| path == request.path)
        && let Some(page) =
            context.pages.serve(request.path, request.accept, context.cbor, &paths(context, state))
    {
        return page;
    }
    if let Some(response) = crate::flow::serve_dump(&context.flow, request.path, request.query) {
        return response;
    }
    match request.path {
        "/" | "/index.html" => index(context, state),
        "/metrics" if request.method == "DELETE" => {
            context.metrics.reset();
            ApiResponse::new(200, "text/plain; charset=utf-8", "metrics reset\n")
        }
        "/metrics" => metrics(context, request, |notation| context.metrics.export(notation)),
        "/metrics/slis" if request.method == "DELETE" => {
            pintle_metrics::reset_slis();
            ApiResponse::new(200, "text/plain; charset=utf-8", "metrics reset\n")
        }
        "/metrics/slis" => metrics(context, request, |notation| match notation {
            None => pintle_metrics::sli_text().into(),
            Some(notation) => pintle_metrics::sli_messages(notation).into(),
        }),
        "/.well-known/openid-configuration" | "/.well-known/openid-configuration/" => {
            serve_openid(context, request, Media::Json.name(), |o| o.configuration())
        }
        "/openid/v1/jwks" | "/openid/v1/jwks/" => {
            serve_openid(context, request, KEYS_MEDIA_TYPE, |o| o.keys())
        }
        path if path == "/version" || path.starts_with("/version/") => version_document(context, request),
        path if path == "/openapi" || path.starts_with("/openapi/") => serve_openapi(context, state, request),
        path => {
            let address = context.address.get().map_or("", String::as_str);
            let peers = context.peers.as_ref();
            let merged = peers.map(|peers| move || peers.merged(state));
            let discovery_asked = discovery::DiscoveryRequest {
                method: request.method,
                accept: request.accept,
                content_type: request.content_type,
                if_none_match: request.if_none_match,
                address,
                cbor: context.cbor,
                knows_peers: context.knows_peers,
                merged: merged.as_ref().map(|merged| merged as &dyn Fn() -> Arc<Merged>),
            };
            discovery::serve(state, path, &discovery_asked).unwrap_or_else(respond::page_not_found)
        }
    }
}

/// Answers with metrics, in the format and encoding that Prometheus' own library negotiates.
fn metrics(
    context: &Context,
    request: &NonResourceRequest<'_>,
    export: impl FnOnce(Option<Notation>) -> crate::Body,
) -> ApiResponse {
    let (notation, escaping) = request.accept.for_metrics();
    let encoding = match notation {
        None => None,
        Some(Notation::Delimited) => Some("delimited"),
        Some(Notation::Text) => Some("text"),
        Some(Notation::Compact) => Some("compact-text"),
    };
    let content_type = match encoding {
        None => format!("text/plain; version=0.0.4; charset=utf-8; escaping={escaping}"),
        Some(encoding) => format!("{METRICS_PROTOBUF} encoding={encoding}; escaping={escaping}"),
    };
    let compresses = compress::preferred(request.accept_encoding);
    let body = export(notation);
    let mut answer = ApiResponse::new(200, "", if compresses { compress::gzip(body) } else { body });
    answer.set_header("content-type", &content_type);
    if compresses {
        answer.set_header("content-encoding", "gzip");
    }
    let started = context.pages.started.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    answer.set_header("process-start-time-unix", &started.as_secs().to_string());
    answer
}

/// This route accepts one path, one method and one media type.
fn version_document(context: &Context, request: &NonResourceRequest<'_>) -> ApiResponse {
    let status = if request.path.trim_end_matches('/') != "/version" {
        respond::route_not_found()
    } else if request.method != "GET" {
        respond::method_not_allowed()
    } else if !consumes(request.content_type, &[Media::Json]) {
        respond::route_unsupported_media_type()
    } else if !request.accept.names_any_of(|name| name == Media::Json.name()) {
        respond::route_not_acceptable(&[Media::Json.name()])
    } else {
        return respond::raw_json(200, version::document(&context.git_version, context.git_commit));
    };
    respond::status(&status, request.accept.for_errors(Media::WITHOUT_CBOR))
}

fn serve_openid(
    context: &Context,
    request: &NonResourceRequest<'_>,
    media_type: &str,
    document: impl Fn(&OpenId) -> ApiResponse,
) -> ApiResponse {
    let Some(openid) = &context.openid else { return respond::page_not_found() };
    let status = if request.method != "GET" {
        respond::method_not_allowed()
    } else if !request.accept.names_any_of(|name| name == media_type) {
        respond::route_not_acceptable(&[media_type])
    } else {
        return document(openid);
    };
    respond::status(&status, request.accept.for_errors(Media::WITHOUT_CBOR))
}

fn serve_openapi(context: &Context, state: &DiscoveryState, request: &NonResourceRequest<'_>) -> ApiResponse {
    let documents = documents::DocumentRequest {
        path: request.path,
        query: request.query,
        accept: request.accept,
        conditions: request.conditions,
    };
    let definitions = |kind: &pintle_kinds::Kind| context.api.definition(kind);
    let source = Source { state, definitions: &definitions, cbor: context.cbor, commit: context.git_commit };
    documents::serve(source, &documents).unwrap_or_else(respond::page_not_found)
}

/// `/`: all paths there are.
fn index(context: &Context, state: &DiscoveryState) -> ApiResponse {
    let lines: Vec<String> = paths(context, state).iter().map(|p| format!("    {p:?}")).collect();
    respond::raw_json(200, format!("{{\n  \"paths\": [\n{}\n  ]\n}}", lines.join(",\n")))
}

/// All listed paths of the server, sorted.
fn paths(context: &Context, state: &DiscoveryState) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/apis/",
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/version",
    ]
    .map(str::to_string)
    .to_vec();
    paths.extend(context.pages.paths().map(str::to_string));
    paths.extend(context.serves_logs.then(|| "/logs".to_string()));
    if context.openid.is_some() {
        paths.push("/.well-known/openid-configuration".into());
        paths.push("/openid/v1/jwks".into());
    }
    if let Some(core) = state.group("") {
        paths.extend(core.versions.iter().map(|v| format!("/api/{}", v.name)));
    }
    for group in state.groups() {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|v| format!("/apis/{}/{}", group.name, v.name)));
    }
    for endpoint in health::ENDPOINTS {
        paths.push(format!("/{endpoint}"));
        let names = context.health.check_names(endpoint);
        paths.extend(names.iter().map(|name| format!("/{endpoint}/{name}")));
    }
    paths.sort_unstable();
    paths
}

/// The distinct first segments of operational paths, without those of the API.
pub(crate) fn folders(paths: &[String]) -> Vec<String> {
    const OF_CLIENTS: [&str; 5] = ["apis", "api", "openid", "openapi", ".well-known"];
    let first = paths.iter().filter_map(|path| path.split('/').nth(1));
    let mut folders: Vec<String> = first
        .filter(|part| !part.is_empty() && !OF_CLIENTS.contains(part))
        .map(|part| format!("/{part}"))
        .collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}
