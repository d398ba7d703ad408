//! The REST API's front: TLS and HTTP/1.1 towards strangers; Python gets each request already parsed.
//!
//! ```text
//!  anyone ── TLS ──► wire ──► hyper ──► answer ──┬─► refused here: malformed, too large, too often
//!                                                └─► a socket pair ──► uvicorn (Python's event loop)
//! ```
//! Each request has its own socket pair, so that no other program can reach uvicorn. The source address is passed beside
//! the request. When the client disconnects, the pair is closed, and uvicorn cancels the request.

mod callers;
mod head;
mod upload;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use culvert_admission::Rate;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use crate::news::{Board, Condition, Told};
use crate::port::{self, Place, Port};
use crate::tls;
use crate::wire::{Inward, Wire};

use callers::Callers;
use head::{ADMITTED, onward, target};
use upload::{Cut, Upload};

/// Bytes of a request's line and headers together, and the number of headers. uvicorn's own limits are a little higher.
pub const HEAD: usize = 12 << 10;
const HEADERS: usize = 64;
const BUFFER: usize = 16 << 10;
/// Bytes of a body that reach Python at most. Python checks the caller first, and has lower limits for most paths.
pub const BODY: u64 = 1 << 20;
/// A connection may wait this long between an answer and the next request.
const IDLE: Duration = Duration::from_secs(30);
/// Python's time for the head of its answer to a stranger.
const ANSWER: Duration = Duration::from_secs(60);
/// The path at which a supervisor checks that this process is alive. A flood from the supervisor's address, as behind one
/// proxy, must not cause a restart: these requests have separate buckets, and wait for no turn.
const PROBE: &str = "/healthz";

/// Events for Python, in their order.
pub enum RestNews {
    /// An end of a socket pair, on which one request arrives, and the request's source address.
    Request(OwnedFd, IpAddr),
    Told(Told),
    Ended,
}

impl From<Told> for RestNews {
    fn from(told: Told) -> Self {
        Self::Told(told)
    }
}

/// Bodies of this front's own refusals, as application/problem+json.
pub struct Problems {
    pub malformed: Bytes,
    pub too_large: Bytes,
    pub too_often: Bytes,
    pub fault: Bytes,
}

pub struct Times {
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time for a request's head, and again for its body.
    pub request: Duration,
}

pub struct Front {
    board: Arc<Board<RestNews>>,
    problems: Problems,
    malformed: Bytes,
    times: Times,
    callers: Callers,
}

type Answer = Either<Streamed, Full<Bytes>>;

impl Front {
    /// `rate` limits the requests without good credentials from each IPv4 address or IPv6 /64.
    pub fn new(board: Arc<Board<RestNews>>, problems: Problems, times: Times, rate: Rate) -> Self {
        let malformed = whole("400 Bad Request", &problems.malformed);
        Self {
            board,
            problems,
            malformed,
            times,
            callers: Callers::new(rate),
        }
    }
}

fn whole(status: &str, problem: &Bytes) -> Bytes {
    let mut whole = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        problem.len()
    )
    .into_bytes();
    whole.extend_from_slice(problem);
    whole.into()
}

/// Serves until `ending`. Then it accepts no new connection, and each connection closes after its request.
pub async fn serve(
    listener: TcpListener,
    shown: watch::Receiver<Arc<ServerConfig>>,
    front: Arc<Front>,
    port: Arc<Port<RestNews>>,
    ending: oneshot::Receiver<()>,
) {
    let connections = GracefulShutdown::new();
    let patience = front.times.handshake;
    port::accept(listener, port, patience, ending, |stream, peer, place| {
        let acceptor = TlsAcceptor::from(Arc::clone(&shown.borrow()));
        let watcher = connections.watcher();
        connection(acceptor, stream, peer, place, Arc::clone(&front), watcher)
    })
    .await;
    connections.shutdown().await;
}

