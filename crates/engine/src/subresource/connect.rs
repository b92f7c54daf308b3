//! Streams to pods, services and nodes: the options that a client gives are admitted before anybody is looked for.

use crate::{Engine, Target, decode};
use pintle_admission::{Attributes, Operation, Options};
use pintle_auth::UserInfo;
use pintle_meta::Status;
use pintle_meta::options::Query;
use pintle_value::Value;

/// Options that are switches, texts, lists of texts and lists of numbers.
const SWITCHES: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];
const TEXTS: [&str; 1] = ["container"];
const LISTS: [&str; 1] = ["command"];
const NUMBERS: [&str; 1] = ["ports"];

/// What the flags say of kubelets.
#[derive(Clone, Debug, Default)]
pub struct NodeSettings {
    /// Types of node addresses, the preferred one first.
    pub preferred_address_types: Vec<String>,
}

/// Who answers behind a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A kubelet, with this server's client certificate.
    Kubelet,
    /// A kubelet whose certificate is not verified.
    UnverifiedKubelet,
    /// Whatever a pod, a service or a node runs: any certificate is believed and none shown.
    Workload,
}

/// Where a request goes that this server passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Who answers there.
    pub backend: Backend,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path, decoded; of proxied requests the part behind `proxy`.
    pub path: String,
    /// Parameters; proxied requests keep those of the client.
    pub query: Vec<(String, String)>,
}

impl Engine {
    /// Where a stream goes, once its options were admitted and the user may have it. `path` is what comes behind
    /// `proxy`.
    pub async fn connect(
        &self,
        target: &Target,
        user: &UserInfo,
        query: Query<'_>,
        path: &str,
        settings: &NodeSettings,
    ) -> Result<(Location, Vec<String>), Status> {
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

    /// A stream needs the right to create it, whichever method asks for it: a GET alone could run commands.
    async fn authorize_stream(&self, target: &Target, user: &UserInfo) -> Result<(), Status> {
        let version = target.kind_version();
        let question = pintle_auth::Attributes {
            user: user.clone(),
            verb: "create".into(),
            resource_request: true,
            group: version.group.to_string(),
            version: version.name.to_string(),
            resource: target.kind.plural.to_string(),
            subresource: target.subresource.to_string(),
            namespace: target.namespace.to_string(),
            name: target.name.to_string(),
            ..pintle_auth::Attributes::default()
        };
        match self.authorizer.authorize(&question).await {
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
        if !self.asks_others() {
            return Ok(());
        }
        let face = self.face(target)?;
        let mut options = options(&face, query, path);
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
        self.mutate_admitted(&attributes, &face, Some(&mut options), warnings).await?;
        self.validate_admitted(&attributes, &face, Some(&options), warnings).await
    }
}

/// The options of a stream as an object.
fn options(face: &Target, query: Query<'_>, path: &str) -> Value {
    let mut out = Value::object();
    let version = face.kind_version();
    out.set_at(&["kind"], face.kind.kind.as_str().into());
    out.set_at(&["apiVersion"], decode::api_version(&version.group, &version.name).into());
    let is_of = |kinds: &[&str]| kinds.contains(&face.kind.kind.as_str());
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
