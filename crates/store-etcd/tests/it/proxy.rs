//! A TCP proxy in front of etcd whose connections can be cut and whose answers can be late.

use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    /// Answers are delayed by this time.
    Late(Duration),
    /// Existing connections are closed, and new ones are closed at once.
    Cut,
}

pub(crate) struct Proxy {
    pub(crate) endpoint: String,
    mode: Arc<watch::Sender<Mode>>,
}

impl Proxy {
    pub(crate) async fn start(backend: &str) -> Proxy {
        let backend = backend.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let mode = Arc::new(watch::Sender::new(Mode::Late(Duration::ZERO)));
        let modes = mode.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, backend.clone(), modes.subscribe()));
            }
        });
        Proxy { endpoint, mode }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn carry(mut client: TcpStream, backend: String, mut modes: watch::Receiver<Mode>) {
    if *modes.borrow() == Mode::Cut {
        return;
    }
    let Ok(mut server) = TcpStream::connect(&backend).await else { return };
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let late = modes.clone();
    let answers = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            let Mode::Late(delay) = *late.borrow() else { return };
            tokio::time::sleep(delay).await;
            if to_client.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        () = answers => {}
        _ = modes.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}
