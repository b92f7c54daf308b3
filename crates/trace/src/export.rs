//! Sends traces to a collector in batches, over gRPC without TLS. Traces are dropped if the collector does not keep up.

use crate::otlp;
use crate::span::Trace;
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// The maximum number of queued traces and of traces in one batch, and the longest time that they wait for others.
const QUEUED_MAX: usize = 2048;
const BATCH_MAX: usize = 128;
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// The longest time to connect and send a batch.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// The settings of a tracing configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Host and port of the collector.
    pub endpoint: String,
    /// How many of a million requests are sampled if their clients do not decide.
    pub per_million: u32,
}

/// Queues traces and sends them to a collector.
pub struct Exporter {
    per_million: u32,
    queue: mpsc::Sender<Arc<Trace>>,
}

impl Exporter {
    /// Starts the task that sends; it ends when the exporter is dropped.
    pub fn start(settings: Settings, resource: Vec<(&'static str, String)>) -> Arc<Self> {
        let (queue, traces) = mpsc::channel(QUEUED_MAX);
        let exporter = Exporter { per_million: settings.per_million, queue };
        let sender = Sender { endpoint: settings.endpoint, resource, connection: None };
        tokio::spawn(sender.run(traces));
        Arc::new(exporter)
    }

    /// Whether the trace with this id is sampled: ids are random, so their last 63 bits decide.
    pub(crate) fn samples(&self, id: &[u8; 16]) -> bool {
        let [.., a, b, c, d, e, f, g, h] = *id;
        let number = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
        let bound = u128::from(self.per_million) * (1u128 << 63) / 1_000_000;
        u128::from(number) < bound
    }

    /// Queues a trace, or drops it if the queue is full.
    pub(crate) fn take(&self, trace: Arc<Trace>) {
        _ = self.queue.try_send(trace);
    }
}

struct Sender {
    endpoint: String,
    resource: Vec<(&'static str, String)>,
    connection: Option<SendRequest<Bytes>>,
}

impl Sender {
    async fn run(mut self, mut traces: mpsc::Receiver<Arc<Trace>>) {
        let mut batch = Vec::new();
        while traces.recv_many(&mut batch, BATCH_MAX).await > 0 {
            let others = async {
                while batch.len() < BATCH_MAX {
                    match traces.recv().await {
                        Some(trace) => batch.push(trace),
                        None => return,
                    }
                }
            };
            _ = tokio::time::timeout(BATCH_WAIT, others).await;
            let message = otlp::request(&self.resource, &batch);
            batch.clear();
            let sent = tokio::time::timeout(SEND_TIMEOUT, self.send(message)).await;
            let error = match sent {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(_) => "timeout".to_string(),
            };
            self.connection = None;
            tracing::warn!(error, endpoint = self.endpoint, "traces could not be exported");
        }
    }

    async fn send(&mut self, message: Vec<u8>) -> Result<(), String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        connection = connection.ready().await.map_err(|e| e.to_string())?;
        let request = http::Request::post(format!("http://{}{PATH}", self.endpoint))
            .version(http::Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(|e| e.to_string())?;
        let (response, mut body) = connection.send_request(request, false).map_err(|e| e.to_string())?;
        let mut frame = BytesMut::with_capacity(message.len() + 5);
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.len()).map_err(|e| e.to_string())?);
        frame.extend_from_slice(&message);
        body.send_data(frame.freeze(), true).map_err(|e| e.to_string())?;
        let response = response.await.map_err(|e| e.to_string())?;
        // The status of the call is in the trailers, or in the headers if the call failed at once.
        let (head, mut body) = response.into_parts();
        while let Some(piece) = body.data().await {
            let piece = piece.map_err(|e| e.to_string())?;
            _ = body.flow_control().release_capacity(piece.len());
        }
        let trailers = body.trailers().await.map_err(|e| e.to_string())?.unwrap_or_default();
        let status = trailers.get("grpc-status").or_else(|| head.headers.get("grpc-status"));
        match status.map(http::HeaderValue::as_bytes) {
            None | Some(b"0") => {
                self.connection = Some(connection);
                Ok(())
            }
            Some(code) => Err(format!("status {}", String::from_utf8_lossy(code))),
        }
    }

    async fn connect(&self) -> Result<SendRequest<Bytes>, String> {
        let stream = TcpStream::connect(&self.endpoint).await.map_err(|e| e.to_string())?;
        let (requests, connection) = h2::client::handshake(stream).await.map_err(|e| e.to_string())?;
        // Ends when the last handle of the connection is dropped.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to the collector of traces");
            }
        });
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_ratio_decides_by_the_id() {
        let id = |first: u8| {
            let mut id = [0; 16];
            id[8] = first;
            id
        };
        for (per_million, first, want) in
            [(1_000_000, 0xff, true), (0, 0, false), (500_000, 0x7f, true), (500_000, 0x81, false)]
        {
            let (queue, _traces) = mpsc::channel(1);
            assert_eq!(Exporter { per_million, queue }.samples(&id(first)), want, "{per_million} {first}");
        }
    }
}
