//! Backends of a server under test: an HTTPS server whose answers a function computes (an extension API server, a pod)
//! and a small kubelet that has logs and runs the commands of `exec`, over SPDY/3.1.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::sync::Arc;

use base64::Engine as _;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A request as a backend received it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Received {
    /// All values of a header.
    pub fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// All values of a query parameter.
    pub fn parameter(&self, name: &str) -> Vec<String> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| decoded(value)).collect()
    }
}

/// Decodes a percent-encoded text.
fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                let text = String::from_utf8_lossy(&digits).into_owned();
                out.push(u8::from_str_radix(&text, 16).unwrap_or(b'?'));
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The answer of a backend.
pub struct Reply {
    /// Status code.
    pub code: u16,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
    /// How many times the body is sent, each time as a chunk; `None` sends it once, with its length.
    pub chunks: Option<usize>,
}

impl Reply {
    /// An answer of this type.
    pub fn new(code: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Reply {
        let headers = vec![("Content-Type", content_type.to_owned())];
        Reply { code, headers, body: body.into(), chunks: None }
    }
}

/// A TLS acceptor with a new self-signed certificate for these names, and the certificate as a `caBundle`.
pub(crate) fn self_signed(names: &[&str]) -> io::Result<(TlsAcceptor, String)> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate =
        CertificateParams::new(names).and_then(|p| p.self_signed(&key)).map_err(io::Error::other)?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], private)
        })
        .map_err(io::Error::other)?;
    let authority = base64::engine::general_purpose::STANDARD.encode(certificate.pem());
    Ok((TlsAcceptor::from(Arc::new(config)), authority))
}

/// Computes the answers of a backend.
pub type Answers = dyn Fn(&Received) -> Reply + Send + Sync;

