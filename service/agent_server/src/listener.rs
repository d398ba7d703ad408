//! Accepts TCP, then TLS, and serves calls until it is told to end.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::call;
use crate::news::{Board, Device};

/// After the operating system refused a connection, most likely for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// A device that acknowledges nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(20);
/// How often a device that says nothing is asked whether it is there; it asks as well, every five minutes.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(600);

/// Of one device at once. With the longest request they bound what it can make this process hold.
const CALLS: u32 = 64;

/// From `ending` on nobody new comes, and connections end with the calls that are under way.
pub async fn serve(
    listener: TcpListener,
    shown: watch::Receiver<Arc<ServerConfig>>,
    handshake_time: Duration,
    board: Arc<Board>,
    mut ending: oneshot::Receiver<()>,
) {
    let connections = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut ending => break,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let acceptor = TlsAcceptor::from(Arc::clone(&shown.borrow()));
        let (board, watcher) = (Arc::clone(&board), connections.watcher());
        tokio::spawn(async move {
            let handshake = handshake(&acceptor, stream, peer);
            // Whoever shows no certificate is a stranger.
            if let Ok(Ok((stream, device))) = tokio::time::timeout(handshake_time, handshake).await
            {
                // A task of its own: what the handshake needed does not stay as long as the connection.
                tokio::spawn(conversation(stream, device, board, watcher));
            }
        });
    }
    drop(listener);
    connections.shutdown().await;
}

async fn handshake(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
) -> io::Result<(TlsStream<TcpStream>, Device)> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_user_timeout(Some(SILENCE))?;
    let stream = acceptor.accept(stream).await?;
    let certificate = stream.get_ref().1.peer_certificates();
    let Some(certificate) = certificate.and_then(<[_]>::first) else {
        return Err(io::ErrorKind::PermissionDenied.into());
    };
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    let address = match peer.ip() {
        IpAddr::V6(address) => address.to_canonical(),
        address => address,
    };
    Ok((
        stream,
        Device {
            address,
            fingerprint,
        },
    ))
}

/// No `async fn`, whose future would have room for the stream twice. Why a device went is of no use to anybody.
fn conversation(
    stream: TlsStream<TcpStream>,
    device: Device,
    board: Arc<Board>,
    watcher: Watcher,
) -> impl Future<Output = Result<(), hyper::Error>> {
    let service = service_fn(move |request| {
        let board = Arc::clone(&board);
        async move { Ok::<_, Infallible>(call::answer(board, device, request).await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(CALLS)
        .keep_alive_interval(KEEPALIVE_EVERY)
        .keep_alive_timeout(SILENCE)
        .serve_connection(TokioIo::new(stream), service);
    watcher.watch(connection)
}
