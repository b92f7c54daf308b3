//! Requests that are forwarded to nodes, pods and services: logs, exec, attach, portforward and proxied paths.

mod translate;

use crate::api::{ApiResponse, LocateRequest, Located};
use crate::context::Context;
use crate::negotiate::{Encoding, Transform};
use crate::requestinfo::RequestInfo;
use crate::route::Target;
use crate::{passthrough, respond, target, websocket};
use arc_swap::ArcSwap;
use http::header::{HOST, HeaderValue, LOCATION, USER_AGENT};
use http::request::Parts;
use http::{Method, Request};
use hyper::upgrade::OnUpgrade;
use pintle_auth::UserInfo;
use pintle_engine::{Backend, Location, NodeSettings};
use pintle_meta::{GroupResource, Status};
use pintle_metrics::families;
use pintle_proxy::header::{IdentityHeaders, is_upgrade};
use pintle_proxy::rewrite::Links;
use pintle_proxy::{
    Address, Dialer, Forward, ForwardError, Identity, ProxyBody, RequestBody, TlsOptions, Transport, Trust,
    Upgrade, empty_body, encode_query, escape_path, join_keeping_slash, read_whole,
};
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use translate::Translation;

/// How much of a kubelet's error text is returned.
const REFUSAL_BYTES_MAX: usize = 50_000;

/// How nodes, pods and services are reached.
pub struct Streams {
    /// The flags that concern kubelets.
    pub settings: NodeSettings,
    /// Headers that claim an identity, which are never forwarded.
    pub identity: IdentityHeaders,
    certificates: KubeletCertificates,
    connecting: Connecting,
    kubelets: ArcSwap<Kubelets>,
    /// The time at which the client certificate files were last checked.
    looked_at: Mutex<Instant>,
    workload: Arc<Transport>,
}

/// The flags about certificates towards kubelets.
#[derive(Default)]
pub struct KubeletCertificates {
    /// The files of the client certificate and its key, reloaded when they change.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The CA bundle for kubelets in PEM; `None` accepts any certificate.
    pub authority: Option<Vec<u8>>,
}

/// How connections to nodes, pods and services are opened.
#[derive(Clone, Default)]
pub struct Connecting {
    /// Opens connections to nodes, pods and services.
    pub dialer: Dialer,
    /// The rate of each stream in each direction (`--max-connection-bytes-per-sec`); `None` is unlimited.
    pub bytes_per_second: Option<NonZeroU64>,
}

impl Connecting {
    fn transport_to(&self, options: TlsOptions) -> Arc<Transport> {
        Arc::new(Transport::new(self.dialer.clone(), Some(options)).with_rate(self.bytes_per_second))
    }
}

/// The shortest interval between checks of the client certificate files.
const CERTIFICATE_POLL: Duration = Duration::from_secs(5);

/// PEM of a certificate and its key.
type Pair = (Vec<u8>, Vec<u8>);

/// The connectors to kubelets, and the client certificate that they were made with.
struct Kubelets {
    verified: Arc<Transport>,
    unverified: Arc<Transport>,
    pair: Option<Pair>,
}

impl Kubelets {
    fn new(
        certificates: &KubeletCertificates,
        connecting: &Connecting,
        pair: Option<Pair>,
    ) -> Result<Self, String> {
        let transport = |trust: Trust<'_>| -> Result<Arc<Transport>, String> {
            let identity = match &pair {
                Some((certificate, key)) => Some(Identity::from_pem(certificate, key)?),
                None => None,
            };
            let options = TlsOptions::new(trust, None, identity)?;
            Ok(connecting.transport_to(options))
        };
        let trust = certificates.authority.as_deref().map_or(Trust::Anyone, Trust::Bundle);
        Ok(Kubelets { verified: transport(trust)?, unverified: transport(Trust::Anyone)?, pair })
    }
}

impl KubeletCertificates {
    fn read(&self) -> Result<Option<Pair>, String> {
        let Some((certificate, key)) = &self.client else { return Ok(None) };
        let file =
            |path: &PathBuf| std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()));
        Ok(Some((file(certificate)?, file(key)?)))
    }
}

impl Streams {
    /// Builds the transports from the flags. The error says which certificate is unusable.
    pub fn new(
        settings: NodeSettings,
        identity: IdentityHeaders,
        connecting: Connecting,
        certificates: KubeletCertificates,
    ) -> Result<Self, String> {
        let kubelets = Kubelets::new(&certificates, &connecting, certificates.read()?)?;
        let options = TlsOptions::new(Trust::Anyone, None, None)?;
        Ok(Streams {
            settings,
            identity,
            certificates,
            workload: connecting.transport_to(options),
            connecting,
            kubelets: ArcSwap::from_pointee(kubelets),
            looked_at: Mutex::new(Instant::now()),
        })
    }