/// A running backend; dropping it ends it.
pub struct Backend {
    port: u16,
    authority: String,
    task: JoinHandle<()>,
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Backend {
    /// Starts a backend on 127.0.0.1 whose certificate is for these names.
    pub async fn start(
        names: &[&str],
        answers: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> io::Result<Backend> {
        Backend::start_on(IpAddr::V4(Ipv4Addr::LOCALHOST), names, answers).await
    }

    /// Starts a backend on another address of this machine: kube-apiserver does not proxy to pods on the loopback address.
    pub async fn start_on(
        address: IpAddr,
        names: &[&str],
        answers: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> io::Result<Backend> {
        let (acceptor, authority) = self_signed(names)?;
        let listener = TcpListener::bind((address, 0)).await?;
        let port = listener.local_addr()?.port();
        let answers: Arc<Answers> = Arc::new(answers);
        let task = tokio::spawn(async move {
            // The connections end with this task.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answers) = (acceptor.clone(), answers.clone());
                connections.spawn(async move {
                    // Without it the answer is only slower.
                    _ = stream.set_nodelay(true);
                    if let Ok(stream) = acceptor.accept(stream).await {
                        // A client that disconnects does not fail the test.
                        _ = serve(stream, &*answers).await;
                    }
                });
            }
        });
        Ok(Backend { port, authority, task })
    }

    /// Starts a kubelet: `exec` runs commands, `attach` runs a shell, forwarded ports echo, anything else is answered with the text of the request.
    /// The command `pause` starts no process: its streams are idle until the client leaves.
    pub async fn kubelet() -> io::Result<Backend> {
        Backend::start(&["127.0.0.1"], |received| match received.target.split(['/', '?']).nth(1) {
            Some("containerLogs") if received.target.contains("/moved") => Reply {
                headers: vec![("Location", "https://169.254.169.254/".to_owned())],
                ..Reply::new(302, "text/plain", "")
            },
            _ => Reply::new(200, "text/plain", format!("{} {}\n", received.method, received.target)),
        })
        .await
    }

    /// The port on which the backend listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The backend's certificate as a `caBundle`.
    pub fn ca_bundle(&self) -> &str {
        &self.authority
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, answers: &Answers) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let Some(received) = read_request(&mut stream).await? else { return Ok(()) };
        if received.header("upgrade").first().is_some_and(|word| word.eq_ignore_ascii_case("spdy/3.1")) {
            return if received.target.starts_with("/portForward/") {
                forward_ports(stream).await
            } else {
                exec(stream, &received).await
            };
        }
        let reply = answers(&received);
        let length = match reply.chunks {
            Some(_) => "Transfer-Encoding: chunked".to_owned(),
            None => format!("Content-Length: {}", reply.body.len()),
        };
        let mut head = format!("HTTP/1.1 {} x\r\n{length}\r\n", reply.code);
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        match reply.chunks {
            // Write it in one piece: a second write would wait for the acknowledgement of the first.
            None => stream.write_all(&[head.as_bytes(), &reply.body].concat()).await?,
            Some(times) => {
                stream.write_all(head.as_bytes()).await?;
                let size = format!("{:x}\r\n", reply.body.len());
                let chunk = [size.as_bytes(), &reply.body, b"\r\n"].concat();
                for _ in 0..times {
                    stream.write_all(&chunk).await?;
                }
                stream.write_all(b"0\r\n\r\n").await?;
            }
        }
        stream.flush().await?;
    }
}

async fn read_request(stream: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<Received>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut received = Received {
        method: words.next().unwrap_or_default(),
        target: words.next().unwrap_or_default(),
        ..Received::default()
    };
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        received.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = received.header("content-length").first().and_then(|text| text.parse().ok()).unwrap_or(0);
    received.body.resize(length, 0);
    stream.read_exact(&mut received.body).await?;
    Ok(Some(received))
}

/// The output and the end of a command.
enum CommandOutput {
    Output(&'static str, Vec<u8>),
    End(&'static str),
    Exit(i32),
}

/// Accepts every forwarded connection and sends back what it receives.
async fn forward_ports(mut stream: BufReader<impl AsyncRead + AsyncWrite + Unpin>) -> io::Result<()> {
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await?;
    let mut packer = Compress::new(Compression::none(), true);
    let mut data = BTreeSet::new();
    // client-go opens two streams for a connection: one for errors, then one for data.
    let mut opened = 0_usize;
    while let Ok(first) = stream.read_u32().await {
        let second = stream.read_u32().await?;
        let mut body = vec![0; usize::try_from(second & 0x00ff_ffff).unwrap_or(0)];
        stream.read_exact(&mut body).await?;
        if first == SYN_STREAM {
            let number = body.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            stream.write_all(&syn_reply(number, &mut packer)?).await?;
            opened += 1;
            if opened.is_multiple_of(2) {
                data.insert(number);
            }
        } else if data.contains(&first) {
            let is_last = second >> 24 & 1 == 1;
            stream.write_all(&data_frame(first, &body, is_last)).await?;
            if is_last {
                // There was no error.
                stream.write_all(&data_frame(first.saturating_sub(2), &[], true)).await?;
            }
        }
        stream.flush().await?;
    }
    Ok(())
}

/// Runs a command over the streams that the client opens.
async fn exec(stream: BufReader<impl AsyncRead + AsyncWrite + Unpin>, received: &Received) -> io::Result<()> {
    let chosen = received.header("x-stream-protocol-version");
    let chosen = chosen.first().copied().unwrap_or("v4.channel.k8s.io").to_owned();
    let mut stream = stream;
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {chosen}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await?;
    let asks = |name: &str| received.parameter(name).first().is_some_and(|value| value == "1");
    let wanted = 1 + usize::from(asks("input")) + usize::from(asks("output")) + usize::from(asks("error"));
    let mut unpacker = Decompress::new(true);
    let mut packer = Compress::new(Compression::none(), true);
    let mut streams: BTreeMap<String, u32> = BTreeMap::new();
    let (to_input, input) = std::sync::mpsc::channel::<Vec<u8>>();
    let (output, mut outputs) = mpsc::channel(16);
    let (mut reader, mut writer) = tokio::io::split(stream);
    while streams.len() < wanted {
        let Some(Frame::Open(number, name)) = read_frame(&mut reader, &mut unpacker).await? else {
            return Ok(());
        };
        streams.insert(name, number);
        writer.write_all(&syn_reply(number, &mut packer)?).await?;
        writer.flush().await?;
    }
    // This kubelet runs nothing in a container until a client attaches to it.
    let command = if received.target.starts_with("/attach/") {
        vec!["sh".to_owned()]
    } else {
        received.parameter("command")
    };
    if command.first().is_some_and(|word| word == "pause") {
        while read_frame(&mut reader, &mut unpacker).await?.is_some() {}
        return Ok(());
    }
    start(command, input, output);
    let stdin = streams.get("stdin").copied();
    let reading = async move {
        let mut to_input = Some(to_input);
        while let Ok(Some(frame)) = read_frame(&mut reader, &mut unpacker).await {
            if let Frame::Data(number, bytes, is_last) = frame
                && Some(number) == stdin
            {
                if let Some(input) = to_input.as_ref().filter(|_| !bytes.is_empty()) {
                    _ = input.send(bytes);
                }
                if is_last {
                    to_input = None;
                }
            }
        }
    };
    let writing = async move {
        while let Some(output) = outputs.recv().await {
            let (name, bytes, is_last) = match output {
                CommandOutput::Output(name, bytes) => (name, bytes, false),
                CommandOutput::End(name) => (name, Vec::new(), true),
                CommandOutput::Exit(0) => ("error", br#"{"metadata":{},"status":"Success"}"#.to_vec(), true),
                CommandOutput::Exit(code) => {
                    let status = format!(
                        r#"{{"metadata":{{}},"status":"Failure","reason":"NonZeroExitCode","details":{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}}}"#
                    );
                    ("error", status.into_bytes(), true)
                }
            };
            let Some(number) = streams.get(name) else { continue };
            writer.write_all(&data_frame(*number, &bytes, is_last)).await?;
            writer.flush().await?;
        }
        writer.shutdown().await
    };
    tokio::select! {
        written = writing => written,
        () = async { reading.await; std::future::pending::<()>().await } => Ok(()),
    }
}

/// Starts a command with threads for its three streams.
fn start(
    command: Vec<String>,
    input: std::sync::mpsc::Receiver<Vec<u8>>,
    output: mpsc::Sender<CommandOutput>,
) {
    std::thread::spawn(move || {
        let mut words = command.into_iter();
        let child = Command::new(words.next().unwrap_or_default())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            _ = output.blocking_send(CommandOutput::Exit(127));
            return;
        };
        let stdin = child.stdin.take();
        std::thread::spawn(move || {
            let Some(mut stdin) = stdin else { return };
            while let Ok(bytes) = input.recv() {
                if stdin.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        let copies = [
            child.stdout.take().map(|out| copy("stdout", out, output.clone())),
            child.stderr.take().map(|err| copy("stderr", err, output.clone())),
        ];
        for copy in copies.into_iter().flatten() {
            _ = copy.join();
        }
        let code = child.wait().ok().and_then(|status| status.code()).unwrap_or(-1);
        _ = output.blocking_send(CommandOutput::Exit(code));
    });
}

fn copy(
    name: &'static str,
    mut from: impl Read + Send + 'static,
    output: mpsc::Sender<CommandOutput>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(size) = from.read(&mut buffer) {
            let bytes = buffer.get(..size).unwrap_or_default().to_vec();
            if bytes.is_empty() || output.blocking_send(CommandOutput::Output(name, bytes)).is_err() {
                break;
            }
        }
        _ = output.blocking_send(CommandOutput::End(name));
    })
}

fn data_frame(stream: u32, bytes: &[u8], is_last: bool) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(0) | u32::from(is_last) << 24;
    [&stream.to_be_bytes()[..], &length.to_be_bytes(), bytes].concat()
}

/// The frame that accepts a stream, without headers.
fn syn_reply(stream: u32, packer: &mut Compress) -> io::Result<Vec<u8>> {
    let mut headers = Vec::with_capacity(64);
    packer.compress_vec(&[0; 4], &mut headers, FlushCompress::Sync).map_err(io::Error::other)?;
    let length = u32::try_from(headers.len()).unwrap_or(0).saturating_add(4);
    let words = [0x8003_0002, length, stream].map(u32::to_be_bytes);
    Ok([&words.concat()[..], &headers].concat())
}

/// The first word of a frame that opens a stream.
const SYN_STREAM: u32 = 0x8003_0001;

/// A frame as far as a kubelet needs it.
enum Frame {
    Open(u32, String),
    Data(u32, Vec<u8>, bool),
    Other,
}

async fn read_frame(
    reader: &mut (impl AsyncRead + Unpin),
    unpacker: &mut Decompress,
) -> io::Result<Option<Frame>> {
    let Ok(first) = reader.read_u32().await else { return Ok(None) };
    let second = reader.read_u32().await?;
    let mut body = vec![0; usize::try_from(second & 0x00ff_ffff).unwrap_or(0)];
    reader.read_exact(&mut body).await?;
    if first & 0x8000_0000 == 0 {
        return Ok(Some(Frame::Data(first, body, second >> 24 & 1 == 1)));
    }
    if first & 0xffff != 1 {
        return Ok(Some(Frame::Other));
    }
    let number = body.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let mut headers = Vec::with_capacity(4096);
    unpacker
        .decompress_vec(body.get(10..).unwrap_or_default(), &mut headers, FlushDecompress::Sync)
        .map_err(io::Error::other)?;
    let text = String::from_utf8_lossy(&headers).into_owned();
    let names = ["error", "stdin", "stdout", "stderr", "resize"];
    let name = names.into_iter().find(|name| text.ends_with(name)).unwrap_or("");
    Ok(Some(Frame::Open(number, name.to_owned())))
}
