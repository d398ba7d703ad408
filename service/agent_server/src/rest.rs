//! The REST API's front: TLS and HTTP/1.1 towards strangers; Python gets each request already parsed.
//!
//! ```text
//!  anyone ── TLS ──► wire ──► hyper ──► answer ──┬─► refused here: malformed, too large, too often
//!                                                └─► a socket pair ──► uvicorn (Python's event loop)
//! ```
//! Each request has its own socket pair, so that no other program can reach uvicorn. The source address is passed beside
//! the request. When the client disconnects, the pair is closed, and uvicorn cancels the request.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use culvert_admission::{Buckets, Key, Rate, keys, weight};
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Sleep;
use tokio::time::error::Elapsed;
use tokio_rustls::TlsAcceptor;

use crate::news::{Board, Condition, Told};
use crate::port::{self, Place, Port};
use crate::wire::{Inward, Wire};

/// Bytes of a request's line and headers together, and the number of headers. uvicorn's own limits are a little higher.
pub const HEAD: usize = 12 << 10;
const HEADERS: usize = 64;
const BUFFER: usize = 16 << 10;
/// Bytes of a body that reach Python at most. Python checks the caller first, and has lower limits for most paths.
pub const BODY: u64 = 1 << 20;
/// A connection may wait this long between an answer and the next request.
const IDLE: Duration = Duration::from_secs(30);
/// Strangers' requests that Python handles at once, in all and from one source; and how long a further one may wait.
const STRANGERS: usize = 256;
const OF_ONE_SOURCE: usize = 16;
const TURN: Duration = Duration::from_secs(10);
/// Python's time for the head of its answer to a stranger.
const ANSWER: Duration = Duration::from_secs(60);
/// The path at which a supervisor checks that this process is alive. A flood from the supervisor's address, as behind one
/// proxy, must not cause a restart: these requests have separate buckets, and wait for no turn.
const PROBE: &str = "/healthz";
/// The amount that a request costs its source in addition when the answer is 401 or 429.
const REFUSED: f64 = 1.0;
/// Good credentials that are remembered, and for how long.
const KNOWN: usize = 4096;
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Python sets this header in its answer when it has admitted the caller; the client does not get it.
const ADMITTED: HeaderName = HeaderName::from_static("culvert-admitted");

/// Headers for one hop alone (RFC 9110 section 7.6.1), and headers that only a proxy may set.
const NOT_FORWARDED: [HeaderName; 12] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    header::FORWARDED,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// Events for Python, in their order.
pub enum News {
    /// An end of a socket pair, on which one request arrives, and the request's source address.
    Request(OwnedFd, IpAddr),
    Told(Told),
    Ended,
}

impl From<Told> for News {
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
    board: Arc<Board<News>>,
    problems: Problems,
    malformed: Bytes,
    times: Times,
    asking: Mutex<Buckets<Key>>,
    probing: Mutex<Buckets<Key>>,
    strangers: Arc<Semaphore>,
    each: Mutex<HashMap<Key, Arc<Semaphore>>>,
    known: Mutex<HashMap<u64, Instant>>,
    hasher: RandomState,
}

type Answer = Either<Streamed, Full<Bytes>>;

/// A request broke off. The cause does not matter: the client is gone or gets a refusal.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("the request breaks off")
    }
}

impl std::error::Error for Cut {}

impl From<hyper::Error> for Cut {
    fn from(_: hyper::Error) -> Self {
        Self
    }
}

