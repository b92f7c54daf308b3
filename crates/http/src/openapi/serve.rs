//! Answers requests for OpenAPI documents: media types, entity tags, URLs with a hash.

use super::part::Form;
use super::text::{Text, Texts};
use super::v2::{v2, v2_hash};
use super::{Rendered, Source, converted_hash, document_names, v3, v3_hash};
use crate::api::ApiResponse;
use crate::conditional::{Conditions, Current, Extent, Verdict};
use crate::discovery;
use crate::negotiate::Accept;
use crate::{Body, headers, http_date, query};
use http::HeaderValue;
use http::header::VARY;
use pintle_controllers::aggregation::RemoteV3;
use pintle_value::{Map, Str, Value, json};
use std::sync::Arc;

/// The parts of a document request that matter.
pub(crate) struct DocumentRequest<'a> {
    /// Path.
    pub(crate) path: &'a str,
    /// Query parameters.
    pub(crate) query: &'a [(String, String)],
    /// The client's `Accept` header.
    pub(crate) accept: &'a Accept,
    /// Conditions and range.
    pub(crate) conditions: &'a Conditions,
}

/// The path of the OpenAPI v3 index.
const V3: &str = "/openapi/v3";

/// Answers `/openapi/v2` and everything under `/openapi/v3`; `None` for other paths.
pub(crate) fn serve(source: Source<'_>, request: &DocumentRequest<'_>) -> Option<ApiResponse> {
    match request.path {
        "/openapi/v2" => Some(match representation(request.accept, &V2_TYPES) {
            Some(content_type) => {
                let form = form(content_type);
                // The protobuf form of v2 has its own entity tag; both forms of v3 share one.
                let hash = v2_hash(source, form);
                let modified = source.state.openapi.modified;
                let texts = || v2(source, form).texts.clone();
                varies_by_encoding(document(&hash, modified, texts, content_type, request))
            }
            None => varies_by_encoding(empty(406)),
        }),
        V3 => Some(index(source, request)),
        path => {
            let name = path.strip_prefix(V3)?.strip_prefix('/')?;
            let content_type = representation(request.accept, &V3_TYPES);
            let form = form(content_type.unwrap_or("application/json"));
            let Some(rendered) = v3(source, name, form) else { return Some(empty(404)) };
            let Some(content_type) = content_type else { return Some(empty(406)) };
            Some(versioned(name, &rendered, content_type, request))
        }
    }
}

fn form(content_type: &str) -> Form {
    if content_type == "application/json" { Form::Json } else { Form::Protobuf }
}

/// The accepted names of a media type and the one that is returned.
type Types = [(&'static str, &'static str); 3];
const V2_TYPES: Types = [
    ("json", "application/json"),
    ("com.github.proto-openapi.spec.v2@v1.0+protobuf", V2_PROTOBUF),
    ("com.github.proto-openapi.spec.v2.v1.0+protobuf", V2_PROTOBUF),
];
const V3_TYPES: Types = [
    ("json", "application/json"),
    ("com.github.proto-openapi.spec.v3.v1.0+protobuf", V3_PROTOBUF),
    ("com.github.proto-openapi.spec.v3@v1.0+protobuf", V3_PROTOBUF),
];
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// The first media type that the client accepts.
fn representation(accept: &Accept, types: &Types) -> Option<&'static str> {
    accept.ranges().iter().find_map(|(type_, subtype)| {
        let fits =
            |name: &str| matches!(*type_, "application" | "*") && (*subtype == "*" || *subtype == name);
        types.iter().find(|(name, _)| fits(name)).map(|(_, sent)| *sent)
    })
}

/// The index of documents. It has no entity tag, because it is assembled for each request.
fn index(source: Source<'_>, request: &DocumentRequest<'_>) -> ApiResponse {
    let entry = |name: String| {
        let hash = v3_hash(source, &name)?;
        let mut entry = Value::object();
        entry.set_at(&["serverRelativeURL"], address(&name, &hash).into());
        Some((Str::from(name), entry))
    };
    let mut paths = document_names(source.state).into_iter().filter_map(entry).collect::<Map>();
    for group in source.state.groups() {
        for version in &group.listing {
            let discovery::Source::Remote(remote) = &version.source else { continue };
            let name = format!("apis/{}/{}", group.name, version.name);
            let url = match &remote.openapi_v3 {
                RemoteV3::Absent => continue,
                RemoteV3::Served(url) => url.clone(),
                RemoteV3::Converted(document) => address(&name, &converted_hash(document)),
            };
            let mut entry = Value::object();
            entry.set_at(&["serverRelativeURL"], url.into());
            paths.insert(Str::from(name), entry);
        }
    }
    let mut tree = Value::object();
    tree.set_at(&["paths"], paths.into());
    let out = json::bytes(&tree);
    let text = || Texts([Arc::new(Text::new(out))].into());
    let now = super::now();
    // Dates are whole seconds, and a definition that was created in this second may be missing in what a client read earlier
    // in it. So unlike in kube-apiserver, only a later date is answered with 304.
    let mut response = content("", now.saturating_add(1), text, "text/plain; charset=utf-8", request);
    if response.headers.contains_key("last-modified") {
        response.set_header("last-modified", &http_date::format(now));
    }
    response
}

