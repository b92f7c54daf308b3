//! Aggregated APIs: forwards requests of groups and versions that an extension server serves; and those that [`peer_proxy`] found a
//! peer for.
//!
//! [`peer_proxy`]: crate::peer_proxy

use crate::api::ApiResponse;
use crate::metrics::{self, Labels};
use crate::request_id::AUDIT_ID;
use crate::requestinfo::RequestInfo;
use crate::{passthrough, respond};
use http::header::HeaderValue;
use http::request::Parts;
use pintle_audit::Notes;
use pintle_auth::UserInfo;
use pintle_controllers::aggregation::{Aggregation, ApiService, Remote, RemoteV3};
use pintle_controllers::peers::PROXIED;
use pintle_metrics::families;
use pintle_proxy::header::{IdentityHeaders, RemoteUser, is_upgrade};
use pintle_proxy::rewrite::Links;
use pintle_proxy::{Address, CertificateFlaw, Forward, RequestBody, Transport, Upgrade, encode_query};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an extension server may take for a discovery document.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Who will answer a request.
pub(crate) enum Destination {
    /// An extension server.
    Extension {
        /// Whether a redirect is an error.
        rejects_redirects: bool,
    },
    /// Another server on the same store.
    Peer,
}

/// A request that another server will answer.
pub(crate) struct Aggregated<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) client: IpAddr,
    pub(crate) info: &'a RequestInfo,
    pub(crate) query: &'a [(String, String)],
    pub(crate) user: &'a UserInfo,
    /// The id of the request, sent to the other server.
    pub(crate) id: &'a str,
    /// Request headers that claim an identity, which must not be forwarded.
    pub(crate) identity: &'a IdentityHeaders,
    /// The annotations of the request's audit event.
    pub(crate) notes: Option<&'a Notes>,
    /// The deadline of the answer; streams have none.
    pub(crate) deadline: Option<Instant>,
}

/// Returns the APIService of a request for objects, discovery or an OpenAPI v3 document, if an extension server serves
/// it. An OpenAPI document must be in the index of that server.
pub(crate) fn find(aggregation: &Aggregation, path: &str) -> Option<Arc<ApiService>> {
    let document = path.strip_prefix("/openapi/v3").filter(|rest| rest.split('/').count() == 4);
    let path = document.unwrap_or(path);
    let mut steps = path.strip_prefix('/')?.split('/');
    let (group, version) = match steps.next()? {
        "apis" => (steps.next()?, steps.next()?),
        "api" => ("", steps.next()?),
        _ => return None,
    };
    let services = aggregation.services();
    let service = services.get(group, version)?;
    let remote = service.remote.as_ref()?;
    let is_listed =
        || remote.document.as_ref().is_some_and(|known| matches!(known.openapi_v3, RemoteV3::Served(_)));
    (document.is_none() || is_listed()).then(|| service.clone())
}

impl Aggregated<'_> {
    /// Forwards the request to the extension server and returns its answer.
    pub(crate) async fn serve(
        &self,
        aggregation: &Aggregation,
        remote: &Remote,
        body: RequestBody,
    ) -> ApiResponse {
        if !remote.is_available {
            return self.refuse(503, "service unavailable");
        }
        let transport = match &remote.transport {
            Ok(transport) => transport.clone(),
            Err(why) => return self.refuse(500, why),
        };
        let Ok(to) = aggregation.resolve(remote) else {
            return self.refuse(503, "service unavailable");
        };
        let destination = Destination::Extension { rejects_redirects: !aggregation.forwards_redirects() };
        self.exchange(&transport, to, destination, body).await
    }

    /// Sends the request and passes the answer on.
    pub(crate) async fn exchange(
        &self,
        transport: &Transport,
        to: Address,
        destination: Destination,
        body: RequestBody,
    ) -> ApiResponse {
        let mut headers = passthrough::headers(self.parts, self.identity);
        if let Err(error) = self.remote_user().set(&mut headers) {
            return respond::text(503, &format!("error trying to reach service: {error}"));
        }
        if let Ok(id) = HeaderValue::from_str(self.id) {
            headers.insert(AUDIT_ID, id);
        }
        let is_peer = matches!(destination, Destination::Peer);
        if is_peer {
            headers.append(PROXIED, HeaderValue::from_static("true"));
        }
        let (authority, host) = (to.authority(), to.host.clone());
        let links = Links {
            scheme: "https".to_string(),
            host: authority.clone(),
            prefix: String::new(),
            backend: authority.clone(),
            request_host: authority.clone(),
        };
        let upgrades = is_upgrade(&headers);
        let forward = Forward {
            method: self.parts.method.clone(),
            headers,
            to,
            path: self.info.path.clone(),
            query: encode_query(self.query.iter().map(|(key, value)| (key.as_str(), value.as_str()))),
            host: authority,
            client: Some(self.client),
            links: Some(links),
            rejects_redirects: matches!(destination, Destination::Extension { rejects_redirects: true }),
        };
        if upgrades {
            return match forward.upgrade(transport).await {
                Ok(Upgrade::Switched(head, backend)) => passthrough::switch(self.parts, head, *backend),
                Ok(Upgrade::Refused(response)) => passthrough::answer(response, self.deadline),
                Err(error) => respond::text(503, &error.to_string()),
            };
        }
        let sent = forward.send(transport, body);
        let sent = if self.is_discovery() {
            tokio::time::timeout(DISCOVERY_TIMEOUT, sent).await
        } else {
            Ok(sent.await)
        };
        match sent {
            Ok(Ok(response)) => {
                let flaws = transport.accepted_flaws().filter(|_| !is_peer);
                flaws.for_each(|flaw| self.note_flaw(flaw, &host));
                passthrough::answer(response, self.deadline)
            }
            Ok(Err(error)) => {
                let why = error.to_string();
                let flaw = CertificateFlaw::of_error(&why).filter(|_| !is_peer);
                flaw.into_iter().for_each(|flaw| self.note_flaw(flaw, &host));
                respond::text(503, &why)
            }
            Err(_) => respond::text(503, "error trying to reach service: context deadline exceeded"),
        }
    }

    /// Counts and audits a flaw of the extension server's certificate.
    fn note_flaw(&self, flaw: CertificateFlaw, host: &str) {
        match flaw {
            CertificateFlaw::MissingSan => families::AGGREGATOR_MISSING_SAN.inc(&[]),
            CertificateFlaw::InsecureSha1 => families::AGGREGATOR_INSECURE_SHA1.inc(&[]),
        }
        if let Some(notes) = self.notes {
            notes.annotate(&flaw.annotation(host), flaw.reason());
        }
    }

    /// Answers for an extension server that cannot be reached, and counts the request as terminated.
    fn refuse(&self, code: u16, why: &str) -> ApiResponse {
        let labels = Labels::forwarded("aggregator", &self.parts.method, self.info);
        metrics::count_termination(&labels, code);
        respond::text(code, why)
    }

    fn is_discovery(&self) -> bool {
        !self.info.resource_request && self.info.path.trim_matches('/').split('/').count() == 3
    }

    fn remote_user(&self) -> RemoteUser<'_> {
        RemoteUser {
            name: &self.user.name,
            uid: &self.user.uid,
            groups: self.user.groups.iter().map(String::as_str).collect(),
            extra: self
                .user
                .extra
                .iter()
                .map(|(key, values)| (key.as_str(), values.iter().map(String::as_str).collect()))
                .collect(),
        }
    }
}
