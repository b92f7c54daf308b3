//! `--egress-selector-config-file`: through which proxies the cluster, the control plane and etcd are reached.

use crate::flags::{FlagError, Flags};
use pintle_meta::field::FieldErrors;
use pintle_meta::go_type::{GoStruct, GoType, head_type_error, missing_head, unregistered_kind};
use pintle_proxy::{ConnectProxy, Dialer, Egress, Identity, TlsOptions, Trust};
use pintle_value::{Path as FieldPath, Value, yaml};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const VERSIONS: [&str; 2] = ["apiserver.k8s.io/v1beta1", "apiserver.k8s.io/v1alpha1"];
/// The selections, in the order in which an error lists them.
const NAMES: [&str; 3] = ["cluster", "controlplane", "etcd"];
const PROTOCOLS: [&str; 3] = ["Direct", "HTTPConnect", "GRPC"];

const SCHEME: &str = "k8s.io/apiserver/pkg/server/egressselector/config.go:33";
const TEXT: GoType = GoType::Text("string");
const TLS: GoStruct = GoStruct("TLSConfig", &[("caBundle", TEXT), ("clientKey", TEXT), ("clientCert", TEXT)]);
const TRANSPORT: GoStruct = GoStruct(
    "Transport",
    &[
        (
            "tcp",
            GoType::Struct(&GoStruct("TCPTransport", &[("url", TEXT), ("tlsConfig", GoType::Struct(&TLS))])),
        ),
        ("uds", GoType::Struct(&GoStruct("UDSTransport", &[("udsName", TEXT)]))),
    ],
);
const CONNECTION: GoStruct = GoStruct(
    "Connection",
    &[("proxyProtocol", GoType::Text("v1beta1.ProtocolType")), ("transport", GoType::Struct(&TRANSPORT))],
);
const SELECTION: GoStruct =
    GoStruct("EgressSelection", &[("name", TEXT), ("connection", GoType::Struct(&CONNECTION))]);
const FILE: GoStruct =
    GoStruct("EgressSelectorConfiguration", &[("egressSelections", GoType::Structs(&SELECTION))]);

/// The dialers of the file; `None` without the flag.
pub(crate) fn read(flags: &Flags) -> Result<Option<Egress>, FlagError> {
    let file = flags.text("egress-selector-config-file");
    if file.is_empty() {
        return Ok(None);
    }
    let file = Path::new(file);
    let text = crate::config_file::read(file).map_err(|why| {
        FlagError::new(&format!(
            "failed to read egress selector config: unable to read egress selector configuration from {file:?} [{why}]"
        ))
    })?;
    parse(&text).map(Some).map_err(|why| FlagError::new(&why))
}

fn parse(text: &[u8]) -> Result<Egress, String> {
    let unreadable = |why: &str| format!("failed to read egress selector config: {why}");
    let parsed = yaml::parse(text).map_err(|error| unreadable(&error.to_string()))?.value;
    let (kind, version) = (parsed.str_at(&["kind"]), parsed.str_at(&["apiVersion"]));
    if let Some(error) = head_type_error(&parsed).or_else(|| missing_head(text, &parsed)) {
        return Err(unreadable(&error));
    }
    if kind != FILE.0 || !VERSIONS.contains(&version) {
        return Err(unreadable(&unregistered_kind(kind, version, SCHEME)));
    }
    let package = version.rsplit('/').next().unwrap_or_default();
    if let Some(error) = FILE.strict_error(&parsed, package, None) {
        return Err(unreadable(&error));
    }
    let mut selections = parsed.items_at(&["egressSelections"]).to_vec();
    // The control plane has an old name.
    for selection in selections.iter_mut().filter(|selection| selection.str_at(&["name"]) == "master") {
        selection.set_at(&["name"], "controlplane".into());
    }
    let errors = validate(&selections);
    if !errors.is_empty() {
        return Err(format!(
            "failed to validate egress selector configuration: {}",
            errors.aggregate_message()
        ));
    }
    let mut egress = Egress::default();
    for selection in &selections {
        let name = selection.str_at(&["name"]).to_lowercase();
        let dialer = dialer(selection.get("connection").unwrap_or(&Value::Null));
        let failed = |why| {
            format!(
                "failed to setup egress selector: failed to create dialer for egressSelection {name:?}: {why}"
            )
        };
        let dialer = Some(dialer.map_err(failed)?);
        match name.as_str() {
            "cluster" => egress.cluster = dialer,
            "controlplane" => egress.control_plane = dialer,
            _ => egress.etcd = dialer,
        }
    }
    Ok(egress)
}

