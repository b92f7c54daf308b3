//! Byte tunnels between a client and a backend that switched protocols.

use crate::stall::StallGuard;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The buffer size of each direction.
const BUFFER_BYTES: usize = 8 * 1024;

/// Copies bytes in both directions until one side ends; then, as in kube-apiserver, both are closed.
pub async fn join<A, B>(client: A, backend: B)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (client_reader, client_writer) = tokio::io::split(StallGuard::new(client));
    let (backend_reader, backend_writer) = tokio::io::split(StallGuard::new(backend));
    tokio::select! {
        () = copy(client_reader, backend_writer) => {}
        () = copy(backend_reader, client_writer) => {}
    }
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let size = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(size) => size,
        };
        let bytes = buffer.get(..size).unwrap_or_default();
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
    // The other side may have disconnected; errors are ignored.
    _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_flow_both_ways_until_one_side_ends() {
        let (mut client, near) = tokio::io::duplex(64);
        let (far, mut backend) = tokio::io::duplex(64);
        let tunnel = tokio::spawn(join(near, far));
        client.write_all(b"question").await.unwrap();
        let mut seen = [0; 8];
        backend.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"question");
        backend.write_all(b"answer").await.unwrap();
        drop(backend);
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"answer");
        tunnel.await.unwrap();
    }
}
