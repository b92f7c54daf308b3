//! The flags about requests that are forwarded to other servers: extension servers, kubelets, egress, and the ConfigMap
//! from which extension servers learn about authentication.

use crate::egress;
use crate::flags::{FlagError, Flags};
use pintle_controllers::aggregation::AggregationSettings;
use pintle_controllers::peers;
use pintle_engine::NodeSettings;
use pintle_http::streams::{Connecting, KubeletCertificates, Streams};
use pintle_proxy::header::IdentityHeaders;
use pintle_proxy::{Dialer, Egress, Transport};
use pintle_value::{Value, json};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The settings of forwarded requests.
pub(crate) struct Proxying {
    /// Whether webhooks and extension servers are reached at the endpoints of their services.
    pub(crate) routes_to_endpoints: bool,
    /// How the cluster and the control plane are reached.
    pub(crate) egress: Egress,
    pub(crate) aggregation: AggregationSettings,
    /// How other servers on the same store are reached, if requests are forwarded to them.
    pub(crate) peers: Option<Arc<Transport>>,
    pub(crate) streams: Arc<Streams>,
    /// The data of the ConfigMap that extension servers read.
    pub(crate) authentication: Vec<(&'static str, String)>,
}

impl Proxying {
    /// Reads the flags and the files that they name.
    pub(crate) fn new(flags: &Flags) -> Result<Self, FlagError> {
        let egress = egress::read(flags)?.unwrap_or_default();
        let dialer = egress.to_cluster();
        // As in kube-apiserver, one of the two flags alone has no effect.
        let client_certificate =
            path(flags, "proxy-client-cert-file").zip(path(flags, "proxy-client-key-file"));
        if let Some((certificate, key)) = &client_certificate {
            read(certificate)?;
            read(key)?;
        }
        let kubelet = path(flags, "kubelet-client-certificate").zip(path(flags, "kubelet-client-key"));
        // kube-apiserver reads these files when it creates the resources of the core group.
        let refused = |why: &str| FlagError::new(&format!("problem initializing API group \"\": {why}"));
        if let Some((certificate, key)) = &kubelet {
            for file in [certificate, key] {
                crate::config_file::read(file).map_err(|why| refused(&why))?;
            }
        }
        let certificates = KubeletCertificates {
            client: kubelet,
            authority: match path(flags, "kubelet-certificate-authority") {
                Some(file) => Some(crate::config_file::read(&file).map_err(|why| refused(&why))?),
                None => None,
            },
        };
        let settings = NodeSettings {
            preferred_address_types: flags.list("kubelet-preferred-address-types"),
            websockets_to_kubelets: flags.gates()?.get("ExtendWebSocketsToKubelet").copied().unwrap_or(false),
        };
        let names =
            ["requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers"];
        let names: Vec<String> = names.iter().flat_map(|name| flags.list(name)).collect();
        let prefixes = flags.list("requestheader-extra-headers-prefix");
        let identity = IdentityHeaders::new(names.iter(), prefixes.iter());
        let connecting = Connecting {
            dialer: dialer.clone(),
            // As in kube-apiserver, numbers below one are no limit.
            bytes_per_second: u64::try_from(flags.int("max-connection-bytes-per-sec"))
                .ok()
                .and_then(NonZeroU64::new),
        };
        let streams = Streams::new(settings, identity, connecting, certificates)
            .map_err(|why| refused(&why.to_string()))?;
        let peers = match path(flags, "peer-ca-file").zip(client_certificate.as_ref()) {
            Some((authority, (certificate, key))) => {
                let transport = peer_transport(&authority, certificate, key, egress.to_control_plane());
                let refused =
                    |why: String| FlagError::new(&format!("failed to create proxy transport: {why}"));
                Some(Arc::new(transport.map_err(refused)?))
            }
            None => None,
        };
        Ok(Proxying {
            egress,
            peers,
            routes_to_endpoints: flags.bool("enable-aggregator-routing"),
            aggregation: AggregationSettings {
                dialer,
                client_certificate,
                forwards_redirects: !flags.bool("aggregator-reject-forwarding-redirect"),
            },
            streams: Arc::new(streams),
            authentication: authentication(flags)?,
        })
    }
}

/// The connections to other servers on the same store. The errors are kube-apiserver's.
fn peer_transport(
    authority: &Path,
    certificate: &Path,
    key: &Path,
    dialer: Dialer,
) -> Result<Transport, String> {
    let read = |file| crate::config_file::read(file);
    let authority = read(authority)?;
    if !authority.windows(PEM_BEGIN.len()).any(|text| text == PEM_BEGIN) {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_string());
    }
    peers::transport(&authority, &read(certificate)?, &read(key)?, dialer)
}

const PEM_BEGIN: &[u8] = b"-----BEGIN ";

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
        out.push((name, json::text(&Value::Array(items))));
    }
    Ok(out)
}

fn path(flags: &Flags, name: &str) -> Option<PathBuf> {
    Some(flags.text(name)).filter(|text| !text.is_empty()).map(PathBuf::from)
}

fn read(file: &Path) -> Result<Vec<u8>, FlagError> {
    crate::config_file::read(file).map_err(|why| FlagError::new(&why))
}