    /// The connectors to kubelets, with the current client certificate. An unusable pair of files is ignored: it may be
    /// half written.
    fn kubelets(&self) -> Arc<Kubelets> {
        let is_due = self.looked_at.lock().is_ok_and(|mut at| {
            let is_due = at.elapsed() >= CERTIFICATE_POLL;
            if is_due {
                *at = Instant::now();
            }
            is_due
        });
        if is_due
            && let Ok(pair) = self.certificates.read()
            && pair != self.kubelets.load().pair
            && let Ok(made) = Kubelets::new(&self.certificates, &self.connecting, pair)
        {
            self.kubelets.store(Arc::new(made));
        }
        self.kubelets.load_full()
    }

    fn transport_to(&self, backend: Backend) -> Arc<Transport> {
        match backend {
            Backend::Kubelet => self.kubelets().verified.clone(),
            Backend::UnverifiedKubelet => self.kubelets().unverified.clone(),
            Backend::Workload => self.workload.clone(),
        }
    }
}

/// A request that is forwarded to a node, a pod or a service.
pub(crate) struct Streamed<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) client: IpAddr,
    pub(crate) info: &'a RequestInfo,
    pub(crate) target: &'a Target,
    pub(crate) query: &'a [(String, String)],
    pub(crate) user: &'a UserInfo,
    pub(crate) transform: Transform,
    pub(crate) errors: Option<Encoding>,
}

impl Streamed<'_> {
    /// Resolves the destination and forwards the request.
    pub(crate) async fn serve(&self, context: &Context, body: RequestBody) -> ApiResponse {
        let streams = &context.streams;
        let path = self.proxied_path();
        let request = LocateRequest {
            info: self.info,
            target: self.target,
            query: self.query,
            path: &path,
            user: self.user,
            settings: &streams.settings,
        };
        let Located { location, warnings } = match context.api.locate(&request).await {
            Ok(located) => located,
            Err(status) => return respond::status(&status, self.errors),
        };
        if self.info.subresource == "log"
            && let Err(status) = check_log_form(self.transform)
        {
            return respond::status(&status, self.errors);
        }
        let Some(location) = location else { return ApiResponse::empty(204) };
        let answered = match self.info.subresource.as_str() {
            "log" => stream_log(streams, &location, &self.info.name)
                .await
                .map(|answer| self.over_websocket(answer)),
            "proxy" => self.proxy(streams, &location, body).await,
            _ => self.stream(streams, &location).await,
        };
        let mut response = answered.unwrap_or_else(|status| respond::status(&status, self.errors));
        response.warnings.extend(warnings);
        response
    }

    /// The path after `proxy`: empty, or with a leading slash.
    fn proxied_path(&self) -> String {
        let mut path = self.info.parts.get(3..).unwrap_or_default().join("/");
        if !path.is_empty() && !path.starts_with('/') {
            path.insert(0, '/');
        }
        if self.info.path.ends_with('/') && !path.ends_with('/') {
            path.push('/');
        }
        path
    }

    /// Proxies a request to a pod, a service or a node.
    async fn proxy(
        &self,
        streams: &Streams,
        location: &Location,
        body: RequestBody,
    ) -> Result<ApiResponse, Status> {
        let transport = streams.transport_to(location.backend);
        let path = join_keeping_slash(&["", &location.path]);
        let upgrades = is_upgrade(&self.parts.headers);
        let method = &self.parts.method;
        let query = target::query(self.parts);
        if !upgrades && path.is_empty() && (method == Method::GET || method == Method::HEAD) {
            return Ok(self.root_redirect(query));
        }
        let prefix = self.info.path.strip_suffix(path.as_str()).unwrap_or(&self.info.path).to_string();
        // kube-apiserver does not forward the query of an upgrade.
        let query = if upgrades { "" } else { query };
        let forward = self.new_forward(streams, location, path, query.to_string(), Some(prefix));
        if upgrades {
            return self.answer_upgrade(forward.upgrade(&transport).await);
        }
        forward.send(&transport, body).await.map(|answer| passthrough::answer(answer, None)).map_err(refusal)
    }

    fn root_redirect(&self, query: &str) -> ApiResponse {
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let mut response = ApiResponse::empty(301);
        if let Ok(place) = HeaderValue::from_str(&format!("{}/{query}", escape_path(&self.info.path))) {
            response.headers.insert(LOCATION, place);
        }
        response
    }

    /// Opens a stream to a kubelet: exec, attach, portforward.
    async fn stream(&self, streams: &Streams, location: &Location) -> Result<ApiResponse, Status> {
        let handler =
            if location.takes_websockets { "proxied_to_kubelet" } else { "translated_at_apiserver" };
        families::STREAMING_REQUESTS.inc(&[handler, &self.info.subresource]);
        if !is_upgrade(&self.parts.headers) {
            return Err(Status::bad_request("Upgrade request required"));
        }
        let translation = if location.takes_websockets {
            None
        } else {
            Translation::of(&self.parts.headers, &self.info.subresource)
        };
        match translation {
            Some(Translation::Command) => return Ok(self.command(streams, location)),
            Some(Translation::Tunnel(protocols)) => return self.tunnel(streams, location, &protocols).await,
            None => {}
        }
        let transport = streams.transport_to(location.backend);
        let query = parameters(location);
        let forward = self.new_forward(streams, location, location.path.clone(), query, None);
        self.answer_upgrade(forward.upgrade(&transport).await)
    }

    /// Sends a log over a WebSocket, if the client asks for one.
    fn over_websocket(&self, answer: ApiResponse) -> ApiResponse {
        let upgrade = self.parts.extensions.get::<OnUpgrade>();
        match upgrade.filter(|_| websocket::asked_for(&self.parts.headers)) {
            Some(upgrade) => websocket::switch_log(&self.parts.headers, upgrade.clone(), answer),
            None => answer,
        }
    }

    fn answer_upgrade(&self, upgrade: Result<Upgrade, ForwardError>) -> Result<ApiResponse, Status> {
        match upgrade {
            Ok(Upgrade::Switched(head, backend)) => Ok(passthrough::switch(self.parts, head, *backend)),
            Ok(Upgrade::Refused(response)) => Ok(passthrough::answer(response, None)),
            Err(error) => Err(refusal(error)),
        }
    }

    fn new_forward(
        &self,
        streams: &Streams,
        location: &Location,
        path: String,
        query: String,
        prefix: Option<String>,
    ) -> Forward {
        let to = address_of(location);
        let host = passthrough::host(self.parts);
        let links = prefix.map(|prefix| Links {
            prefix,
            backend: to.authority(),
            request_host: host.clone(),
            ..Links::default()
        });
        Forward {
            method: self.parts.method.clone(),
            headers: passthrough::headers(self.parts, &streams.identity),
            to,
            path,
            query,
            host,
            client: Some(self.client),
            links,
            rejects_redirects: false,
        }
    }
}