fn validate(selections: &[Value]) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let service = FieldPath::of("service");
    let path = service.field("connection");
    for selection in selections {
        let connection = selection.get("connection").unwrap_or(&Value::Null);
        let transport = connection.get("transport").filter(|transport| !transport.is_null());
        match connection.str_at(&["proxyProtocol"]) {
            "Direct" if transport.is_none() => {}
            "Direct" => {
                errors.invalid(&path.field("transport"), "direct", "config must be absent for direct connect")
            }
            "HTTPConnect" => validate_connect(transport, &path, &mut errors),
            "GRPC" => validate_grpc(transport, &path, &mut errors),
            other => errors.not_supported(&path.field("protocol"), other, &PROTOCOLS),
        }
    }
    let mut seen = BTreeSet::new();
    for (index, selection) in selections.iter().enumerate() {
        let name = selection.str_at(&["name"]).to_lowercase();
        if !seen.insert(name.clone()) {
            errors.duplicate(&path.index(index), name.as_str());
        } else if !NAMES.contains(&name.as_str()) {
            errors.not_supported(&path, name.as_str(), &NAMES);
        }
    }
    errors
}

fn present<'a>(transport: &'a Value, name: &str) -> Option<&'a Value> {
    transport.get(name).filter(|part| !part.is_null())
}

fn validate_grpc(transport: Option<&Value>, path: &FieldPath<'_>, errors: &mut FieldErrors) {
    match transport.map(|transport| present(transport, "uds")) {
        None => errors.required(&path.field("transport"), "transport must be set for GRPC"),
        Some(None) => errors.required(&path.field("uds"), "UDS must be set with GRPC"),
        Some(Some(uds)) => validate_socket(uds, path, errors),
    }
}

fn validate_connect(transport: Option<&Value>, path: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(transport) = transport else {
        errors.required(&path.field("transport"), "transport must be set for HTTPConnect");
        return;
    };
    match (present(transport, "tcp"), present(transport, "uds")) {
        (Some(_), Some(_)) => {
            errors.invalid(&path.field("tcp"), "object", "TCP and UDS cannot both be set");
        }
        (None, None) => errors.required(&path.field("tcp"), "One of TCP or UDS must be set"),
        (Some(tcp), None) => validate_tcp(tcp, path, errors),
        (None, Some(uds)) => validate_socket(uds, path, errors),
    }
}

fn validate_socket(uds: &Value, path: &FieldPath<'_>, errors: &mut FieldErrors) {
    if uds.str_at(&["udsName"]).is_empty() {
        errors.invalid(&path.field("udsName"), "nil", "must be present for UDS connections");
    }
}

fn validate_tcp(tcp: &Value, path: &FieldPath<'_>, errors: &mut FieldErrors) {
    let url = tcp.str_at(&["url"]);
    let tls = present(tcp, "tlsConfig");
    if url.starts_with("http://") {
        // kube-apiserver crashes on a proxy without TLS.
        match tls {
            Some(_) => {
                errors.invalid(&path.field("tlsConfig"), "nil", "config must not be present when using HTTP")
            }
            None => errors.required(&path.field("tlsConfig"), "HTTPConnect over TCP needs https://"),
        }
        return;
    }
    if !url.starts_with("https://") {
        let why = "supported connection protocols are http:// and https://";
        errors.invalid(&path.field("url"), url, why);
        return;
    }
    let path = path.field("tlsConfig");
    let Some(tls) = tls else {
        errors.required(&path, "TLSConfig must be present when using HTTPS");
        return;
    };
    for (key, what, is_needed) in [
        ("caBundle", "TLS config ca bundle does not exist", None),
        ("clientCert", "TLS client cert does not exist", Some("Using TLS requires clientCert")),
        ("clientKey", "TLS client key does not exist", Some("Using TLS requires requires clientKey")),
    ] {
        let file = tls.str_at(&[key]);
        match is_needed {
            Some(why) if file.is_empty() => errors.invalid(&path.field(key), "nil", why),
            _ if file.is_empty() || Path::new(file).exists() => {}
            _ => errors.invalid(&path.field(key), file, what),
        }
    }
}

