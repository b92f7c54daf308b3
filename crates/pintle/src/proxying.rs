//! The flags about requests that are forwarded to other servers: extension servers, kubelets, egress, and the ConfigMap
//! from which extension servers learn about authentication.

use crate::flags::{FlagError, Flags};
use pintle_controllers::aggregation::AggregationSettings;
use pintle_engine::NodeSettings;
use pintle_http::streams::{KubeletCertificates, Streams};
use pintle_proxy::header::IdentityHeaders;
use pintle_proxy::{ConnectProxy, Dialer, Egress, Identity, TlsOptions, Trust};
use pintle_value::{Value, json, yaml};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The settings of forwarded requests.
pub(crate) struct Proxying {
    /// How the cluster and the control plane are reached.
    pub(crate) egress: Egress,
    pub(crate) aggregation: AggregationSettings,
    pub(crate) streams: Arc<Streams>,
    /// The data of the ConfigMap that extension servers read.
    pub(crate) authentication: Vec<(&'static str, String)>,
}

impl Proxying {
    /// Reads the flags and the files that they name.
    pub(crate) fn new(flags: &Flags) -> Result<Self, FlagError> {
        let egress = egress(flags)?.unwrap_or_default();
        let dialer = egress.to_cluster();
        let client_certificate =
            pair(flags, "proxy-client-cert-file", "proxy-client-key-file")?.inspect(|(certificate, key)| {
                if !certificate.exists() || !key.exists() {
                    tracing::warn!(
                        "the files of --proxy-client-cert-file and --proxy-client-key-file are missing"
                    );
                }
            });
        let kubelet = pair(flags, "kubelet-client-certificate", "kubelet-client-key")?;
        let certificates = KubeletCertificates {
            client: kubelet,
            authority: match path(flags, "kubelet-certificate-authority") {
                Some(file) => Some(read(&file)?),
                None => None,
            },
        };
        let settings =
            NodeSettings { preferred_address_types: flags.list("kubelet-preferred-address-types") };
        let names =
            ["requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers"];
        let names: Vec<String> = names.iter().flat_map(|name| flags.list(name)).collect();
        let prefixes = flags.list("requestheader-extra-headers-prefix");
        let identity = IdentityHeaders::new(names.iter(), prefixes.iter());
        let streams = Streams::new(settings, identity, &dialer, certificates)
            .map_err(|why| FlagError::new(&format!("certificates towards kubelets: {why}")))?;
        Ok(Proxying {
            egress,
            aggregation: AggregationSettings {
                dialer,
                client_certificate,
                routes_to_endpoints: flags.bool("enable-aggregator-routing"),
            },
            streams: Arc::new(streams),
            authentication: authentication(flags)?,
        })
    }
}

/// The data for extension servers: the trusted CAs, and the headers that this server sends.
fn authentication(flags: &Flags) -> Result<Vec<(&'static str, String)>, FlagError> {
    let mut out = Vec::new();
    let text = |file: &Path| read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if let Some(file) = path(flags, "client-ca-file") {
        out.push(("client-ca-file", text(&file)?));
    }
    let Some(file) = path(flags, "requestheader-client-ca-file") else { return Ok(out) };
    out.push(("requestheader-client-ca-file", text(&file)?));
    for name in [
        "requestheader-allowed-names",
        "requestheader-extra-headers-prefix",
        "requestheader-group-headers",
        "requestheader-uid-headers",
        "requestheader-username-headers",
    ] {
        let items = flags.list(name).iter().map(|item| Value::from(item.as_str())).collect();
        let mut list = Vec::new();
        json::print(&Value::Array(items), &mut list);
        out.push((name, String::from_utf8_lossy(&list).into_owned()));
    }
    Ok(out)
}

/// The dialers of `--egress-selector-config-file`, if it is given.
pub(crate) fn egress(flags: &Flags) -> Result<Option<Egress>, FlagError> {
    path(flags, "egress-selector-config-file").map(|file| read_egress(&file)).transpose()
}

fn read_egress(file: &Path) -> Result<Egress, FlagError> {
    let wrong = |why: String| {
        FlagError::new(&format!("failed to read egress configuration: {}: {why}", file.display()))
    };
    let parsed = yaml::parse(&read(file)?).map_err(|error| wrong(error.to_string()))?.value;
    if parsed.str_at(&["kind"]) != "EgressSelectorConfiguration"
        || !matches!(
            parsed.str_at(&["apiVersion"]),
            "apiserver.k8s.io/v1beta1" | "apiserver.k8s.io/v1alpha1" | "apiserver.config.k8s.io/v1"
        )
    {
        return Err(wrong("it is no EgressSelectorConfiguration of apiserver.k8s.io/v1beta1".to_string()));
    }
    let mut egress = Egress::default();
    for selection in parsed.items_at(&["egressSelections"]) {
        let name = selection.str_at(&["name"]).to_lowercase();
        if !matches!(name.as_str(), "cluster" | "controlplane" | "etcd") {
            return Err(wrong(format!("unrecognized service name {name}")));
        }
        let dialer = dialer(selection.get("connection").unwrap_or(&Value::Null)).map_err(&wrong)?;
        match name.as_str() {
            "cluster" => egress.cluster = Some(dialer),
            "controlplane" => egress.control_plane = Some(dialer),
            // The connection to etcd has options of its own.
            _ => {}
        }
    }
    Ok(egress)
}

fn dialer(connection: &Value) -> Result<Dialer, String> {
    match connection.str_at(&["proxyProtocol"]) {
        "Direct" => Ok(Dialer::Direct),
        "HTTPConnect" => match (connection.at(&["transport", "uds"]), connection.at(&["transport", "tcp"])) {
            (Some(uds), _) if !uds.is_null() => {
                let socket = PathBuf::from(uds.str_at(&["udsName"]));
                Ok(Dialer::HttpConnect(Arc::new(ConnectProxy::Unix(socket))))
            }
            (_, Some(tcp)) if !tcp.is_null() => over_tls(tcp),
            _ => Err("Either a TCP or UDS transport must be specified".to_string()),
        },
        "GRPC" => Err("proxyProtocol GRPC is not available here".to_string()),
        other => Err(format!("unrecognized service connection protocol {other:?}")),
    }
}

/// A CONNECT proxy at `https://host:port`.
fn over_tls(tcp: &Value) -> Result<Dialer, String> {
    let url = tcp.str_at(&["url"]);
    let authority = url.strip_prefix("https://").and_then(|rest| rest.split('/').next()).unwrap_or("");
    let (host, port) = authority.rsplit_once(':').ok_or(format!("invalid proxy server url {url:?}"))?;
    let port = port.parse().map_err(|_| format!("invalid proxy server url {url:?}"))?;
    let file = |key: &str| {
        let name = tcp.str_at(&["tlsConfig", key]);
        std::fs::read(name).map_err(|error| format!("failed to read {name}: {error}"))
    };
    let bundle =
        if tcp.str_at(&["tlsConfig", "caBundle"]).is_empty() { Vec::new() } else { file("caBundle")? };
    let identity = Identity::from_pem(&file("clientCert")?, &file("clientKey")?)?;
    let server_name = Some(tcp.str_at(&["tlsConfig", "tlsServerName"])).filter(|name| !name.is_empty());
    let options = TlsOptions::new(Trust::Bundle(&bundle), server_name.map(str::to_string), Some(identity))?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
    Ok(Dialer::HttpConnect(Arc::new(ConnectProxy::Tls { host, port, options })))
}

fn path(flags: &Flags, name: &str) -> Option<PathBuf> {
    Some(flags.text(name)).filter(|text| !text.is_empty()).map(PathBuf::from)
}

fn pair(flags: &Flags, certificate: &str, key: &str) -> Result<Option<(PathBuf, PathBuf)>, FlagError> {
    match (path(flags, certificate), path(flags, key)) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        _ => Err(FlagError::new(&format!("--{certificate} and --{key} go together"))),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, FlagError> {
    crate::authentication::read(file).map_err(|why| FlagError::new(&why))
}