fn address_of(location: &Location) -> Address {
    Address {
        tls: location.is_tls,
        host: location.host.clone(),
        port: location.port,
        checked: location.checked.clone(),
    }
}

fn parameters(location: &Location) -> String {
    encode_query(location.query.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// The error for a backend that did not answer.
fn refusal(error: ForwardError) -> Status {
    match error {
        ForwardError::Unreachable(_) => Status::service_unavailable(error.to_string()),
        ForwardError::Invalid(why) => Status::internal(&why),
        ForwardError::Unusable(why) | ForwardError::Upgrade(why) => Status::unclassified(why),
    }
}

/// Refuses a form that a log does not have. kube-apiserver takes the stream for an object whose metadata it cannot find.
fn check_log_form(transform: Transform) -> Result<(), Status> {
    match transform {
        Transform::None | Transform::Table(_) => Ok(()),
        Transform::PartialObjectMetadata(_) => {
            Err(Status::unclassified("object does not implement the Object interfaces"))
        }
        Transform::PartialObjectMetadataList(_) => Err(respond::no_list("*rest.LocationStreamer")),
    }
}

/// Streams the log of a container from the kubelet.
async fn stream_log(streams: &Streams, location: &Location, pod: &str) -> Result<ApiResponse, Status> {
    let to = address_of(location);
    let query = parameters(location);
    let path = escape_path(&location.path);
    let target = if query.is_empty() { path } else { format!("{path}?{query}") };
    let url = format!("{}://{}{target}", to.scheme(), to.authority());
    let mut request = Request::new(empty_body());
    *request.uri_mut() = target.parse().map_err(|_| Status::internal("the path is no URI"))?;
    let host = HeaderValue::from_str(&to.authority()).map_err(|_| Status::internal("the host is no name"))?;
    request.headers_mut().insert(HOST, host);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("Go-http-client/1.1"));
    let answer = match streams.transport_to(location.backend).send(&to, request).await {
        Ok(answer) => answer,
        Err(error) => {
            if error.is_certificate() {
                families::LOG_TLS_FAILURES.inc(&[]);
            }
            return Err(Status::unclassified(format!("Get \"{url}\": {error}")));
        }
    };
    let code = answer.status().as_u16();
    if answer.status().is_redirection()
        && let Some(elsewhere) = answer.headers().get(LOCATION)
    {
        let elsewhere = String::from_utf8_lossy(elsewhere.as_bytes());
        return Err(Status::unclassified(format!("Get \"{elsewhere}\": redirects forbidden")));
    }
    if !(200..=206).contains(&code) {
        let message = read_whole(answer.into_body(), REFUSAL_BYTES_MAX).await.unwrap_or_default();
        let message = String::from_utf8_lossy(&message);
        return Err(match code {
            500 => Status::internal(&message),
            400 => Status::bad_request(message.into_owned()),
            _ => Status::generic_response(code, "", &GroupResource::new("", "pods/log"), pod, &message),
        });
    }
    let mut response = passthrough::answer(answer.map(ProxyBody::Plain), None);
    response.code = 200;
    response.headers = ApiResponse::new(200, "text/plain", "").headers;
    Ok(response)
}
