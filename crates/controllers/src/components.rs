//! The health of the control plane's components for `componentstatuses`: scheduler and controller manager on this
//! machine, and the store. Each is probed when its status is read; nothing is cached.

use http::header::{ACCEPT, CONNECTION, HOST, HeaderValue, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use pintle_engine::Engine;
use pintle_proxy::transport::BackendBody;
use pintle_proxy::{Address, Dialer, TlsOptions, Transport, Trust, empty_body};
use pintle_value::Value;
use std::sync::Arc;
use std::time::Duration;

/// The time-out of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
/// The size limit of an answer.
const ANSWER_BYTES_MAX: usize = 10 * 1024;
/// The components that are probed with HTTPS at 127.0.0.1, without verifying their certificates, and their ports.
const HTTPS_COMPONENTS: [(&str, u16); 2] = [("scheduler", 10259), ("controller-manager", 10257)];
/// The store, embedded or etcd.
const STORE: &str = "etcd-0";

/// Probes the health of components.
pub struct Components {
    engine: Arc<Engine>,
    /// The TLS options, or the error with which they could not be created.
    tls: Result<TlsOptions, String>,
}

/// The answer of a component.
#[derive(Debug, PartialEq, Eq)]
struct Health {
    is_healthy: bool,
    message: String,
    error: String,
}

impl Components {
    /// Creates the probes of the components around `engine`.
    pub fn new(engine: Arc<Engine>) -> Self {
        Components { engine, tls: TlsOptions::new(Trust::Anyone, None, None) }
    }

    /// The status of one component; `None` if there is no component with this name.
    pub async fn get(&self, name: &str) -> Option<Value> {
        let health = match HTTPS_COMPONENTS.iter().find(|(component, _)| *component == name) {
            Some((_, port)) => self.probe_https(*port).await,
            None if name == STORE => self.probe_store().await,
            None => return None,
        };
        Some(component_status(name, health))
    }

    /// The status of all components, which are probed concurrently.
    pub async fn list(&self) -> Vec<Value> {
        let [(scheduler, scheduler_port), (manager, manager_port)] = HTTPS_COMPONENTS;
        let (first, second, third) = tokio::join!(
            self.probe_https(scheduler_port),
            self.probe_https(manager_port),
            self.probe_store()
        );
        vec![
            component_status(scheduler, first),
            component_status(manager, second),
            component_status(STORE, third),
        ]
    }

    async fn probe_store(&self) -> Health {
        let probed = match self.engine.storage().store().health() {
            Ok(()) => self.engine.storage().store().probe(PROBE_TIMEOUT).await,
            Err(fault) => Err(fault.to_string()),
        };
        match probed {
            Ok(()) => Health { is_healthy: true, message: "ok".into(), error: String::new() },
            Err(error) => Health { is_healthy: false, message: String::new(), error },
        }
    }

    async fn probe_https(&self, port: u16) -> Health {
        let address = Address { tls: true, host: "127.0.0.1".into(), port, checked: Vec::new() };
        let url = format!("https://{}/healthz", address.authority());
        let late = || {
            Err(format!(
                "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            ))
        };
        let answer = tokio::time::timeout(PROBE_TIMEOUT, self.probe(&address, &url)).await;
        // kube-apiserver also reports the error of a failed probe as the message.
        match answer.unwrap_or_else(|_| late()) {
            Ok(message) => Health { is_healthy: true, message, error: String::new() },
            Err(message) => Health { is_healthy: false, message, error: String::new() },
        }
    }

    /// The text of a healthy answer, or the error.
    async fn probe(&self, address: &Address, url: &str) -> Result<String, String> {
        // A new transport, because connections are not reused.
        let transport = Transport::new(Dialer::Direct, Some(self.tls.clone()?));
        let mut request = Request::new(empty_body());
        *request.uri_mut() = Uri::from_static("/healthz");
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_str(&address.authority()).map_err(|e| e.to_string())?);
        headers.insert(USER_AGENT, HeaderValue::from_static("kube-probe/1.36"));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let sent = transport.send(address, request).await;
        let answer = sent.map_err(|why| format!("Get \"{url}\": {why}"))?;
        let code = answer.status().as_u16();
        if !(200..400).contains(&code) {
            return Err(format!("HTTP probe failed with statuscode: {code}"));
        }
        Ok(read_beginning(answer.into_body()).await)
    }
}

/// The beginning of a body, for the message.
async fn read_beginning(body: BackendBody) -> String {
    let mut body = Limited::new(body, ANSWER_BYTES_MAX);
    let mut text = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn component_status(name: &str, health: Health) -> Value {
    let mut condition = Value::object();
    condition.set_at(&["type"], "Healthy".into());
    condition.set_at(&["status"], if health.is_healthy { "True" } else { "False" }.into());
    for (key, text) in [("message", health.message), ("error", health.error)] {
        if !text.is_empty() {
            condition.set_at(&[key], text.into());
        }
    }
    let mut tree = Value::object();
    tree.set_at(&["kind"], "ComponentStatus".into());
    tree.set_at(&["apiVersion"], "v1".into());
    tree.set_at(&["metadata", "name"], name.into());
    tree.set_at(&["conditions"], Value::Array(vec![condition]));
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_one_condition() {
        let health = |is_healthy, message: &str, error: &str| Health {
            is_healthy,
            message: message.into(),
            error: error.into(),
        };
        let condition = |health| {
            let status = component_status("x", health);
            assert_eq!(status.str_at(&["metadata", "name"]), "x");
            let condition = status.items_at(&["conditions"]).first().cloned().unwrap_or_default();
            ["type", "status", "message", "error"].map(|key| condition.str_at(&[key]).to_string())
        };
        assert_eq!(condition(health(true, "ok", "")), ["Healthy", "True", "ok", ""]);
        assert_eq!(condition(health(false, "", "no")), ["Healthy", "False", "", "no"]);
    }
}
