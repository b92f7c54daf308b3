//! The boundary between HTTP and objects: requests that are authenticated, authorized, routed and negotiated go in,
//! answers come out.

use crate::discovery::DiscoveryState;
use crate::flow::StoredObjects;
use crate::negotiate::{Encoding, Negotiated};
use crate::requestinfo::RequestInfo;
use crate::route::Target;
use crate::{Body, respond};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pintle_auth::UserInfo;
use pintle_engine::{Location, NodeSettings};
use pintle_meta::Status;
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// A future behind a pointer.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Whoever serves objects.
pub trait Api: Send + Sync {
    /// Answers a request for a resource.
    fn serve(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse>;

    /// The kinds that are served now. Called for every request: hand out a shared state, made anew when kinds change.
    fn discovery(&self) -> Arc<DiscoveryState>;

    /// Where a request for a log, a stream or a proxied path goes, once admission and authorization let it.
    fn locate<'a>(&'a self, request: &'a LocateRequest<'a>) -> BoxFuture<'a, Result<Located, Status>>;

    /// How many objects of a resource there are, and how large; `None` for a resource that is not served here.
    fn stored(&self, _group: &str, _resource: &str) -> Option<StoredObjects> {
        None
    }

    /// The object that defines a kind; `None` for kinds that are part of the server.
    fn definition(&self, _kind: &pintle_kinds::Kind) -> Option<pintle_value::Value> {
        None
    }
}

/// A request that is passed on to a node, a pod or a service.
pub struct LocateRequest<'a> {
    /// Path and verb, taken apart.
    pub info: &'a RequestInfo,
    /// Kind, version, subresource.
    pub target: &'a Target,
    /// Parameters in order, percent-encoding undone.
    pub query: &'a [(String, String)],
    /// What stands behind `proxy` in the path.
    pub path: &'a str,
    /// Who asks.
    pub user: &'a UserInfo,
    /// What the flags say of kubelets.
    pub settings: &'a NodeSettings,
}

/// Where such a request goes.
pub struct Located {
    /// The place; `None` for a log that nobody writes yet.
    pub location: Option<Location>,
    /// What the client shall be told.
    pub warnings: Vec<String>,
}

/// A request for a resource that is served, by someone who may make it.
pub struct ApiRequest {
    /// Path and verb, taken apart.
    pub info: Arc<RequestInfo>,
    /// Kind, version, subresource and what is to be done.
    pub target: Target,
    /// Method.
    pub method: Method,
    /// Parameters in order, percent-encoding undone.
    pub query: Vec<(String, String)>,
    /// Headers.
    pub headers: HeaderMap,
    /// Body, read to its end.
    pub body: Bytes,
    /// Who asks.
    pub user: UserInfo,
    /// The representation of the answer.
    pub accept: Negotiated,
    /// The representation of errors; see [`ApiRequest::fail`].
    pub errors: Option<Encoding>,
    /// When work on it must be over; watches have none.
    pub deadline: Option<Instant>,
    /// Its id, as in the `Audit-Id` header.
    pub id: String,
}

impl ApiRequest {
    /// The first value of a parameter; "" where there is none.
    pub fn param(&self, key: &str) -> &str {
        crate::query::first(&self.query, key).unwrap_or("")
    }

    /// The text of a header's first value; "" where there is none.
    pub fn header(&self, name: &str) -> Cow<'_, str> {
        crate::headers::first(&self.headers, name)
    }

    /// An error as the client wants to read it.
    pub fn fail(&self, status: &Status) -> ApiResponse {
        respond::status(status, self.errors)
    }
}

/// An answer.
pub struct ApiResponse {
    /// Status code.
    pub code: u16,
    /// Headers, `Content-Type` among them.
    pub headers: HeaderMap,
    /// Texts of `Warning` headers.
    pub warnings: Vec<String>,
    /// Body.
    pub body: Body,
}

impl ApiResponse {
    /// An answer without a body and a type.
    pub fn empty(code: u16) -> Self {
        ApiResponse { code, headers: HeaderMap::new(), warnings: Vec::new(), body: Vec::new().into() }
    }

    /// An answer of this code, content type and body.
    pub fn new(code: u16, content_type: &'static str, body: impl Into<Body>) -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        ApiResponse { code, headers, warnings: Vec::new(), body: body.into() }
    }

    /// Sets a header; a value that cannot be one is left out.
    pub fn set_header(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
    }
}
