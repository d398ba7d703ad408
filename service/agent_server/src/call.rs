//! A call of a device: its message goes to Python whole, its replies come back one by one.
//!
//! gRPC's frames are made here, because the buffers of tonic's codec stay as long as the longest message of a stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Either, Empty, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Request, Response};
use tokio::sync::mpsc;
use tonic::{Code, Status};

use crate::devices::{CallPermit, Devices};
use crate::news::{Asked, Board, Device, News, Reply};

/// Bytes of the longest request: a certificate's, or what a device tells of itself, is a few thousand.
pub const LONGEST: usize = 16 << 10;
/// A request must arrive within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// The delay before a call beyond the rate is refused: a device that calls again at once would otherwise keep a processor busy.
const DELAY: Duration = Duration::from_millis(100);
/// Bytes in front of a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// A refusal is a head and nothing else.
pub type Answer = Either<Replies, Empty<Bytes>>;

/// A refusal of a call without asking Python.
pub struct Refusal {
    pub code: i32,
    pub said: String,
    /// A google.rpc.Status.
    pub details: Bytes,
}

impl Refusal {
    fn status(&self) -> Status {
        let code = Code::from_i32(self.code);
        Status::with_details(code, self.said.clone(), self.details.clone())
    }
}

/// The state that all calls share: the way to Python, the limits, and the refusals.
pub struct Called {
    pub board: Arc<Board<News>>,
    pub devices: Arc<Devices>,
    pub too_large: Refusal,
    pub too_often: Refusal,
}

impl Called {
    /// The listener calls this twice a second.
    pub fn look(&self) {
        self.devices.cut_denied();
        for limited in self.devices.limited() {
            self.board.tell(News::Limited(limited));
        }
    }
}

/// Answers any method: a method that answers once is a stream of one message on the wire.
pub async fn answer(
    called: Arc<Called>,
    device: Device,
    request: Request<Incoming>,
) -> Response<Answer> {
    let Some(call) = called.devices.call(device.fingerprint, device.address) else {
        drop(request);
        tokio::time::sleep(DELAY).await;
        return refusal(&called.too_often.status());
    };
    let path = request.uri().path().to_owned();
    let message = tokio::time::timeout(PATIENCE, gathered(request.into_body())).await;
    let message = match message {
        Ok(Ok(Some(message))) => message,
        Ok(Ok(None)) => return refusal(&called.too_large.status()),
        Ok(Err(status)) => return refusal(&status),
        Err(_) => return refusal(&Status::deadline_exceeded("the request takes too long")),
    };
    let turn = call.turn().await;
    let board = Arc::clone(&called.board);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let (replies, coming) = mpsc::unbounded_channel();
    let mut replying = Replies {
        number,
        coming,
        board: Arc::clone(&board),
        first: None,
        ended: false,
        _call: call,
    };
    board.tell(News::Asked(Asked {
        number,
        path,
        message,
        device,
        replies,
    }));
    // A stream's head comes with its first message.
    let first = replying.coming.recv().await.map(|reply| *reply);
    drop(turn);
    match first {
        Some(Reply::Message(first)) => {
            replying.first = Some(first);
            let mut response = Response::new(Either::Left(replying));
            response.headers_mut().insert(CONTENT_TYPE, GRPC);
            response
        }
        end => {
            replying.ended = true;
            refusal(&end_of(end))
        }
    }
}

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Puts the prefix in front of a message.
pub fn framed(message: &[u8]) -> Option<Bytes> {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len().try_into().ok()?);
    framed.put(message);
    Some(framed.freeze())
}

/// Gathers the request's one message; none when it is too long.
async fn gathered(body: Incoming) -> Result<Option<Bytes>, Status> {
    let mut whole = match Limited::new(body, PREFIX + LONGEST).collect().await {
        Ok(whole) => whole.to_bytes(),
        Err(error) if error.is::<hyper::Error>() => {
            return Err(Status::cancelled("the request broke off"));
        }
        Err(_) => return Ok(None),
    };
    if whole.len() < PREFIX {
        return Err(Status::internal("the request has no message"));
    }
    if whole.get_u8() != 0 {
        return Err(Status::unimplemented("the request is compressed"));
    }
    match usize::try_from(whole.get_u32()) == Ok(whole.len()) {
        true => Ok(Some(whole)),
        false => Err(Status::internal("the request is not one message")),
    }
}

fn refusal(status: &Status) -> Response<Answer> {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.headers_mut() = headers(status);
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

fn end_of(reply: Option<Reply>) -> Status {
    match reply {
        Some(Reply::End(status)) => status,
        _ => Status::internal("the call ended without an answer"),
    }
}

fn headers(status: &Status) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if status.add_header(&mut headers).is_err() {
        // The status has text that no header may carry.
        headers.insert(Status::GRPC_STATUS, (status.code() as i32).into());
    }
    headers
}

pub struct Replies {
    number: u64,
    coming: mpsc::UnboundedReceiver<Box<Reply>>,
    board: Arc<Board<News>>,
    first: Option<Bytes>,
    ended: bool,
    _call: CallPermit,
}

impl Body for Replies {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = match self.first.take() {
            Some(first) => Some(Reply::Message(first)),
            None => ready!(self.coming.poll_recv(context)).map(|reply| *reply),
        };
        Poll::Ready(Some(Ok(match next {
            Some(Reply::Message(message)) => {
                self.board.tell(News::Taken(self.number));
                Frame::data(message)
            }
            end => {
                self.ended = true;
                Frame::trailers(headers(&end_of(end)))
            }
        })))
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        if !self.ended {
            self.board.tell(News::Gone(self.number));
        }
    }
}
