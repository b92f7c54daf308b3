//! The gRPC client of a plugin, for blocking callers.

use super::{Decrypted, KmsService, KmsVersion, Sealed, Status, message};
use pintle_grpc::{Endpoint, WaitForReady};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The client of the plugin at `endpoint` (`unix:///path` or `unix:///@name`), which may take `timeout` for a call.
pub fn connect(
    version: KmsVersion,
    endpoint: &str,
    timeout: Duration,
) -> Result<Arc<dyn KmsService>, String> {
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
    let client = Client { runtime: Some(runtime), endpoint, timeout };
    Ok(match version {
        KmsVersion::V1 => Arc::new(ClientV1 { client, version_checked: AtomicBool::new(false) }),
        KmsVersion::V2 => Arc::new(client),
    })
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
        self.call("/v2.KeyManagementService/Status", Vec::new(), WaitForReady::No)
            .and_then(|answer| message::status_response(&answer))
    }

    fn encrypt(&self, plain: &[u8]) -> Result<Sealed, String> {
        let request = message::encrypt_request(plain, &uid()?);
        self.call("/v2.KeyManagementService/Encrypt", request, WaitForReady::No)
            .and_then(|answer| message::encrypt_response(&answer))
    }

    fn decrypt(&self, sealed: &Sealed) -> Result<Decrypted, String> {
        let request = message::decrypt_request(sealed, &uid()?);
        self.call("/v2.KeyManagementService/Decrypt", request, WaitForReady::No)
            .and_then(|answer| message::decrypt_response(&answer))
    }
}

impl Client {
    /// Calls a method and waits for the answer.
    fn call(&self, method: &'static str, request: Vec<u8>, wait: WaitForReady) -> Result<Vec<u8>, String> {
        let Some(runtime) = &self.runtime else { return Err("the client is closed".to_string()) };
        let (sender, receiver) = sync_channel(1);
        let (endpoint, timeout) = (self.endpoint.clone(), self.timeout);
        runtime.spawn(async move {
            let answer = pintle_grpc::call(&endpoint, method, &request, timeout, wait).await;
            // If this fails, the caller has stopped waiting.
            _ = sender.send(answer.map_err(|error| error.to_string()));
        });
        receiver.recv().unwrap_or_else(|_| Err("the call was given up".to_string()))
    }
}

/// A client of the protocol of v1, whose version is checked before the first call.
struct ClientV1 {
    client: Client,
    version_checked: AtomicBool,
}

/// The only version of v1's protocol.
const V1_PROTOCOL: &str = "v1beta1";

impl KmsService for ClientV1 {
    fn status(&self) -> Result<Status, String> {
        Err("plugins of KMS v1 have no status".to_string())
    }

    fn encrypt(&self, plain: &[u8]) -> Result<Sealed, String> {
        self.check_version()?;
        let answer = self.call("/v1beta1.KeyManagementService/Encrypt", plain)?;
        Ok(Sealed { ciphertext: answer, ..Sealed::default() })
    }

    fn decrypt(&self, sealed: &Sealed) -> Result<Decrypted, String> {
        self.check_version()?;
        self.call("/v1beta1.KeyManagementService/Decrypt", &sealed.ciphertext)
    }
}

impl ClientV1 {
    fn check_version(&self) -> Result<(), String> {
        if self.version_checked.load(Ordering::Acquire) {
            return Ok(());
        }
        let answer = self.call("/v1beta1.KeyManagementService/Version", &[]);
        let version = answer.map_err(|why| format!("failed get version from remote KMS provider: {why}"))?;
        if version != V1_PROTOCOL.as_bytes() {
            let version = String::from_utf8_lossy(&version);
            return Err(format!(
                "KMS provider api version {version} is not supported, only {V1_PROTOCOL} is supported now"
            ));
        }
        self.version_checked.store(true, Ordering::Release);
        Ok(())
    }

    /// Calls a method with some bytes. All messages of v1 are alike: a request has the version and bytes, and the first
    /// field of a response is its result.
    fn call(&self, method: &'static str, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let request = message::v1_request(V1_PROTOCOL, bytes);
        self.client
            .call(method, request, WaitForReady::Yes)
            .and_then(|answer| message::decrypt_response(&answer))
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