fn address(name: &str, hash: &str) -> String {
    format!("{V3}/{name}?hash={hash}")
}

/// A document under a URL with a hash: a wrong hash redirects to the current one, whose content never changes.
fn versioned(
    name: &str,
    rendered: &Arc<Rendered>,
    content_type: &'static str,
    request: &DocumentRequest<'_>,
) -> ApiResponse {
    let wanted = query::first(request.query, "hash").unwrap_or("");
    if !wanted.is_empty() && wanted != &*rendered.hash {
        let mut response = ApiResponse::new(301, content_type, Body::empty());
        response.set_header("location", &address(name, &rendered.hash));
        response.set_header("etag", &format!("\"{}\"", rendered.hash));
        return response;
    }
    let texts = || rendered.texts.clone();
    let mut response = document(&rendered.hash, rendered.modified, texts, content_type, request);
    // Go does not let an error be cached.
    if !wanted.is_empty() && response.code != 416 {
        response.set_header("cache-control", "public, immutable");
    }
    response
}

/// A document with its entity tag. A client that has it gets only the tag, for which the document is not rendered.
fn document(
    hash: &str,
    modified: i64,
    texts: impl FnOnce() -> Texts,
    content_type: &'static str,
    request: &DocumentRequest<'_>,
) -> ApiResponse {
    let mut response = content(&format!("\"{hash}\""), modified, texts, content_type, request);
    response.set_header("vary", "Accept");
    response
}

/// Answers as Go's `http.ServeContent` does. `tag` is "" for content without an entity tag.
fn content(
    tag: &str,
    modified: i64,
    texts: impl FnOnce() -> Texts,
    content_type: &'static str,
    request: &DocumentRequest<'_>,
) -> ApiResponse {
    let mut response = match request.conditions.verdict(Current { tag, modified }) {
        // Without a tag, the media type is one that Go would have guessed from the content.
        Verdict::Failed if tag.is_empty() => empty(412),
        Verdict::Failed => ApiResponse::new(412, content_type, Body::empty()),
        Verdict::Unchanged => empty(304),
        Verdict::Send { in_part: false } => serve_whole(&texts(), content_type),
        Verdict::Send { in_part: true } => {
            let texts = texts();
            let size = texts.len() as u64;
            match request.conditions.extent(size) {
                Ok(Extent::Whole) => serve_whole(&texts, content_type),
                Ok(Extent::Part(first, last)) => {
                    let position = |at| usize::try_from(at).unwrap_or(usize::MAX);
                    let part = Body::Full(texts.part(position(first), position(last)));
                    let mut response = ApiResponse::new(206, content_type, part);
                    response.set_header("accept-ranges", "bytes");
                    response.set_header("content-range", &format!("bytes {first}-{last}/{size}"));
                    response
                }
                // Go removes the headers that describe the content.
                Err(refused) => return refused,
            }
        }
    };
    if !tag.is_empty() {
        response.set_header("etag", tag);
    }
    // An entity tag says more than a date, so Go leaves the date out of a 304.
    if response.code != 304 || tag.is_empty() {
        response.set_header("last-modified", &http_date::format(modified));
    }
    response
}

fn serve_whole(texts: &Texts, content_type: &'static str) -> ApiResponse {
    let mut response = ApiResponse::new(200, content_type, texts.body());
    response.set_header("accept-ranges", "bytes");
    response
}

/// kube-apiserver's compression of OpenAPI v2 sets this header even if it does not compress.
fn varies_by_encoding(mut response: ApiResponse) -> ApiResponse {
    headers::prepend(&mut response.headers, VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// An answer without a body.
fn empty(code: u16) -> ApiResponse {
    let mut response = ApiResponse::new(code, "text/plain", Body::empty());
    response.headers.remove("content-type");
    response
}
