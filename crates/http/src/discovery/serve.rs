//! Answers requests for discovery documents.

use super::node::Node;
use super::{DiscoveryState, Document, Merged, documents, protobuf};
use crate::api::ApiResponse;
use crate::negotiate::{Accept, Convert, Encoding, Media, Offer, consumes, names};
use crate::respond;
use pintle_meta::Status;
use pintle_metrics::families;
use std::sync::Arc;

/// The parts of a discovery request that matter.
pub(crate) struct DiscoveryRequest<'a> {
    /// Method.
    pub(crate) method: &'a str,
    /// The client's `Accept` header.
    pub(crate) accept: &'a Accept,
    /// `Content-Type`, or "".
    pub(crate) content_type: &'a str,
    /// `If-None-Match`, or "".
    pub(crate) if_none_match: &'a str,
    /// The server's address for clients inside the cluster.
    pub(crate) address: &'a str,
    /// Whether CBOR can be negotiated.
    pub(crate) cbor: bool,
    /// Whether the feature gate of discovery with peers is enabled.
    pub(crate) knows_peers: bool,
    /// Makes the aggregated document of this server and its peers, if there are any.
    pub(crate) merged: Option<&'a dyn Fn() -> Arc<Merged>>,
}

/// Answers `/api`, `/apis`, `/apis/GROUP`, `/api/v1` and `/apis/GROUP/VERSION`; `None` for other paths.
pub(crate) fn serve(
    state: &DiscoveryState,
    path: &str,
    request: &DiscoveryRequest<'_>,
) -> Option<ApiResponse> {
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').skip(1).collect();
    match parts.as_slice() {
        ["api"] => Some(serve_core(state, request)),
        ["apis"] if path == "/apis" => Some(groups(state, request)),
        ["apis"] if path == "/apis/" => Some(group_list(state, request)),
        ["api", version] => Some(serve_resources(state, "", version, request)),
        ["apis", group] => Some(one_group(state, group, request)),
        ["apis", group, version] => Some(serve_resources(state, group, version, request)),
        _ => None,
    }
}

fn serve_core(state: &DiscoveryState, request: &DiscoveryRequest<'_>) -> ApiResponse {
    if let Err(status) = routed(request, Media::WITHOUT_CBOR) {
        return fail(&status, request);
    }
    if let Some((encoding, _)) = aggregated_encoding(request) {
        return aggregated(state.aggregated(true), || own_groups(state, true), encoding, request);
    }
    let group = state.group("");
    document(
        request,
        Media::WITHOUT_CBOR,
        || documents::core_versions(group, request.address),
        || protobuf::core_versions(group, request.address),
    )
}

/// Answers the list of groups, for any method.
fn groups(state: &DiscoveryState, request: &DiscoveryRequest<'_>) -> ApiResponse {
    let Some((encoding, with_peers)) = aggregated_encoding(request) else {
        return group_list(state, request);
    };
    if let Some(merged) = request.merged.filter(|_| with_peers) {
        let merged = merged();
        let rendered = || (merged.items(), protobuf::merged(&merged.groups));
        return aggregated(&merged.document, rendered, encoding, request);
    }
    aggregated(state.aggregated(false), || own_groups(state, false), encoding, request)
}

/// The items of this server's aggregated document, and the document in protobuf.
fn own_groups(state: &DiscoveryState, core: bool) -> (Vec<Node>, Vec<u8>) {
    let items = state.aggregated_members(core).map(documents::aggregated_group).collect();
    (items, protobuf::aggregated(state.aggregated_members(core)))
}

/// The legacy list, which is also the only answer for `/apis/`.
fn group_list(state: &DiscoveryState, request: &DiscoveryRequest<'_>) -> ApiResponse {
    document(
        request,
        Media::WITHOUT_CBOR,
        || state.group_list(),
        || protobuf::group_list(state.listed_groups()),
    )
}

/// Answers a group, for any method except in the aggregator's own group.
fn one_group(state: &DiscoveryState, name: &str, request: &DiscoveryRequest<'_>) -> ApiResponse {
    if name == "apiregistration.k8s.io"
        && let Err(status) = routed(request, Media::WITHOUT_CBOR)
    {
        return fail(&status, request);
    }
    match state.group(name).filter(|g| !g.name.is_empty()) {
        Some(group) => {
            document(request, Media::WITHOUT_CBOR, || documents::group(group), || protobuf::group(group))
        }
        None => respond::page_not_found(),
    }
}

