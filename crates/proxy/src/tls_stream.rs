//! `TlsStream`: the client's side of a TLS connection, with buffers of its own around rustls' unbuffered interface. rustls'
//! buffered connection reads 4 KiB at a time and moves each byte twice more before it is decrypted.
//!
//! A stream has buffers only while records are in them: an idle connection has none.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{ClientConfig, Error};
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// The number of bytes read at once: at first, and while the other side sends more than that. The second number is more
/// than the longest record.
const READ_BYTES_MIN: usize = 4 * 1024;
const READ_BYTES_MAX: usize = 64 * 1024;
/// How many bytes are encrypted at once.
const WRITE_BYTES_MAX: usize = 64 * 1024;
/// How many bytes several short pieces may have to share a record.
const RECORD_BYTES_MAX: usize = 16 * 1024;
/// More than a record has beside its content.
const RECORD_OVERHEAD_BYTES: usize = 64;
/// How many records are sent at most when a handshake fails: there is one alert.
const ALERTS_MAX: usize = 4;

/// A TLS connection to a server.
pub(crate) struct TlsStream<S> {
    stream: S,
    session: UnbufferedClientConnection,
    /// Records as they were received, and how many of their bytes were processed.
    incoming: Vec<u8>,
    processed: usize,
    /// The size of the next read.
    read_bytes: usize,
    /// Decrypted bytes that the reader has not taken, and how many of them it has.
    decrypted: Vec<u8>,
    taken: usize,
    /// Records that are to be written, and how many of their bytes were.
    outgoing: Vec<u8>,
    written: usize,
    /// Whether the other side has announced the end of its data.
    is_closed: bool,
    /// Whether we have.
    is_shut_down: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    /// Performs the handshake. The error comes with the first bytes of the record that was refused.
    pub(crate) async fn connect(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        stream: S,
    ) -> Result<Self, (io::Error, Vec<u8>)> {
        let session =
            UnbufferedClientConnection::new(config, name).map_err(|error| (invalid(error), Vec::new()))?;
        let mut this = TlsStream {
            stream,
            session,
            incoming: Vec::new(),
            processed: 0,
            read_bytes: READ_BYTES_MIN,
            decrypted: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            written: 0,
            is_closed: false,
            is_shut_down: false,
        };
        match this.handshake().await {
            Ok(()) => Ok(this),
            Err(error) => Err((error, this.incoming)),
        }
    }

    async fn handshake(&mut self) -> io::Result<()> {
        loop {
            let stepped = self.step(None, |_| Ok(()));
            if stepped.is_err() {
                self.alert();
            }
            // After an error, that of the handshake is reported, not that of the alert.
            let written = poll_fn(|cx| self.poll_write_out(cx)).await;
            if stepped?.is_some() {
                return written;
            }
            written?;
            if poll_fn(|cx| self.poll_receive(cx)).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads more records. Returns the number of bytes.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let TlsStream { stream, incoming, read_bytes, processed, .. } = self;
        incoming.drain(..std::mem::take(processed).min(incoming.len()));
        if incoming.len() == incoming.capacity() {
            *read_bytes = if incoming.is_empty() { *read_bytes } else { READ_BYTES_MAX };
        }
        if incoming.len() >= READ_BYTES_MAX {
            return Poll::Ready(Err(io::Error::other("tls: a record is too long")));
        }
        incoming.reserve_exact(read_bytes.saturating_sub(incoming.len()));
        let room = incoming.capacity().saturating_sub(incoming.len());
        let read = pin!(stream.read_buf(incoming)).poll(cx);
        match &read {
            Poll::Ready(Ok(size)) if *size == room => *read_bytes = READ_BYTES_MAX,
            Poll::Pending if incoming.is_empty() => (*incoming, *read_bytes) = (Vec::new(), READ_BYTES_MIN),
            _ => {}
        }
        read
    }

    /// Writes all records.
    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(left) = self.outgoing.get(self.written..).filter(|left| !left.is_empty()) {
            let size = ready!(Pin::new(&mut self.stream).poll_write(cx, left))?;
            if size == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            self.written = self.written.saturating_add(size);
        }
        (self.outgoing, self.written) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    /// Encrypts bytes and writes them as far as the stream takes them.
    fn poll_encrypt(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_write_out(cx))?;
        let bytes = bytes.get(..WRITE_BYTES_MAX).unwrap_or(bytes);
        self.step(None, |mut writing| writing.encrypt(bytes))?.ok_or(ErrorKind::BrokenPipe)?;
        if let Poll::Ready(Err(error)) = self.poll_write_out(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(bytes.len()))
    }
}