async fn connection(
    acceptor: TlsAcceptor,
    mut stream: TcpStream,
    peer: SocketAddr,
    mut place: Place<RestNews>,
    front: Arc<Front>,
    watcher: Watcher,
) {
    let Some(peer) = place
        .introduced(&mut stream, peer, front.times.handshake)
        .await
    else {
        return;
    };
    let Ok(stream) = acceptor.accept(stream).await else {
        place.port().met(Condition::Handshakes);
        return;
    };
    if stream.get_ref().1.alpn_protocol() == Some(tls::CHALLENGE) {
        // The handshake alone is the answer (RFC 8737, section 3).
        return;
    }
    place.silent(front.times.request);
    let answering = Arc::new(AtomicBool::new(false));
    let wire = Wire::new(stream, Arc::clone(&answering), front.malformed.clone());
    let place = Arc::new(place);
    let service = service_fn(move |request| {
        let (front, place) = (Arc::clone(&front), Arc::clone(&place));
        let answering = Arc::clone(&answering);
        async move {
            let answer = answer(&front, &place, peer.ip(), request).await;
            answering.store(true, Ordering::Relaxed);
            place.silent(IDLE);
            if let Ok(answer) = &answer
                && matches!(answer.body(), Either::Left(_))
            {
                place.busy();
            }
            answer
        }
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_headers(HEADERS)
        .max_header_size(HEAD)
        .max_buf_size(BUFFER)
        .writev(false)
        .serve_connection(TokioIo::new(wire), service);
    // An error means that the client is gone.
    let _ = watcher.watch(connection).await;
}

async fn answer(
    front: &Front,
    place: &Arc<Place<RestNews>>,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Cut> {
    let Some((target, host)) = target(&request) else {
        return Ok(refusal(StatusCode::BAD_REQUEST, &front.problems.malformed));
    };
    let said = request.headers().get_all("x-forwarded-for");
    // A header that is not text ends the reading, as a malformed address does.
    let said = said.iter().map(|value| value.to_str().unwrap_or_default());
    let source = place
        .port()
        .forwarded()
        .source(peer, said.collect::<Vec<_>>().into_iter());
    let shown = front.callers.hash_credentials(request.headers());
    let known = front.callers.knows(shown);
    let probes = target.path() == PROBE;
    if !known && !front.callers.may_ask(source, probes) {
        place.port().met(Condition::Requests);
        return Ok(too_often(front));
    }
    let (head, body) = request.into_parts();
    let (overrun, deaf) = (Arc::<AtomicBool>::default(), Arc::default());
    let patience = front.times.request;
    let body = Upload::new(
        body,
        BODY,
        patience,
        Arc::clone(&overrun),
        Arc::clone(&deaf),
    );
    let turn = match known || probes {
        true => None,
        false => match front.callers.wait_for_turn(source).await {
            None => return Ok(too_often(front)),
            turn => turn,
        },
    };
    match known {
        true => place.busy(),
        // The stranger's body may still be missing: at a limit this connection may be closed.
        false => place.silent(front.times.request + ANSWER),
    }
    let request = onward(head.method, target, host, head.headers, body);
    let asked = ask(front, source, deaf, request);
    let asked = match known {
        true => asked.await,
        false => match tokio::time::timeout(ANSWER, asked).await {
            Ok(asked) => asked,
            Err(_) => Err(Cut),
        },
    };
    drop(turn);
    match asked {
        Ok((response, connection)) => {
            if matches!(response.status().as_u16(), 401 | 429) {
                shown.inspect(|shown| front.callers.forget(*shown));
                if !known {
                    front.callers.charge_refusal(source);
                }
            } else if response.headers().contains_key(ADMITTED) {
                shown.inspect(|shown| front.callers.remember(*shown));
                place.known();
            }
            Ok(back(front, response, connection, place))
        }
        Err(_) if overrun.load(Ordering::Relaxed) => Ok(refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            &front.problems.too_large,
        )),
        Err(_) => Ok(refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            &front.problems.fault,
        )),
    }
}

async fn ask<B>(
    front: &Front,
    source: IpAddr,
    deaf: Arc<AtomicBool>,
    request: Request<B>,
) -> Result<(Response<Incoming>, Connection), Cut>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let ours = TokioIo::new(Inward::new(UnixStream::from_std(ours)?, deaf));
    let handshake = hyper::client::conn::http1::Builder::new()
        .max_buf_size(BUFFER)
        .handshake(ours);
    let (mut sender, connection) = handshake.await?;
    front.board.tell(RestNews::Request(theirs.into(), source));
    let connection = tokio::spawn(async move {
        let _ = connection.await;
    });
    let connection = Connection(connection.abort_handle());
    let response = sender.send_request(request).await?;
    Ok((response, connection))
}

fn back(
    front: &Front,
    response: Response<Incoming>,
    connection: Connection,
    place: &Arc<Place<RestNews>>,
) -> Response<Answer> {
    let (mut head, body) = response.into_parts();
    let plain = head.headers.get(header::CONTENT_TYPE);
    let plain = plain.is_some_and(|it| it.as_bytes().starts_with(b"text/plain"));
    // These answers come from Python's HTTP parser or server, not from the application: they are not problem+json.
    match head.status {
        StatusCode::BAD_REQUEST if plain => {
            return refusal(head.status, &front.problems.malformed);
        }
        StatusCode::INTERNAL_SERVER_ERROR if plain => {
            return refusal(head.status, &front.problems.fault);
        }
        _ => {}
    }
    for name in [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::SERVER,
        HeaderName::from_static("keep-alive"),
        ADMITTED,
    ] {
        head.headers.remove(name);
    }
    let body = Streamed {
        body,
        _connection: connection,
        place: Arc::clone(place),
    };
    let mut response = Response::new(Either::Left(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}

fn refusal(status: StatusCode, problem: &Bytes) -> Response<Answer> {
    let mut response = Response::new(Either::Right(Full::new(problem.clone())));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

fn too_often(front: &Front) -> Response<Answer> {
    let mut response = refusal(StatusCode::TOO_MANY_REQUESTS, &front.problems.too_often);
    let seconds = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

/// The connection to Python for one request, which closes when this is dropped.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Python's answer, passed on as it arrives. Meanwhile the client's connection does not count as silent.
pub struct Streamed {
    body: Incoming,
    _connection: Connection,
    place: Arc<Place<RestNews>>,
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        self.place.silent(IDLE);
    }
}
