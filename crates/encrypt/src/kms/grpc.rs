//! The gRPC client of a plugin, for blocking callers.

use super::{Decrypted, KmsService, Sealed, Status, message};
use pintle_grpc::{Endpoint, WaitForReady};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The client of the plugin at `endpoint` (`unix:///path` or `unix:///@name`), which may take `timeout` for a call.
pub fn connect(endpoint: &str, timeout: Duration) -> Result<Arc<dyn KmsService>, String> {
    let path = endpoint.strip_prefix("unix:").ok_or("only unix sockets are supported")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    // A separate runtime: callers block, and some of them are threads of another runtime.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("kms-client")
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    // `unix:///@name` is abstract, too.
    let endpoint = Endpoint::new(if path.starts_with("/@") { path.trim_start_matches('/') } else { path });
    Ok(Arc::new(Client { runtime: Some(runtime), endpoint, timeout }))
}

struct Client {
    /// `None` once the client is dropped.
    runtime: Option<Runtime>,
    endpoint: Endpoint,
    timeout: Duration,
}

impl Drop for Client {
    fn drop(&mut self) {
        // A runtime must not be dropped while blocking a thread of another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl KmsService for Client {
    fn status(&self) -> Result<Status, String> {
        self.call("Status", Vec::new()).and_then(|answer| message::status_response(&answer))
    }

    fn encrypt(&self, plain: &[u8]) -> Result<Sealed, String> {
        let request = message::encrypt_request(plain, &uid()?);
        self.call("Encrypt", request).and_then(|answer| message::encrypt_response(&answer))
    }

    fn decrypt(&self, sealed: &Sealed) -> Result<Decrypted, String> {
        let request = message::decrypt_request(sealed, &uid()?);
        self.call("Decrypt", request).and_then(|answer| message::decrypt_response(&answer))
    }
}

impl Client {
    /// Calls a method and waits for the answer.
    fn call(&self, method: &'static str, request: Vec<u8>) -> Result<Vec<u8>, String> {
        let Some(runtime) = &self.runtime else { return Err("the client is closed".to_string()) };
        let (sender, receiver) = sync_channel(1);
        let (endpoint, timeout) = (self.endpoint.clone(), self.timeout);
        runtime.spawn(async move {
            let method = format!("/v2.KeyManagementService/{method}");
            let answer = pintle_grpc::call(&endpoint, &method, &request, timeout, WaitForReady::No).await;
            // If this fails, the caller has stopped waiting.
            _ = sender.send(answer.map_err(|error| error.to_string()));
        });
        receiver.recv().unwrap_or_else(|_| Err("the call was given up".to_string()))
    }
}

/// A random UUID that identifies a call in a plugin's log.
fn uid() -> Result<String, String> {
    let mut bytes = [0u8; 16];
    crate::random(&mut bytes).map_err(|error| error.to_string())?;
    let number = u128::from_be_bytes(bytes);
    // Version 4, variant 1.
    let number = number & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{number:032x}");
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default().to_string();
    Ok([part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-"))
}
