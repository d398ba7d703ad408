//! A request's body on its way to Python, with limits for its length and time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

/// A request broke off. The cause does not matter: the client is gone or gets a refusal.
#[derive(Debug)]
pub struct Cut;

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

/// A request's body, passed on as it arrives, with limits for its length and time.
pub struct Upload {
    body: Incoming,
    left: u64,
    late: Pin<Box<Sleep>>,
    overrun: Arc<AtomicBool>,
    deaf: Arc<AtomicBool>,
}

impl Upload {
    /// `longest` is in bytes. `overrun` becomes true when the body is longer. While `deaf` is true, nothing more is read.
    pub fn new(
        body: Incoming,
        longest: u64,
        patience: Duration,
        overrun: Arc<AtomicBool>,
        deaf: Arc<AtomicBool>,
    ) -> Self {
        Self {
            body,
            left: longest,
            late: Box::pin(tokio::time::sleep(patience)),
            overrun,
            deaf,
        }
    }
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
