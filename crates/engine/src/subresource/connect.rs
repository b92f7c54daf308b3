//! Requests that connect to pods, services and nodes. Admission sees the options before the destination is resolved.

use crate::{Target, Writer, decode};
use pintle_admission::{Attributes, Operation, Options};
use pintle_auth::UserInfo;
use pintle_meta::Status;
use pintle_meta::options::Query;
use pintle_value::Value;
use std::net::IpAddr;

/// The options by type: booleans, strings, lists of strings and lists of numbers.
const SWITCHES: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];
const TEXTS: [&str; 1] = ["container"];
const LISTS: [&str; 1] = ["command"];
const NUMBERS: [&str; 1] = ["ports"];

/// The flags that concern kubelets.
#[derive(Clone, Debug, Default)]
pub struct NodeSettings {
    /// Types of node addresses, the preferred one first.
    pub preferred_address_types: Vec<String>,
    /// Whether WebSockets are passed on to kubelets that take them (`ExtendWebSocketsToKubelet`).
    pub websockets_to_kubelets: bool,
}

/// The kind of server behind a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A kubelet, with this server's client certificate.
    Kubelet,
    /// A kubelet whose certificate is not verified.
    UnverifiedKubelet,
    /// A pod, service or node process: its certificate is not verified, and no client certificate is sent.
    Workload,
}

/// The destination of a request that this server forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The process that answers there.
    pub backend: Backend,
    /// Whether the backend is a kubelet that takes WebSockets, which are not translated for it.
    pub takes_websockets: bool,
    /// Whether the backend speaks TLS.
    pub is_tls: bool,
    /// Name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The addresses of the host that were checked: the name must not resolve to others when the connection is opened.
    /// Empty if the host was not looked up.
    pub checked: Vec<IpAddr>,
    /// The decoded path; for proxied requests the part after `proxy`.
    pub path: String,
    /// The query parameters; proxied requests keep those of the client.
    pub query: Vec<(String, String)>,
}

impl Writer {
    /// Returns the destination of a stream after admission of its options and authorization. `path` is the part after
    /// `proxy`.
    pub async fn connect(
        &self,
        target: &Target,
        user: &UserInfo,
        query: Query<'_>,
        path: &str,
        settings: &NodeSettings,
    ) -> Result<(Location, Vec<String>), Status> {
        // A request that only tries something out must not reach a process that would carry it out.
        if query.first("dryRun").is_some() {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        let mut warnings = Vec::new();
        let found = match self.admit_connection(target, user, query, path, &mut warnings).await {
            Err(status) => Err(status),
            Ok(()) if target.subresource == "proxy" => self.proxy_location(target, path, settings).await,
            Ok(()) => match self.authorize_stream(target, user).await {
                Ok(()) => self.stream_location(target, query, settings),
                Err(status) => Err(status),
            },
        };
        match found {
            Ok(location) => Ok((location, warnings)),
            Err(status) => Err(status.with_warnings(warnings)),
        }
    }

    /// A stream needs the right `create` whichever method opens it; otherwise a user with `get` could run commands.
    async fn authorize_stream(&self, target: &Target, user: &UserInfo) -> Result<(), Status> {
        let question = crate::authorize::creation_of(target, user.clone().into());
        match self.admission.authorizer.authorize(&question).await {
            pintle_auth::Decision::Allow(_) => Ok(()),
            refusal => Err(Status::forbidden(&target.group_resource(), &target.name, refusal.reason())),
        }
    }

    async fn admit_connection(
        &self,
        target: &Target,
        user: &UserInfo,
        query: Query<'_>,
        path: &str,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        if !self.admission.has_policies_or_webhooks() {
            self.admission.count_connection_without_webhooks();
            return Ok(());
        }
        let body_target = self.storage.body_target(target)?;
        let mut options = options(&body_target, query, path);
        let attributes = Attributes {
            operation: Operation::Connect,
            kind: &target.kind,
            version: target.kind_version(),
            namespace: &target.namespace,
            name: &target.name,
            subresource: &target.subresource,
            old: None,
            user,
            dry_run: false,
            options: Options::None,
        };
        self.admission.mutate_admitted(&attributes, &body_target, Some(&mut options), warnings).await?;
        self.admission.validate_admitted(&attributes, &body_target, Some(&options), warnings).await.map(drop)
    }
}

/// The options of a stream as an object, for admission.
fn options(body_target: &Target, query: Query<'_>, path: &str) -> Value {
    let mut out = Value::object();
    let version = body_target.kind_version();
    out.set_at(&["kind"], body_target.kind.kind.as_str().into());
    out.set_at(&["apiVersion"], decode::api_version(&version.group, &version.name).into());
    let is_of = |kinds: &[&str]| kinds.contains(&body_target.kind.kind.as_str());
    if is_of(&["PodExecOptions", "PodAttachOptions"]) {
        for key in SWITCHES.into_iter().filter(|key| query.switch(key) == Some(true)) {
            out.set_at(&[key], Value::Bool(true));
        }
        for key in TEXTS.into_iter().filter(|key| !query.text(key).is_empty()) {
            out.set_at(&[key], query.text(key).into());
        }
    }
    for key in LISTS.into_iter().filter(|_| is_of(&["PodExecOptions"])) {
        let texts = query.all(key).into_iter().map(Value::String).collect();
        out.set_at(&[key], Value::Array(texts));
    }
    for key in NUMBERS.into_iter().filter(|_| is_of(&["PodPortForwardOptions"])) {
        let numbers: Vec<Value> =
            query.all(key).iter().filter_map(|text| text.parse().ok()).map(Value::Int).collect();
        if !numbers.is_empty() {
            out.set_at(&[key], Value::Array(numbers));
        }
    }
    if !path.is_empty() && is_of(&["PodProxyOptions", "ServiceProxyOptions", "NodeProxyOptions"]) {
        out.set_at(&["path"], path.into());
    }
    out
}