impl<S> TlsStream<S> {
    /// Lets rustls process the received records. With a `reader` it stops after the first bytes for it, which are decrypted
    /// into its buffer as far as there is room. Without one, they are retained. As soon as all records were processed and
    /// application data can be sent, `write` may send some, and its result is returned. `None` means that rustls needs more
    /// records first.
    fn step<T>(
        &mut self,
        mut reader: Option<&mut ReadBuf<'_>>,
        write: impl FnOnce(Writing<'_>) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        loop {
            let incoming = self.incoming.get_mut(self.processed..).unwrap_or_default();
            let UnbufferedStatus { discard, state } = self.session.process_tls_records(incoming);
            let mut is_blocked = false;
            match state.map_err(invalid)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let payload = record.map_err(invalid)?.payload;
                        let room = reader.as_deref().filter(|_| self.decrypted.is_empty());
                        let room = room.map_or(0, ReadBuf::remaining).min(payload.len());
                        let (now, later) = payload.split_at_checked(room).unwrap_or((&[], payload));
                        if let Some(reader) = &mut reader {
                            reader.put_slice(now);
                        }
                        self.decrypted.extend_from_slice(later);
                    }
                    is_blocked = reader.is_some();
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    append(&mut self.outgoing, 0, |room| data.encode(room).map_err(Refused::from))?;
                }
                // The records are in `outgoing`, and later ones are written after them.
                ConnectionState::TransmitTlsData(transmit) => transmit.done(),
                ConnectionState::PeerClosed => self.is_closed = true,
                ConnectionState::WriteTraffic(traffic) => {
                    self.processed = self.processed.saturating_add(discard);
                    return write(Writing { traffic, outgoing: &mut self.outgoing }).map(Some);
                }
                _ => is_blocked = true,
            }
            self.processed = self.processed.saturating_add(discard);
            if is_blocked {
                return Ok(None);
            }
        }
    }

    /// Encodes the alert with which rustls refuses a handshake.
    fn alert(&mut self) {
        for _ in 0..ALERTS_MAX {
            let status = self.session.process_tls_records(&mut []);
            let Ok(ConnectionState::EncodeTlsData(mut data)) = status.state else { return };
            if append(&mut self.outgoing, 0, |room| data.encode(room).map_err(Refused::from)).is_err() {
                return;
            }
        }
    }

    /// Moves decrypted bytes to a reader. Returns whether there were any.
    fn copy_decrypted(&mut self, reader: &mut ReadBuf<'_>) -> bool {
        let left = self.decrypted.get(self.taken..).unwrap_or_default();
        let part = left.get(..reader.remaining()).unwrap_or(left);
        reader.put_slice(part);
        self.taken = self.taken.saturating_add(part.len());
        let has_any = !part.is_empty();
        if self.taken == self.decrypted.len() {
            (self.decrypted, self.taken) = (Vec::new(), 0);
        }
        has_any
    }
}

/// Encrypts application data into the records that are to be written.
struct Writing<'a> {
    traffic: WriteTraffic<'a, ClientConnectionData>,
    outgoing: &'a mut Vec<u8>,
}

impl Writing<'_> {
    fn encrypt(&mut self, bytes: &[u8]) -> io::Result<()> {
        let records = bytes.len().div_ceil(RECORD_BYTES_MAX);
        let size = bytes.len().saturating_add(records.saturating_mul(RECORD_OVERHEAD_BYTES));
        append(self.outgoing, size, |room| self.traffic.encrypt(bytes, room).map_err(Refused::from))
    }

    fn close(&mut self) -> io::Result<()> {
        append(self.outgoing, RECORD_OVERHEAD_BYTES, |room| {
            self.traffic.queue_close_notify(room).map_err(Refused::from)
        })
    }
}

/// Why rustls wrote nothing.
enum Refused {
    /// The buffer needs that many bytes.
    TooSmall(usize),
    Failed,
}

impl From<EncodeError> for Refused {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(size) => Refused::TooSmall(size.required_size),
            EncodeError::AlreadyEncoded => Refused::Failed,
        }
    }
}

impl From<EncryptError> for Refused {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(size) => Refused::TooSmall(size.required_size),
            EncryptError::EncryptExhausted => Refused::Failed,
        }
    }
}

/// Appends what `encode` writes. `size` is an estimate.
fn append(
    outgoing: &mut Vec<u8>,
    size: usize,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, Refused>,
) -> io::Result<()> {
    let before = outgoing.len();
    let mut size = size;
    for _ in 0..2 {
        outgoing.resize(before.saturating_add(size), 0);
        match encode(outgoing.get_mut(before..).unwrap_or_default()) {
            Ok(written) => {
                outgoing.truncate(before.saturating_add(written));
                return Ok(());
            }
            Err(Refused::TooSmall(required)) => size = required,
            Err(Refused::Failed) => break,
        }
    }
    outgoing.truncate(before);
    Err(io::Error::other("tls: the record cannot be encoded"))
}

