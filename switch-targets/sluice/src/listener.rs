//! Accepts TCP, then TLS, and hands over connections with whose they are.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;
use tracing::{debug, warn};

use crate::tls::{Caller, Names};

/// A client's connection, which takes one of [`CONNECTIONS`] slots.
pub struct Connection {
    stream: TlsStream<TcpStream>,
    caller: Caller,
    _slot: OwnedSemaphorePermit,
}

/// Handshakes under way at once.
const HANDSHAKES: usize = 128;
/// Clients that are connected at once.
const CONNECTIONS: usize = 256;
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// After the operating system refused a connection, most likely for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs until the receiver is dropped.
pub async fn accept(
    listener: TcpListener,
    config: watch::Receiver<Arc<ServerConfig>>,
    names: Names,
    ready: mpsc::Sender<io::Result<Connection>>,
) {
    let names = Arc::new(names);
    let slots = Arc::new(Semaphore::new(HANDSHAKES));
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ready.closed() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let acceptor = TlsAcceptor::from(Arc::clone(&config.borrow()));
        let (names, ready) = (Arc::clone(&names), ready.clone());
        let connections = Arc::clone(&connections);
        tokio::spawn(async move {
            if let Some((stream, caller)) = handshake(&acceptor, &names, stream, peer).await {
                match connections.try_acquire_owned() {
                    Ok(_slot) => {
                        let connection = Connection {
                            stream,
                            caller,
                            _slot,
                        };
                        drop(ready.send(Ok(connection)).await);
                    }
                    Err(_) => {
                        warn!(%peer, "refused a connection: {CONNECTIONS} clients are connected");
                    }
                }
            }
            drop(slot);
        });
    }
}

async fn handshake(
    acceptor: &TlsAcceptor,
    names: &Names,
    stream: TcpStream,
    peer: SocketAddr,
) -> Option<(TlsStream<TcpStream>, Caller)> {
    let _ = stream.set_nodelay(true);
    match tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
        Ok(Ok(connection)) => {
            let shown = connection.get_ref().1.peer_certificates()?.first()?;
            let caller = names.caller(shown).ok()?;
            debug!(%peer, ?caller, "connected");
            Some((connection, caller))
        }
        Ok(Err(error)) => {
            warn!(%peer, %error, "refused a connection");
            None
        }
        Err(_) => {
            warn!(%peer, "refused a connection: no TLS handshake within {} s", HANDSHAKE_TIME.as_secs());
            None
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.caller
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
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
