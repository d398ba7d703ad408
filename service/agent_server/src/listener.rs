//! Accepts TCP, then TLS, and serves calls until it is told to end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use crate::call::{self, Called};
use crate::devices::{Seat, fingerprint};
use crate::gateways::{ALPN, Gateways};
use crate::news::{Condition, Device, News};
use crate::port::{self, Place, Port, SILENCE};
use crate::tls::Shown;

/// Interval at which we check that a silent device is there; the device checks as well, every five minutes.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(600);
/// Interval at which Python is told about refused calls, and connections of refused certificates are cut.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Streams of a connection at once; `devices` counts the calls of all connections of a device.
const STREAMS: u32 = 64;
/// Unread bytes of a connection, and of each of its streams, at most.
const CONNECTION_WINDOW: u32 = 128 << 10;
const STREAM_WINDOW: u32 = 32 << 10;
/// Bytes of a request's headers.
const HEADERS: u32 = 8 << 10;

/// Serves until `ending`. Then it accepts no new connection, and each connection ends with the calls that are under way.
pub async fn serve(
    listener: TcpListener,
    shown: watch::Receiver<Arc<Shown>>,
    handshake_time: Duration,
    called: Arc<Called>,
    gateways: Arc<Gateways>,
    port: Arc<Port<News>>,
    ending: oneshot::Receiver<()>,
) {
    let connections = GracefulShutdown::new();
    let accepting = port::accept(
        listener,
        port,
        handshake_time,
        ending,
        |stream, peer, place| {
            let shown = Arc::clone(&shown.borrow());
            let gateways = Arc::clone(&gateways);
            let device = (Arc::clone(&called), connections.watcher());
            async move {
                let (mut stream, mut place) = (stream, place);
                // Not in `connection`, whose future would have room for the stream twice.
                let peer = place.introduced(&mut stream, peer, handshake_time).await;
                if let Some(peer) = peer {
                    connection(shown, stream, peer, place, device, gateways).await;
                }
            }
        },
    );
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let looking = async {
        loop {
            looks.tick().await;
            called.look();
        }
    };
    tokio::select! {
        () = accepting => {}
        () = looking => {}
    }
    connections.shutdown().await;
}

/// The client's first message tells whether it is a device or a gateway. A client without a certificate is a stranger, and fails the
/// handshake.
async fn connection(
    shown: Arc<Shown>,
    stream: TcpStream,
    peer: SocketAddr,
    place: Place<News>,
    (called, watcher): (Arc<Called>, Watcher),
    gateways: Arc<Gateways>,
) {
    let Ok(hello) = LazyConfigAcceptor::new(Acceptor::default(), stream).await else {
        place.port().met(Condition::Handshakes);
        return;
    };
    let dialled = hello
        .client_hello()
        .alpn()
        .is_some_and(|mut protocols| protocols.any(|protocol| protocol == ALPN));
    if dialled {
        return gateway(&shown, hello, place, gateways).await;
    }
    let stream = hello.into_stream(Arc::clone(&shown.devices)).await;
    let certificate = stream.as_ref().ok().and_then(|stream| {
        let certificates = stream.get_ref().1.peer_certificates();
        Some(fingerprint(certificates?.first()?))
    });
    let (Ok(stream), Some(fingerprint)) = (stream, certificate) else {
        place.port().met(Condition::Handshakes);
        return;
    };
    place.known();
    let Some((seat, ended)) = called.devices.connect(fingerprint) else {
        place.port().met(Condition::Connections);
        return;
    };
    let device = Device {
        address: peer.ip().to_canonical(),
        fingerprint,
    };
    // A task of its own: what the handshake needed does not stay as long as the connection.
    tokio::spawn(conversation(stream, device, called, watcher, seat, ended));
}

async fn gateway(
    shown: &Shown,
    hello: StartHandshake<TcpStream>,
    place: Place<News>,
    gateways: Arc<Gateways>,
) {
    let stream = match &shown.gateways {
        Some(config) => hello.into_stream(Arc::clone(config)).await.ok(),
        None => None,
    };
    let name = stream.as_ref().and_then(|stream| {
        let certificates = stream.get_ref().1.peer_certificates();
        gateways.name(certificates?.first()?).ok()
    });
    let (Some(stream), Some(name)) = (stream, name) else {
        place.port().met(Condition::Handshakes);
        return;
    };
    place.known();
    tokio::spawn(gateways.serve(name, stream));
}

/// Serves one connection, and ignores its error. An `async fn`'s future would have room for the stream twice.
fn conversation(
    stream: TlsStream<TcpStream>,
    device: Device,
    called: Arc<Called>,
    watcher: Watcher,
    seat: Seat,
    ended: oneshot::Receiver<()>,
) -> impl Future<Output = ()> {
    let service = service_fn(move |request| {
        let called = Arc::clone(&called);
        async move { Ok::<_, Infallible>(call::answer(called, device, request).await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .max_header_list_size(HEADERS)
        .keep_alive_interval(KEEPALIVE_EVERY)
        .keep_alive_timeout(SILENCE)
        .serve_connection(TokioIo::new(stream), service);
    let watched = watcher.watch(connection);
    async move {
        tokio::select! {
            _ = watched => {}
            _ = ended => {}
        }
        drop(seat);
    }
}
