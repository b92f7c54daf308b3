//! The interface between HTTP and objects. Requests arrive here authenticated, authorized, routed and negotiated.

use crate::discovery::DiscoveryState;
use crate::flow::StoredObjects;
use crate::negotiate::{Encoding, Negotiated};
use crate::requestinfo::RequestInfo;
use crate::route::Target;
use crate::{Body, respond};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use pintle_auth::UserInfo;
use pintle_engine::{Location, NodeSettings};
use pintle_meta::Status;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A future behind a pointer.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A server of objects.
pub trait Api: Send + Sync {
    /// Answers a request about a resource.
    fn serve(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse>;

    /// The kinds that are served now. This is called for every request, so return a shared state that is rebuilt when
    /// kinds change.
    fn discovery(&self) -> Arc<DiscoveryState>;

    /// Resolves the destination of a log, stream or proxied request, after admission and authorization.
    fn locate<'a>(&'a self, request: &'a LocateRequest<'a>) -> BoxFuture<'a, Result<Located, Status>>;

    /// The number and size of a resource's stored objects; `None` for a resource that is not served here.
    fn stored(&self, _group: &str, _resource: &str) -> Option<StoredObjects> {
        None
    }

    /// The stored form of the object that a request names; empty if there is none.
    fn stored_bytes(&self, _kind: &pintle_kinds::Kind, _info: &RequestInfo) -> Bytes {
        Bytes::new()
    }

    /// The object that defines a kind; `None` for built-in kinds.
    fn definition(&self, _kind: &pintle_kinds::Kind) -> Option<pintle_value::Value> {
        None
    }
}

/// A request that is forwarded to a node, a pod or a service.
pub struct LocateRequest<'a> {
    /// The verb, resource and object of the request.
    pub info: &'a RequestInfo,
    /// Kind, version, subresource.
    pub target: &'a Target,
    /// Query parameters in order, percent-decoded.
    pub query: &'a [(String, String)],
    /// The part of the path after `proxy`.
    pub path: &'a str,
    /// The authenticated user.
    pub user: &'a UserInfo,
    /// The flags that concern kubelets.
    pub settings: &'a NodeSettings,
}

/// The destination of a forwarded request.
pub struct Located {
    /// The destination; `None` for a log that does not exist yet.
    pub location: Option<Location>,
    /// The warnings for the client.
    pub warnings: Vec<String>,
}

/// An authorized request about a resource that is served.
pub struct ApiRequest {
    /// The verb, resource and object of the request.
    pub info: Arc<RequestInfo>,
    /// Kind, version, subresource and verb.
    pub target: Target,
    /// Query parameters in order, percent-decoded.
    pub query: Vec<(String, String)>,
    /// `User-Agent` and `Content-Type`, the headers that objects depend on.
    pub user_agent: HeaderValue,
    /// See `user_agent`.
    pub content_type: HeaderValue,
    /// Whether bodies in CBOR are accepted.
    pub cbor: bool,
    /// Body, read to its end.
    pub body: Bytes,
    /// The authenticated user.
    pub user: Arc<UserInfo>,
    /// The representation of the answer.
    pub accept: Negotiated,
    /// The representation of errors; see [`ApiRequest::fail`].
    pub errors: Option<Encoding>,
}

impl ApiRequest {
    /// The first value of a parameter; "" if it is absent.
    pub fn param(&self, key: &str) -> &str {
        crate::query::first(&self.query, key).unwrap_or("")
    }

    /// Encodes an error in the representation that the client accepts.
    pub fn fail(&self, status: &Status) -> ApiResponse {
        respond::status(status, self.errors)
    }
}

/// An answer.
pub struct ApiResponse {
    /// Status code.
    pub code: u16,
    /// The headers, including `Content-Type`.
    pub headers: HeaderMap,
    /// Texts of `Warning` headers.
    pub warnings: Vec<String>,
    /// Body.
    pub body: Body,
    /// Whether the body has a media type that the client accepts. kube-apiserver does not record other errors.
    pub is_acceptable: bool,
}

impl ApiResponse {
    /// An answer without body and content type.
    pub fn empty(code: u16) -> Self {
        ApiResponse {
            code,
            headers: HeaderMap::new(),
            warnings: Vec::new(),
            body: Vec::new().into(),
            is_acceptable: true,
        }
    }

    /// An answer of this code, content type and body.
    pub fn new(code: u16, content_type: &'static str, body: impl Into<Body>) -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        ApiResponse { code, headers, warnings: Vec::new(), body: body.into(), is_acceptable: true }
    }

    /// Sets a header; an invalid value is dropped.
    pub fn set_header(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
    }
}
