//! Translates between WebSocket clients and kubelets that use SPDY: commands of `v5.channel.k8s.io`, and port
//! forwarding in tunnels.

use super::{Streamed, Streams, address_of, parameters};
use crate::api::ApiResponse;
use crate::{passthrough, respond, websocket};
use http::Method;
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use pintle_engine::Location;
use pintle_meta::Status;
use pintle_meta::options::Query;
use pintle_metrics::families;
use pintle_proxy::translate::{self, Ended, StreamOptions};
use pintle_proxy::{Forward, ForwardError, ProxyBody, Transport, Upgrade, escape_path};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

const STREAM_CLOSE: &str = "v5.channel.k8s.io";
const TUNNEL_PREFIX: &str = "SPDY/3.1+";
const TUNNEL_SUFFIX: &str = ".k8s.io";
/// The subprotocols offered to the kubelet, the preferred one first.
const STREAM_PROTOCOLS: [&str; 5] =
    ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// How much of a kubelet's error text is returned.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// The translation that a WebSocket client needs.
pub(super) enum Translation {
    /// The client's messages become the streams of a remote command.
    Command,
    /// The client's messages contain SPDY frames; these subprotocols are offered to the kubelet.
    Tunnel(Vec<String>),
}

impl Translation {
    /// The translation that a request needs; `None` if the kubelet handles it itself.
    pub(super) fn of(headers: &HeaderMap, subresource: &str) -> Option<Self> {
        if !websocket::asked_for(headers) {
            return None;
        }
        let protocols = websocket::protocols(headers);
        if subresource != "portforward" {
            return protocols.iter().any(|p| p == STREAM_CLOSE).then_some(Translation::Command);
        }
        let tunnels = protocols.iter().filter_map(|protocol| {
            protocol.strip_prefix(TUNNEL_PREFIX).filter(|rest| rest.ends_with(TUNNEL_SUFFIX))
        });
        let tunnels: Vec<String> = tunnels.map(str::to_string).collect();
        (!tunnels.is_empty()).then_some(Translation::Tunnel(tunnels))
    }
}

impl Streamed<'_> {
    /// Runs a remote command: the client's connection is upgraded first, and all errors go to its error channel.
    pub(super) fn command(&self, streams: &Streams, location: &Location) -> ApiResponse {
        let accepted = websocket::accept(&self.parts.headers, STREAM_CLOSE);
        let Some(upgrade) = self.parts.extensions.get::<OnUpgrade>().filter(|_| accepted.code == 101) else {
            families::STREAM_TRANSLATIONS.inc(&["400"]);
            return accepted;
        };
        let upgrade = upgrade.clone();
        let query = Query(self.query);
        let wants = |key: &str| query.switch(key) == Some(true);
        let options = StreamOptions {
            stdin: wants("stdin"),
            stdout: wants("stdout"),
            stderr: wants("stderr"),
            tty: wants("tty"),
        };
        let kubelet = Kubelet::new(self, streams, location, &STREAM_PROTOCOLS);
        // This task ends with the client or the command.
        tokio::spawn(async move {
            if let Ok(client) = upgrade.await {
                run(client, kubelet, options).await;
            }
        });
        accepted
    }

    /// Forwards ports: the kubelet's connection is upgraded first, because it chooses the subprotocol.
    pub(super) async fn tunnel(
        &self,
        streams: &Streams,
        location: &Location,
        protocols: &[String],
    ) -> Result<ApiResponse, Status> {
        let offered: Vec<&str> = protocols.iter().map(String::as_str).collect();
        let kubelet = Kubelet::new(self, streams, location, &offered);
        let (head, backend) = match kubelet.forward.upgrade(&kubelet.transport).await {
            Ok(Upgrade::Switched(head, backend)) => (head, backend),
            Ok(Upgrade::Refused(response)) => {
                families::STREAM_TUNNELS.inc(&[response.status().as_str()]);
                return Ok(passthrough::answer(response, None));
            }
            Err(error) => return Err(super::refusal(error)),
        };
        let is_spdy = head
            .headers()
            .get(UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"spdy/3.1"));
        if !is_spdy {
            families::STREAM_TUNNELS.inc(&["500"]);
            return Ok(respond::text(500, "unable to upgrade: missing upgrade headers in response"));
        }
        let chosen = head.headers().get(PROTOCOL_VERSION).and_then(|value| value.to_str().ok()).unwrap_or("");
        let protocol = if chosen.is_empty() { String::new() } else { format!("{TUNNEL_PREFIX}{chosen}") };
        let accepted = websocket::accept(&self.parts.headers, &protocol);
        let Some(upgrade) = self.parts.extensions.get::<OnUpgrade>().filter(|_| accepted.code == 101) else {
            families::STREAM_TUNNELS.inc(&["500"]);
            return Ok(accepted);
        };
        families::STREAM_TUNNELS.inc(&["101"]);
        let upgrade = upgrade.clone();
        // This task ends when either side closes.
        tokio::spawn(async move {
            if let Ok(client) = upgrade.await {
                translate::tunnel(TokioIo::new(client), *backend).await;
            }
        });
        Ok(accepted)
    }
}

