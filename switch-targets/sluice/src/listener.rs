//! Accepts TCP, then TLS, and hands over connections whose client is the controller.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

pub type Connection = TlsStream<TcpStream>;

/// Handshakes under way at once.
const HANDSHAKES: usize = 128;
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// After the operating system refused a connection, most likely for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs until the receiver is dropped.
pub async fn accept(
    listener: TcpListener,
    config: Arc<ServerConfig>,
    ready: mpsc::Sender<std::io::Result<Connection>>,
) {
    let acceptor = TlsAcceptor::from(config);
    let slots = Arc::new(Semaphore::new(HANDSHAKES));
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
        let (acceptor, ready) = (acceptor.clone(), ready.clone());
        tokio::spawn(async move {
            if let Some(connection) = handshake(&acceptor, stream, peer).await {
                let _ = ready.send(Ok(connection)).await;
            }
            drop(slot);
        });
    }
}

async fn handshake(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
) -> Option<Connection> {
    let _ = stream.set_nodelay(true);
    match tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
        Ok(Ok(connection)) => {
            debug!(%peer, "connected");
            Some(connection)
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