fn invalid(error: Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        reader: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if reader.remaining() == 0 || this.copy_decrypted(reader) {
            return Poll::Ready(Ok(()));
        }
        let before = reader.filled().len();
        loop {
            let is_writing = !this.outgoing.is_empty();
            this.step(Some(reader), |_| Ok(()))?;
            // Answers to messages about the connection are written if the stream takes them now, or with the next write. A
            // writer that waits for the stream writes them itself: only its task is woken.
            if !is_writing
                && !this.outgoing.is_empty()
                && let Poll::Ready(Err(error)) = this.poll_write_out(cx)
            {
                return Poll::Ready(Err(error));
            }
            if reader.filled().len() > before || this.is_closed {
                return Poll::Ready(Ok(()));
            }
            if ready!(this.poll_receive(cx))? == 0 {
                let why = "peer closed connection without sending TLS close_notify";
                return Poll::Ready(Err(io::Error::new(ErrorKind::UnexpectedEof, why)));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_encrypt(bytes, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let total = slices.iter().fold(0_usize, |total, slice| total.saturating_add(slice.len()));
        if total <= RECORD_BYTES_MAX {
            let joined: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            return self.poll_encrypt(&joined, cx);
        }
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.poll_encrypt(first.map_or(&[], |slice| slice), cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.is_shut_down, true) {
            // The other side may be gone.
            _ = self.step(None, |mut writing| writing.close());
        }
        ready!(self.poll_write_out(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TlsOptions, Trust};
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::version::{TLS12, TLS13};
    use tokio::io::{AsyncWriteExt, DuplexStream};
    use tokio_rustls::TlsAcceptor;

    /// A client of a server that runs `serve`, over a pipe that holds few bytes.
    async fn connected<F>(
        version: &'static rustls::SupportedProtocolVersion,
        serve: impl FnOnce(tokio_rustls::server::TlsStream<DuplexStream>) -> F + Send + 'static,
    ) -> TlsStream<DuplexStream>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["backend".to_string()]).unwrap().self_signed(&key).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let (near, far) = tokio::io::duplex(10_000);
        tokio::spawn(async move {
            serve(TlsAcceptor::from(Arc::new(server)).accept(far).await.unwrap()).await;
        });
        let config = TlsOptions::new(Trust::Anyone, None, None).unwrap().config();
        TlsStream::connect(config, "backend".try_into().unwrap(), near).await.map_err(|(e, _)| e).unwrap()
    }

    #[tokio::test]
    async fn bytes_arrive_in_order_and_no_buffer_remains() {
        for version in [&TLS12, &TLS13] {
            let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
            let echo = |stream| async move {
                let (mut reader, mut writer) = tokio::io::split(stream);
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                writer.shutdown().await.unwrap();
            };
            let client = connected(version, echo).await;
            let (mut reader, mut writer) = tokio::io::split(client);
            let upload = sent.clone();
            let writing = tokio::spawn(async move {
                writer.write_all(&upload).await.unwrap();
                writer.flush().await.unwrap();
                writer
            });
            let (mut got, mut piece) = (Vec::new(), vec![0; 5000]);
            while got.len() < sent.len() {
                let size = reader.read(&mut piece).await.unwrap();
                got.extend_from_slice(&piece[..size]);
            }
            assert!(got == sent);
            let mut client = reader.unsplit(writing.await.unwrap());
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let waiting = Pin::new(&mut client).poll_read(&mut cx, &mut ReadBuf::new(&mut piece));
            assert!(waiting.is_pending());
            assert_eq!(
                client.incoming.capacity() + client.outgoing.capacity() + client.decrypted.capacity(),
                0
            );
            client.write_all(b"last").await.unwrap();
            client.shutdown().await.unwrap();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"last");
        }
    }

    #[tokio::test]
    async fn an_end_without_an_announcement_is_an_error() {
        let cut = |mut stream: tokio_rustls::server::TlsStream<DuplexStream>| async move {
            stream.write_all(b"half").await.unwrap();
            stream.flush().await.unwrap();
        };
        let mut client = connected(&TLS13, cut).await;
        let mut all = Vec::new();
        let error = client.read_to_end(&mut all).await.unwrap_err();
        assert_eq!((all.as_slice(), error.kind()), (&b"half"[..], ErrorKind::UnexpectedEof));
    }

    #[tokio::test]
    async fn a_server_without_tls_is_recognized() {
        let (near, mut far) = tokio::io::duplex(10_000);
        far.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let config = TlsOptions::new(Trust::Anyone, None, None).unwrap().config();
        let (error, first) =
            TlsStream::connect(config, "backend".try_into().unwrap(), near).await.err().unwrap();
        assert_eq!((error.kind(), first.first_chunk()), (ErrorKind::InvalidData, Some(b"HTTP/")));
    }
}
