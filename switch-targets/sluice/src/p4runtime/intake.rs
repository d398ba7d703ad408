//! Limits the memory of all requests and answers together, whatever clients send.
//!
//! ```text
//!   body ─► gathered as it comes ─► reckoned: what it decodes to ─► the service ─► answer, until the client has taken it
//!               └────────────────────────┴── taken from one budget ──┴──────────────────┘
//! ```
//! A list of empty messages takes two bytes an element on the wire and hundreds in memory: the length of a request says little.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use prost_reflect::MethodDescriptor;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;

use crate::connections::admission::Admitted;
use crate::connections::tls::Caller;
use crate::p4runtime::reckon::reckon;

/// Bytes of everything that is under way.
pub const BUDGET: usize = 1 << 30;
/// The part of [`BUDGET`] that clients that only read may take together.
const READERS_BUDGET: usize = BUDGET / 4;
/// A request of a client that only reads must arrive within this time.
const READERS_TIME: Duration = Duration::from_secs(10);
/// Bytes in front of a message: a flag and the length.
const PREFIX: usize = 5;
/// A gathered request is held twice while it is decoded.
const COPIES: usize = 2;

/// Bytes that are left for requests and answers.
pub struct Budget {
    all: AtomicUsize,
    readers: AtomicUsize,
}

/// A part of the budget, given back when it goes.
pub struct MemoryShare {
    budget: Arc<Budget>,
    caller: Caller,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            all: AtomicUsize::new(BUDGET),
            readers: AtomicUsize::new(READERS_BUDGET),
        }
    }
}

impl Budget {
    /// Makes a share of no bytes yet.
    pub fn share(self: &Arc<Self>, caller: Caller) -> MemoryShare {
        MemoryShare {
            budget: Arc::clone(self),
            caller,
            bytes: 0,
        }
    }
}

/// Takes `bytes`, or returns false when fewer are left.
fn take(left: &AtomicUsize, bytes: usize) -> bool {
    let less = |left: usize| left.checked_sub(bytes);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
        .is_ok()
}

impl MemoryShare {
    /// # Errors
    /// `RESOURCE_EXHAUSTED`: so much is not left.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        let Budget { all, readers } = &*self.budget;
        let exhausted = |of: &str, most: usize| {
            Err(Status::resource_exhausted(format!(
                "requests and answers{of} that are under way would hold more than {} MiB: ask for less at once",
                most >> 20
            )))
        };
        let reads = self.caller == Caller::Reader;
        if reads && !take(readers, bytes) {
            return exhausted(" of readers", READERS_BUDGET);
        }
        if !take(all, bytes) {
            if reads {
                readers.fetch_add(bytes, Ordering::Relaxed);
            }
            return exhausted("", BUDGET);
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.budget.all.fetch_add(self.bytes, Ordering::Relaxed);
        if self.caller == Caller::Reader {
            self.budget.readers.fetch_add(self.bytes, Ordering::Relaxed);
        }
    }
}

/// A service in front of which requests are gathered.
#[derive(Clone)]
pub struct Intake<S> {
    service: S,
    /// Takes the calls whose requests are streams: each message is small.
    streams: S,
    budget: Arc<Budget>,
    methods: Arc<[MethodDescriptor]>,
    longest: Longest,
}

/// Bytes of the longest request, for each kind of client.
#[derive(Clone, Copy, Debug)]
pub struct Longest {
    pub controller: usize,
    pub reader: usize,
}

impl<S> Intake<S> {
    pub fn new(
        service: S,
        streams: S,
        budget: Arc<Budget>,
        methods: impl Iterator<Item = MethodDescriptor>,
        longest: Longest,
    ) -> Self {
        Self {
            service,
            streams,
            budget,
            methods: methods.collect(),
            longest,
        }
    }

    fn method(&self, path: &str) -> Option<MethodDescriptor> {
        let name = path.rsplit('/').next()?;
        self.methods.iter().find(|it| it.name() == name).cloned()
    }
}

impl<S: NamedService> NamedService for Intake<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Intake<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let client = request.extensions().get::<Admitted>();
        let call = client.map(|client| client.calls.begin());
        let caller = client.map_or(Caller::Reader, |client| client.caller);
        let method = self.method(request.uri().path());
        let (Some(method), longest) = (method, self.longest) else {
            return Box::pin(self.service.call(request));
        };
        if method.is_client_streaming() {
            let answer = self.streams.call(request);
            return Box::pin(async { Ok(held(answer.await?, call)) });
        }
        let mut service = self.service.clone();
        let mut share = self.budget.share(caller);
        Box::pin(async move {
            let (parts, mut body) = request.into_parts();
            let gathered = match caller {
                Caller::Controller => gather(&mut body, longest.controller, &mut share).await,
                Caller::Reader => {
                    let gathered = gather(&mut body, longest.reader, &mut share);
                    let late = |_| {
                        Err(Status::deadline_exceeded(
                            "the request took too long to come",
                        ))
                    };
                    timeout(READERS_TIME, gathered).await.unwrap_or_else(late)
                }
            };
            let gathered = match gathered {
                Ok(gathered) => gathered,
                Err(status) => {
                    drop(share);
                    let _ = timeout(READERS_TIME, drain(&mut body)).await;
                    return Ok(status.into_http());
                }
            };
            let message = gathered.get(PREFIX..).unwrap_or_default();
            if let Err(status) = share.grow(reckon(&method.input(), message, BUDGET)) {
                return Ok(status.into_http());
            }
            let body = Body::new(Whole(Some(gathered)));
            let mut answer = service.call(http::Request::from_parts(parts, body)).await?;
            drop(share);
            let share = answer.extensions_mut().remove::<Arc<MemoryShare>>();
            Ok(held(answer, (share, call)))
        })
    }
}

/// Keeps `held` alive until the client has taken the answer.
fn held<T: Send + Unpin + 'static>(answer: http::Response<Body>, held: T) -> http::Response<Body> {
    answer.map(|body| Body::new(Held { body, _held: held }))
}

async fn next(body: &mut Body) -> Option<Result<Frame<Bytes>, Status>> {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

/// Bytes that nobody takes would reset the stream, maybe before the client has the status. A client that is gone fails
/// every read.
async fn drain(body: &mut Body) {
    while let Some(Ok(_)) = next(body).await {}
}

/// Gathers a whole body.
async fn gather(body: &mut Body, longest: usize, share: &mut MemoryShare) -> Result<Bytes, Status> {
    let mut gathered = Vec::new();
    while let Some(frame) = next(body).await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if gathered.len() + data.len() > longest + PREFIX {
            let text = format!("the request is longer than {longest} bytes: send it in pieces");
            return Err(Status::resource_exhausted(text));
        }
        share.grow(COPIES * data.len())?;
        gathered.extend_from_slice(&data);
    }
    Ok(gathered.into())
}

/// A request that has been gathered.
struct Whole(Option<Bytes>);

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

struct Held<T> {
    body: Body,
    _held: T,
}

impl<T: Unpin> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    /// A refusal consists of headers alone: gRPC clients treat an empty frame after them as a broken stream.
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails each time that it is read.
    struct Gone(usize);

    impl HttpBody for Gone {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            self.0 += 1;
            assert!(self.0 < 10, "read again and again");
            Poll::Ready(Some(Err(Status::cancelled("gone"))))
        }
    }

    #[test]
    fn a_client_that_is_gone_is_left_alone() -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(drain(&mut Body::new(Gone(0))));
        Ok(())
    }
}
