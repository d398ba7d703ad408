//! Accepts TCP, then TLS, and hands over connections with whose they are.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_rustls::{TlsAcceptor, TlsStream};
use tonic::transport::server::Connected;
use tracing::debug;

use crate::condition::{Condition, Conditions};
use crate::connections::admission::{Admission, Admitted, Arrived, Refused};
use crate::connections::crowd::Full;
use crate::connections::prefix::Prefix;
use crate::connections::tls::{Caller, ClientNames};

/// A client's connection, until it ends or [`Admission`] drops its handle.
pub struct Connection<S = Stream> {
    stream: S,
    place: Place,
    /// Resolves when the connection must end; none after that.
    dropped: Option<oneshot::Receiver<()>>,
    /// Dropped with the connection, for the task that has dialled it.
    _alive: Option<oneshot::Sender<()>>,
}

/// A connection that was accepted or dialled. A dialled one is handed over once its first bytes are in the buffer.
pub type Stream = BufReader<TlsStream<TcpStream>>;

/// Bytes of the buffer. Longer reads go past it.
const BUFFER: usize = 64;

pub(super) fn buffered(stream: impl Into<TlsStream<TcpStream>>) -> Stream {
    BufReader::with_capacity(BUFFER, stream.into())
}

/// The P4Runtime port: which clients may connect, and with which TLS settings.
pub struct P4RuntimePort {
    pub listener: TcpListener,
    pub config: watch::Receiver<Arc<ServerConfig>>,
    pub names: ClientNames,
    /// Networks that clients may come from; when there is none, every address is allowed.
    pub allowed: Vec<Prefix>,
    pub conditions: Arc<Conditions>,
}

const HANDSHAKE_TIME: Duration = Duration::from_secs(3);
/// After the operating system refused a connection, most likely for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) type Shared = Arc<Mutex<Admission<oneshot::Sender<()>>>>;

impl P4RuntimePort {
    /// Runs until the receiver of `ready` is dropped.
    pub async fn accept(self, ready: mpsc::Sender<io::Result<Connection>>) {
        let names = Arc::new(self.names);
        let admission: Shared = Arc::default();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = ready.closed() => return,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.conditions.met(Condition::Unaccepted, error);
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let source = peer.ip().to_canonical();
            if !self.allowed.is_empty() && !self.allowed.iter().any(|it| it.contains(source)) {
                self.conditions.met(Condition::NotAllowed, source);
                continue;
            }
            let (handle, dropped) = oneshot::channel();
            let (arrived, full) = admission.lock().arrive(source, handle);
            if let Some(full) = full {
                self.conditions
                    .met(Condition::Crowded, crowded(full, source));
            }
            let newcomer = Newcomer {
                source,
                arrived,
                admission: Arc::clone(&admission),
                conditions: Arc::clone(&self.conditions),
            };
            let acceptor = TlsAcceptor::from(Arc::clone(&self.config.borrow()));
            let (names, ready) = (Arc::clone(&names), ready.clone());
            tokio::spawn(async move {
                if let Some(connection) = newcomer
                    .shake_hands(&acceptor, &names, stream, dropped)
                    .await
                {
                    drop(ready.send(Ok(connection)).await);
                }
            });
        }
    }
}

/// Accepts without TLS: each client is a controller. `listener` is on loopback. Runs until the receiver of `ready` is dropped.
pub async fn accept_local(
    listener: TcpListener,
    conditions: Arc<Conditions>,
    ready: mpsc::Sender<io::Result<Connection<TcpStream>>>,
) {
    let admission: Shared = Arc::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ready.closed() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                conditions.met(Condition::Unaccepted, error);
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (handle, dropped) = oneshot::channel();
        let (arrived, _) = admission.lock().arrive(peer.ip(), handle);
        let now = Instant::now();
        let admitted = admission.lock().admit(arrived, Caller::Controller, now);
        let Ok(client) = admitted else {
            conditions.met(Condition::Busy, peer.ip());
            continue;
        };
        let connection = Connection::new(stream, client, Arc::clone(&admission), dropped);
        drop(ready.send(Ok(connection)).await);
    }
}

fn crowded(full: Full, source: IpAddr) -> String {
    let reason = match full {
        Full::Address => "the limit of its address, or of its IPv6 /64",
        Full::Site => "the limit of its IPv6 /48",
        Full::All => "the limit of all addresses",
    };
    format!("{source}: {reason}")
}

/// A connection before its handshake.
struct Newcomer {
    source: IpAddr,
    arrived: Arrived,
    admission: Shared,
    conditions: Arc<Conditions>,
}

impl Newcomer {
    async fn shake_hands(
        self,
        acceptor: &TlsAcceptor,
        names: &ClientNames,
        stream: TcpStream,
        mut dropped: oneshot::Receiver<()>,
    ) -> Option<Connection> {
        let _ = stream.set_nodelay(true);
        let source = self.source;
        let handshake = async {
            stream.readable().await?;
            self.admission.lock().speak(self.arrived);
            acceptor.accept(stream).await
        };
        let done = tokio::select! {
            done = tokio::time::timeout(HANDSHAKE_TIME, handshake) => done,
            _ = &mut dropped => return None,
        };
        let failed = |condition, detail: String| {
            self.admission.lock().fail(self.arrived);
            self.conditions.met(condition, detail);
        };
        let stream = match done {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                failed(Condition::Handshake, format!("{source}: {error}"));
                return None;
            }
            Err(_) => {
                failed(
                    Condition::Slow,
                    format!("{source}: {} s", HANDSHAKE_TIME.as_secs()),
                );
                return None;
            }
        };
        let shown = stream
            .get_ref()
            .1
            .peer_certificates()
            .and_then(<[_]>::first);
        let Some(caller) = shown.and_then(|shown| names.caller(shown).ok()) else {
            failed(Condition::Handshake, format!("{source}: no certificate"));
            return None;
        };
        let admitted = self
            .admission
            .lock()
            .admit(self.arrived, caller, Instant::now());
        match admitted {
            Ok(client) => {
                debug!(%source, ?caller, "connected");
                Some(Connection::new(
                    buffered(stream),
                    client,
                    self.admission,
                    dropped,
                ))
            }
            Err(Refused::Gone) => None,
            Err(Refused::Busy(limit)) => {
                let kind = match caller {
                    Caller::Controller => "controllers",
                    Caller::Reader => "readers",
                };
                self.conditions
                    .met(Condition::Busy, format!("{source}: {limit} {kind}"));
                None
            }
        }
    }
}

/// The place of an admitted connection, which is free again when this is dropped.
struct Place {
    client: Admitted,
    admission: Shared,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.lock().leave(&self.client);
    }
}

impl<S> Connection<S> {
    /// `dropped` resolves when the connection must end.
    pub(super) fn new(
        stream: S,
        client: Admitted,
        admission: Shared,
        dropped: oneshot::Receiver<()>,
    ) -> Self {
        Self {
            stream,
            place: Place { client, admission },
            dropped: Some(dropped),
            _alive: None,
        }
    }

    pub(super) fn alive(self, alive: oneshot::Sender<()>) -> Self {
        Self {
            _alive: Some(alive),
            ..self
        }
    }
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = Admitted;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.place.client.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let waits =
            |dropped: &mut oneshot::Receiver<()>| Pin::new(dropped).poll(context).is_pending();
        if !self.dropped.as_mut().is_some_and(waits) {
            self.dropped = None;
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