/// A SPDY request to a kubelet.
struct Kubelet {
    forward: Forward,
    transport: Arc<Transport>,
    /// The kubelet's URL, which error messages contain.
    url: String,
}

impl Kubelet {
    fn new(streamed: &Streamed<'_>, streams: &Streams, location: &Location, protocols: &[&str]) -> Self {
        let to = address_of(location);
        let query = parameters(location);
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        for protocol in protocols.iter().filter_map(|protocol| HeaderValue::from_str(protocol).ok()) {
            headers.append(PROTOCOL_VERSION, protocol);
        }
        let mut url = format!("{}://{}{}", to.scheme(), to.authority(), escape_path(&location.path));
        if !query.is_empty() {
            url = format!("{url}?{query}");
        }
        let forward = Forward {
            method: Method::POST,
            headers,
            host: to.authority(),
            to,
            path: location.path.clone(),
            query,
            client: Some(streamed.client),
            links: None,
            rejects_redirects: true,
        };
        Kubelet { forward, transport: streams.transport_to(location.backend), url }
    }

    /// Connects and returns the connection and the subprotocol that the kubelet chose. The error has client-go's text.
    async fn connect(self) -> Result<(pintle_proxy::Upgraded, String), String> {
        let sending = |why: &str| format!("error sending request: Post \"{}\": {why}", self.url);
        match self.forward.upgrade(&self.transport).await {
            Ok(Upgrade::Switched(head, backend)) => {
                let chosen = head.headers().get(PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
                Ok((*backend, chosen.unwrap_or("").trim().to_string()))
            }
            Ok(Upgrade::Refused(response)) => {
                let message = read_text(response.into_body()).await;
                Err(format!("unable to upgrade connection: {}", message.trim()))
            }
            Err(ForwardError::Upgrade(why)) => match why.strip_prefix("error dialing backend: ") {
                Some(why) => Err(sending(why)),
                None => Err(sending(&why)),
            },
            Err(error) => Err(sending(&error.to_string())),
        }
    }
}

/// The beginning of a body as text.
async fn read_text(mut body: ProxyBody) -> String {
    let mut all = Vec::new();
    while all.len() < REFUSAL_BYTES_MAX {
        match poll_fn(|cx| Pin::new(&mut body).poll_chunk(cx)).await {
            Some(Ok(piece)) => all.extend_from_slice(&piece),
            _ => break,
        }
    }
    all.truncate(REFUSAL_BYTES_MAX);
    String::from_utf8_lossy(&all).into_owned()
}

/// Runs a command to its end.
async fn run(client: Upgraded, kubelet: Kubelet, options: StreamOptions) {
    let mut client = TokioIo::new(client);
    if translate::send_greeting(&mut client, options).await.is_err() {
        return;
    }
    match kubelet.connect().await {
        Err(why) => {
            let ended = Ended::Failed(why);
            count(Some(&ended));
            translate::finish(&mut client, Some(&status(&ended))).await;
        }
        Ok((backend, protocol)) => {
            let (mut writer, ended) = translate::run(client, backend, options, &protocol).await;
            count(ended.as_ref());
            translate::finish(&mut writer, ended.as_ref().map(status).as_deref()).await;
        }
    }
}

/// Counts a command. One that fails in its container was translated well, too.
fn count(ended: Option<&Ended>) {
    let code = if matches!(ended, Some(Ended::Failed(_))) { "500" } else { "200" };
    families::STREAM_TRANSLATIONS.inc(&[code]);
}

/// The result of a command for the client: a `Status` without kind and version.
fn status(ended: &Ended) -> Vec<u8> {
    match ended {
        Ended::Success => br#"{"metadata":{},"status":"Success"}"#.to_vec(),
        Ended::Exit(code) => format!(
            r#"{{"metadata":{{}},"status":"Failure","message":"command terminated with non-zero exit code: command terminated with exit code {code}","reason":"NonZeroExitCode","details":{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}}}"#
        )
        .into_bytes(),
        Ended::Failed(why) => {
            let json = respond::status_json(&Status::internal(why), false);
            let rest = json.strip_prefix(br#"{"kind":"Status","apiVersion":"v1","#).unwrap_or(&json);
            let mut out = if rest.len() < json.len() { vec![b'{'] } else { Vec::new() };
            out.extend_from_slice(rest.trim_ascii_end());
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_end_of_a_command_becomes_a_status() {
        let text = |ended| String::from_utf8(status(&ended)).unwrap();
        expect![[r#"{"metadata":{},"status":"Failure","message":"Internal error occurred: a\u0026b","reason":"InternalError","details":{"causes":[{"message":"a\u0026b"}]},"code":500}"#]]
            .assert_eq(&text(Ended::Failed("a&b".into())));
        assert!(text(Ended::Exit(3)).contains(r#"{"reason":"ExitCode","message":"3"}"#));
    }
}