impl From<io::Error> for Cut {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl From<Elapsed> for Cut {
    fn from(_: Elapsed) -> Self {
        Self
    }
}

impl Front {
    /// `rate` limits the requests without good credentials from each IPv4 address or IPv6 /64.
    pub fn new(board: Arc<Board<News>>, problems: Problems, times: Times, rate: Rate) -> Self {
        let malformed = whole("400 Bad Request", &problems.malformed);
        Self {
            board,
            problems,
            malformed,
            times,
            asking: Mutex::new(Buckets::new(rate)),
            probing: Mutex::new(Buckets::new(rate)),
            strangers: Arc::new(Semaphore::new(STRANGERS)),
            each: Mutex::default(),
            known: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    fn may_ask(&self, source: IpAddr, probes: bool) -> bool {
        let buckets = if probes { &self.probing } else { &self.asking };
        let (now, mut buckets) = (Instant::now(), locked(buckets));
        keys(source)
            .iter()
            .all(|key| buckets.take(*key, weight(key), now))
    }

    fn was_refused(&self, source: IpAddr) {
        let (now, mut asking) = (Instant::now(), locked(&self.asking));
        for key in keys(source).iter() {
            asking.charge(*key, REFUSED * weight(key), now);
        }
    }

    /// A keyed hash of the request's credentials; none when the request has none.
    fn shown(&self, headers: &HeaderMap) -> Option<u64> {
        let shown = headers.get(header::AUTHORIZATION);
        let shown = shown.or_else(|| headers.get(header::COOKIE))?;
        Some(self.hasher.hash_one(shown.as_bytes()))
    }

    fn knows(&self, shown: Option<u64>) -> bool {
        let until = shown.and_then(|shown| locked(&self.known).get(&shown).copied());
        until.is_some_and(|until| until > Instant::now())
    }

    fn meets(&self, shown: u64) {
        let (now, mut known) = (Instant::now(), locked(&self.known));
        if known.len() >= KNOWN {
            known.retain(|_, until| *until > now);
        }
        if known.len() < KNOWN || known.contains_key(&shown) {
            known.insert(shown, now + KNOWN_FOR);
        }
    }

    fn forgets(&self, shown: u64) {
        locked(&self.known).remove(&shown);
    }

    /// Waits until Python may handle a stranger's request. None after [`TURN`].
    async fn turn(&self, source: IpAddr) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = {
            let mut each = locked(&self.each);
            each.retain(|_, turns| Arc::strong_count(turns) > 1);
            let key = keys(source).iter().next().copied()?;
            let turns = each.entry(key);
            Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(OF_ONE_SOURCE))))
        };
        let turns = async {
            let own = own.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.strangers).acquire_owned().await.ok()?;
            Some([own, all])
        };
        tokio::time::timeout(TURN, turns).await.ok().flatten()
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
    port: Arc<Port<News>>,
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
    stream: TcpStream,
    peer: SocketAddr,
    place: Place<News>,
    front: Arc<Front>,
    watcher: Watcher,
) {
    let Ok(stream) = acceptor.accept(stream).await else {
        place.port().met(Condition::Handshakes);
        return;
    };
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
    place: &Arc<Place<News>>,
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
    let shown = front.shown(request.headers());
    let known = front.knows(shown);
    let probes = target.path() == PROBE;
    if !known && !front.may_ask(source, probes) {
        place.port().met(Condition::Requests);
        return Ok(too_often(front));
    }
    let (head, body) = request.into_parts();
    let (overrun, deaf) = (Arc::<AtomicBool>::default(), Arc::default());
    let body = Upload {
        body,
        left: BODY,
        late: Box::pin(tokio::time::sleep(front.times.request)),
        overrun: Arc::clone(&overrun),
        deaf: Arc::clone(&deaf),
    };
    let turn = match known || probes {
        true => None,
        false => match front.turn(source).await {
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
                shown.inspect(|shown| front.forgets(*shown));
                if !known {
                    front.was_refused(source);
                }
            } else if response.headers().contains_key(ADMITTED) {
                shown.inspect(|shown| front.meets(*shown));
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

/// The request's target and host, in a form that Python's parser accepts; none for a malformed request.
fn target(request: &Request<Incoming>) -> Option<(Uri, HeaderValue)> {
    let uri = request.uri();
    let path = uri.path_and_query()?.as_str();
    let plain = path.bytes().all(|byte| matches!(byte, 0x21..=0x7e));
    if !plain || request.method() == Method::CONNECT {
        return None;
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (uri.authority(), hosts.next()) {
        (_, None) if request.version() >= Version::HTTP_11 => return None,
        (Some(authority), _) => HeaderValue::from_str(authority.as_str()).ok()?,
        (None, Some(host)) => host.clone(),
        (None, None) => HeaderValue::from_static("localhost"),
    };
    let readable = host.to_str().is_ok_and(|it| !it.contains(' '));
    (readable && hosts.next().is_none()).then_some((path.parse().ok()?, host))
}

fn onward<B>(
    method: Method,
    target: Uri,
    host: HeaderValue,
    mut headers: HeaderMap,
    body: B,
) -> Request<B> {
    for name in named(&headers) {
        headers.remove(name);
    }
    for name in NOT_FORWARDED {
        headers.remove(name);
    }
    headers.remove(ADMITTED);
    headers.insert(header::HOST, host);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = target;
    *request.headers_mut() = headers;
    request
}

/// Headers that the Connection header names: they are for one hop alone.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION);
    let names = values.iter().filter_map(|it| it.to_str().ok());
    let names = names.flat_map(|it| it.split(','));
    let names: Vec<HeaderName> = names.filter_map(|it| it.trim().parse().ok()).collect();
    // Python decides by these headers: a client must not have them removed.
    let kept = [
        header::AUTHORIZATION,
        header::COOKIE,
        header::CONTENT_LENGTH,
    ];
    names.into_iter().filter(|it| !kept.contains(it)).collect()
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
    front.board.tell(News::Request(theirs.into(), source));
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
    place: &Arc<Place<News>>,
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
    place: Arc<Place<News>>,
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

/// A request's body, passed on as it arrives, with limits for its length and time.
struct Upload {
    body: Incoming,
    left: u64,
    late: Pin<Box<Sleep>>,
    overrun: Arc<AtomicBool>,
    deaf: Arc<AtomicBool>,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        if self.deaf.load(Ordering::Relaxed) {
            // Python takes no more of the body: it has answered, or closed the connection.
            return Poll::Pending;
        }
        if self.late.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(Cut)));
        }
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame?;
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        match self.left.checked_sub(length) {
            Some(left) => {
                self.left = left;
                Poll::Ready(Some(Ok(frame)))
            }
            None => {
                self.overrun.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(Cut)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
