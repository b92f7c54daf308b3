//! The audit webhook backend: sends events to the server of a kubeconfig, with retries and back-off.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use pintle_audit::Event;
use pintle_audit::sink::{Backend, Pending};
use pintle_proxy::{Address, Dialer, Identity, TlsOptions, Transport, Trust, read_whole};
use pintle_value::{Value, base64};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a batch is sent before it is dropped, and the growth of the back-off.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE_FACTOR: f64 = 1.5;
/// The time-out of one attempt, and the limit of an answer in bytes.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Sends events.
pub(super) struct Webhook {
    transport: Transport,
    to: Address,
    path: String,
    authorization: Option<String>,
    pause: Duration,
}

impl Webhook {
    /// Reads the kubeconfig.
    pub(super) fn load(file: &Path, pause: Duration, dialer: Dialer) -> Result<Self, String> {
        let path_text = file.display();
        let refused = |why: String| format!("initializing audit webhook: {why}");
        let tree = pintle_webhook::read_kubeconfig(file).map_err(refused)?;
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        pintle_webhook::validate_kubeconfig(&tree, &folder).map_err(refused)?;
        let context = named(&tree, "contexts", tree.str_at(&["current-context"]), "context");
        let cluster = named(&tree, "clusters", context.str_at(&["cluster"]), "cluster");
        let user = named(&tree, "users", context.str_at(&["user"]), "user");
        let document = |node: &Value, key: &str| document(node, key, &folder);
        let authority = document(&cluster, "certificate-authority")?;
        let insecure = cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool) == Some(true);
        let trust = match &authority {
            _ if insecure => Trust::Anyone,
            Some(bundle) => Trust::Bundle(bundle),
            None => Trust::Bundle(&[]),
        };
        let name = Some(cluster.str_at(&["tls-server-name"]).to_string()).filter(|name| !name.is_empty());
        let identity = match (document(&user, "client-certificate")?, document(&user, "client-key")?) {
            (Some(certificate), Some(key)) => Some(Identity::from_pem(&certificate, &key)?),
            _ => None,
        };
        let tls = TlsOptions::new(trust, name, identity)?;
        let (to, path) = address_of(cluster.str_at(&["server"]))
            .ok_or_else(|| format!("initializing audit webhook: {path_text}: no server"))?;
        let token = match user.str_at(&["token"]) {
            "" => document(&user, "tokenFile")?.map(|t| String::from_utf8_lossy(&t).trim().to_string()),
            token => Some(token.to_string()),
        };
        let basic = user.str_at(&["username"]);
        let authorization = match token {
            Some(token) => Some(format!("Bearer {token}")),
            None if basic.is_empty() => None,
            None => {
                let pair = format!("{basic}:{}", user.str_at(&["password"]));
                Some(format!("Basic {}", base64::encode(pair.as_bytes())))
            }
        };
        Ok(Webhook { transport: Transport::new(dialer, Some(tls)), to, path, authorization, pause })
    }

    async fn post_events(&self, body: Bytes) -> Result<(), String> {
        let mut request = Request::post(&self.path)
            .header(header::HOST, self.to.authority())
            .header(header::USER_AGENT, "kube-apiserver")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
        let request = request.body(body).map_err(|e| e.to_string())?;
        let answer = self.transport.send(&self.to, request).await.map_err(|e| e.to_string())?;
        let code = answer.status();
        // Read the answer so that the connection can be reused.
        _ = read_whole(answer.into_body(), ANSWER_BYTES_MAX).await;
        if code.is_success() { Ok(()) } else { Err(format!("the server answered {}", code.as_u16())) }
    }
}

impl Backend for Webhook {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn write<'a>(&'a self, events: &'a [Event]) -> Pending<'a, Result<(), String>> {
        Box::pin(async move {
            let mut list =
                br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#.to_vec();
            for (at, event) in events.iter().enumerate() {
                if at > 0 {
                    list.push(b',');
                }
                event.write(false, &mut list);
            }
            list.extend_from_slice(b"]}\n");
            let body = Bytes::from(list);
            let mut pause = self.pause;
            let mut attempt = 1;
            loop {
                let sent = tokio::time::timeout(ATTEMPT_TIMEOUT, self.post_events(body.clone())).await;
                match sent.unwrap_or_else(|_| Err("timeout".into())) {
                    Ok(()) => return Ok(()),
                    Err(why) if attempt == ATTEMPTS_MAX => return Err(why),
                    Err(_) => {}
                }
                tokio::time::sleep(pause).await;
                pause = pause.mul_f64(PAUSE_FACTOR);
                attempt = attempt.saturating_add(1);
            }
        })
    }
}

/// The entry of this name in one of the lists of a kubeconfig.
fn named(tree: &Value, list: &str, name: &str, key: &str) -> Value {
    let found = tree.items_at(&[list]).iter().find(|item| item.str_at(&["name"]) == name);
    found.and_then(|item| item.get(key)).cloned().unwrap_or_default()
}

/// A document that a kubeconfig embeds in base64 or refers to as a file.
fn document(node: &Value, key: &str, folder: &Path) -> Result<Option<Vec<u8>>, String> {
    let data = node.str_at(&[&format!("{key}-data")]);
    if !data.is_empty() {
        return base64::decode(data).map(Some).map_err(|e| format!("{key}-data: {e}"));
    }
    match node.str_at(&[key]) {
        "" => Ok(None),
        file => {
            let file: PathBuf = folder.join(file);
            std::fs::read(&file).map(Some).map_err(|e| format!("{}: {e}", file.display()))
        }
    }
}

fn address_of(server: &str) -> Option<(Address, String)> {
    let (scheme, rest) = server.split_once("://").unwrap_or(("http", server));
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = (rest.get(..at)?, rest.get(at..).unwrap_or("/"));
    let tls = scheme == "https";
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (authority, if tls { 443 } else { 80 }),
    };
    if host.is_empty() {
        return None;
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
    let path = if path.is_empty() { "/" } else { path };
    Some((Address { tls, host, port, checked: Vec::new() }, format!("{path}?timeout=30s")))
}
