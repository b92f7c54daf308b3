//! A small gRPC server on a unix socket: unary calls, answered by a function. Tests build plugins with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

/// The answer to a call: a message, or the number of a code and a text.
pub type GrpcAnswer = Result<Vec<u8>, (u32, String)>;

type Answer = dyn Fn(&str, Vec<u8>) -> GrpcAnswer + Send + Sync;

/// A running server; dropping it ends it.
pub struct GrpcServer {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl GrpcServer {
    /// Listens at `path`. `answer` receives the method (`/package.Service/Method`) and the message.
    pub fn start(
        path: &Path,
        answer: impl Fn(&str, Vec<u8>) -> GrpcAnswer + Send + Sync + 'static,
    ) -> std::io::Result<GrpcServer> {
        _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path)?;
        let answer: Arc<Answer> = Arc::new(answer);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let answer = answer.clone();
                connections.spawn(serve(stream, answer));
            }
        });
        Ok(GrpcServer { path: path.to_path_buf(), task })
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        self.task.abort();
        _ = std::fs::remove_file(&self.path);
    }
}

async fn serve(stream: UnixStream, answer: Arc<Answer>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut calls = JoinSet::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let answer = answer.clone();
        // A client that disconnects during a call does not fail the test.
        calls.spawn(async move { _ = call(request, respond, &*answer).await });
    }
}

async fn call(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    answer: &Answer,
) -> Result<(), h2::Error> {
    let (head, mut body) = request.into_parts();
    let mut message = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        message.extend_from_slice(&part);
    }
    let answer = answer(head.uri.path(), message.get(5..).unwrap_or_default().to_vec());
    let mut response = http::Response::new(());
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/grpc"));
    let mut stream = respond.send_response(response, false)?;
    let mut trailers = http::HeaderMap::new();
    let (code, text) = match answer {
        Ok(message) => {
            let mut frame = Vec::with_capacity(message.len().saturating_add(5));
            frame.put_u8(0);
            frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
            frame.put_slice(&message);
            stream.send_data(frame.into(), false)?;
            (0, String::new())
        }
        Err(error) => error,
    };
    trailers.insert("grpc-status", http::HeaderValue::from(code));
    if let Ok(text) = http::HeaderValue::from_str(&text) {
        trailers.insert("grpc-message", text);
    }
    stream.send_trailers(trailers)
}