fn serve_resources(
    state: &DiscoveryState,
    group: &str,
    version: &str,
    request: &DiscoveryRequest<'_>,
) -> ApiResponse {
    let Some(group) = state.group(group).filter(|g| !g.name.is_empty() || group.is_empty()) else {
        return if group.is_empty() {
            fail(&respond::route_not_found(), request)
        } else {
            respond::page_not_found()
        };
    };
    let Some(version) = group.version(version) else {
        return if group.installed {
            fail(&respond::route_not_found(), request)
        } else {
            respond::page_not_found()
        };
    };
    // Discovery of custom resources is not available in CBOR.
    let media = if request.cbor && group.installed { Media::ALL } else { Media::WITHOUT_CBOR };
    if group.installed
        && let Err(status) = routed(request, media)
    {
        return fail(&status, request);
    }
    document(
        request,
        media,
        || documents::resource_list(group, version),
        || protobuf::resource_list(group, version),
    )
}

/// Checks that kube-apiserver's router makes before it dispatches a request.
fn routed(request: &DiscoveryRequest<'_>, media: &[Media]) -> Result<(), Status> {
    if request.method != "GET" {
        return Err(respond::method_not_allowed());
    }
    if !consumes(request.content_type, media) {
        return Err(respond::route_unsupported_media_type());
    }
    let produced = names(media);
    if request.accept.names_any_of(|name| produced.contains(&name)) {
        Ok(())
    } else {
        Err(respond::route_not_acceptable(&produced))
    }
}

fn fail(status: &Status, request: &DiscoveryRequest<'_>) -> ApiResponse {
    respond::status(status, request.accept.for_errors(Media::WITHOUT_CBOR))
}

/// The encoding of the aggregated document, if the client accepts it with any quality; and whether it includes other servers.
fn aggregated_encoding(request: &DiscoveryRequest<'_>) -> Option<(Encoding, bool)> {
    let allows = |_: Media, convert: Option<&Convert>| convert.is_some_and(is_aggregated);
    let offer = Offer { media: Media::WITHOUT_CBOR, allows: &allows, server_version: false };
    let chosen = request.accept.choose(&offer)?;
    let with_peers = chosen.profile != "nopeer";
    if chosen.convert.is_some() && !with_peers && request.knows_peers {
        families::DISCOVERY_WITHOUT_PEERS.inc(&[]);
    }
    chosen.convert.is_some().then_some((chosen.encoding, with_peers))
}

fn is_aggregated(convert: &Convert) -> bool {
    convert.group == "apidiscovery.k8s.io"
        && convert.version == "v2"
        && convert.kind == "APIGroupDiscoveryList"
}

/// Answers with an aggregated document. `render` makes its items and its protobuf form.
fn aggregated(
    document: &Document,
    render: impl Fn() -> (Vec<Node>, Vec<u8>),
    encoding: Encoding,
    request: &DiscoveryRequest<'_>,
) -> ApiResponse {
    let mut response = if request.if_none_match == document.etag {
        ApiResponse { code: 304, ..ApiResponse::new(304, "application/json", crate::Body::empty()) }
    } else {
        let tree = || {
            Node::Object(vec![
                ("kind", Node::text("APIGroupDiscoveryList")),
                ("apiVersion", Node::text("apidiscovery.k8s.io/v2")),
                ("metadata", Node::Object(Vec::new())),
                ("items", Node::List(render().0)),
            ])
        };
        let (media, body) = match encoding {
            Encoding::Json { pretty: false } | Encoding::Cbor => (AGGREGATED_JSON, document.json.clone()),
            Encoding::Json { pretty: true } => (AGGREGATED_JSON, tree().to_json(true).into()),
            Encoding::Yaml => (AGGREGATED_YAML, respond::encode(&tree().to_value(), encoding).into()),
            Encoding::Protobuf => (AGGREGATED_PROTOBUF, render().1.into()),
        };
        ApiResponse::new(200, media, body)
    };
    if response.code == 304 {
        response.headers.remove("content-type");
    }
    response.set_header("etag", &document.etag);
    response.set_header("vary", "Accept");
    response.set_header("cache-control", "public");
    response
}

const AGGREGATED_JSON: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_YAML: &str = "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Encodes a legacy document in a media type that the client accepts.
fn document(
    request: &DiscoveryRequest<'_>,
    media: &[Media],
    node: impl Fn() -> Node,
    protobuf: impl Fn() -> Vec<u8>,
) -> ApiResponse {
    let Some(encoding) = request.accept.for_errors(media) else {
        // Without a negotiated type, the error is indented JSON.
        return respond::status(&Status::not_acceptable(&names(media)), None);
    };
    let body = match encoding {
        Encoding::Json { pretty } => {
            let mut json = node().to_json(pretty);
            if !pretty {
                json.push(b'\n');
            }
            json
        }
        Encoding::Protobuf => protobuf(),
        Encoding::Yaml | Encoding::Cbor => respond::encode(&node().to_value(), encoding),
    };
    ApiResponse::new(200, encoding.media().name(), body)
}