/// The dialer of a connection that was validated.
fn dialer(connection: &Value) -> Result<Dialer, String> {
    let transport = connection.get("transport").unwrap_or(&Value::Null);
    let socket = || PathBuf::from(transport.str_at(&["uds", "udsName"]));
    match (connection.str_at(&["proxyProtocol"]), present(transport, "tcp")) {
        ("GRPC", _) => Ok(Dialer::Konnectivity(socket().into())),
        ("HTTPConnect", None) => Ok(Dialer::HttpConnect(Arc::new(ConnectProxy::Unix(socket())))),
        ("HTTPConnect", Some(tcp)) => over_tls(tcp),
        _ => Ok(Dialer::Direct),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(selections: &str) -> String {
        let text = format!(
            "{{\"apiVersion\": \"apiserver.k8s.io/v1beta1\", \"kind\": \"EgressSelectorConfiguration\", \
             \"egressSelections\": [{selections}]}}"
        );
        match parse(text.as_bytes()) {
            Ok(egress) => {
                [("cluster", egress.cluster), ("controlplane", egress.control_plane), ("etcd", egress.etcd)]
                    .into_iter()
                    .filter_map(|(name, dialer)| {
                        Some(match dialer? {
                            Dialer::Direct => format!("{name} direct"),
                            Dialer::HttpConnect(_) => format!("{name} connect"),
                            Dialer::Konnectivity(socket) => format!("{name} {}", socket.display()),
                        })
                    })
                    .collect::<Vec<_>>()
                    .join(", ")
            }
            Err(why) => why.replace("failed to validate egress selector configuration: ", ""),
        }
    }

    #[test]
    fn selections_and_what_is_wrong_with_them() {
        let uds = r#""transport": {"uds": {"udsName": "/k"}}"#;
        for (selections, expected) in [
            (
                format!(r#"{{"name": "Cluster", "connection": {{"proxyProtocol": "GRPC", {uds}}}}}, {{"name": "etcd", "connection": {{"proxyProtocol": "HTTPConnect", {uds}}}}}"#),
                "cluster /k, etcd connect",
            ),
            (
                r#"{"name": "cluster", "connection": {"proxyProtocol": "GRPC"}}"#.to_string(),
                "service.connection.transport: Required value: transport must be set for GRPC",
            ),
            (
                r#"{"name": "cluster", "connection": {"proxyProtocol": "GRPC", "transport": {"tcp": {"url": "https://h:1"}}}}"#.to_string(),
                "service.connection.uds: Required value: UDS must be set with GRPC",
            ),
            (
                r#"{"name": "cluster", "connection": {"proxyProtocol": "Direct"}}, {"name": "CLUSTER", "connection": {"proxyProtocol": "UDP"}}"#.to_string(),
                r#"[service.connection.protocol: Unsupported value: "UDP": supported values: "Direct", "HTTPConnect", "GRPC", service.connection[1]: Duplicate value: "cluster"]"#,
            ),
            (
                r#"{"name": "node", "connection": {"proxyProtocol": "Direct"}}"#.to_string(),
                r#"service.connection: Unsupported value: "node": supported values: "cluster", "controlplane", "etcd""#,
            ),
        ] {
            assert_eq!(outcome(&selections), expected, "{selections}");
        }
    }
}
