//! The byte streams below hyper.
//!
//! `Wire` is the client's stream. It replaces the empty answer that hyper itself gives to a malformed request by a
//! problem+json answer. It reads on for a while after the last answer, so that a client that is still sending can read
//! that answer.
//! `Inward` is the stream to Python. It accepts an answer that arrives before the whole request was sent.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

/// The time and the bytes that a client may continue to send for after its connection's last answer. If bytes were left
/// unread, the kernel would reset the connection, and the client could lose the answer (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 1 << 20;
/// The beginning of hyper's own answers, a header that they have, and the length of the longest.
const BARE: &[u8] = b"HTTP/1.1 4";
const NO_BODY: &[u8] = b"\r\ncontent-length: 0\r\n";
const BARE_MAX: usize = 200;

pub struct Wire {
    stream: TlsStream<TcpStream>,
    /// The application has answered, and nothing was read since.
    answering: Arc<AtomicBool>,
    /// A whole response, head and body, after which the connection ends.
    malformed: Bytes,
    instead: Option<Bytes>,
    lingers: Option<Lingers>,
}

struct Lingers {
    late: Pin<Box<Sleep>>,
    left: usize,
}

impl Wire {
    pub fn new(stream: TlsStream<TcpStream>, answering: Arc<AtomicBool>, malformed: Bytes) -> Self {
        Self {
            stream,
            answering,
            malformed,
            instead: None,
            lingers: None,
        }
    }

    fn linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let lingers = self.lingers.get_or_insert_with(|| Lingers {
            late: Box::pin(tokio::time::sleep(LINGER)),
            left: LINGER_BYTES,
        });
        let mut discarded = [0; 4096];
        while lingers.left > 0 && lingers.late.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut discarded);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    lingers.left = lingers.left.saturating_sub(buffer.filled().len());
                }
                _ => break,
            }
        }
        Poll::Ready(())
    }

    fn is_bare(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(BARE)
            && bytes.len() <= BARE_MAX
            && bytes.windows(NO_BODY.len()).any(|it| it == NO_BODY)
            && !self.answering.load(Ordering::Relaxed)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            // hyper reads again only after it has written the answer.
            self.answering.store(false, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.instead.is_none() && self.is_bare(bytes) {
            self.instead = Some(self.malformed.clone());
        }
        while let Some(mut instead) = self.instead.take() {
            if instead.is_empty() {
                return Poll::Ready(Ok(bytes.len()));
            }
            let polled = Pin::new(&mut self.stream).poll_write(context, &instead);
            if let Poll::Ready(Ok(written)) = polled {
                instead.advance(written);
            }
            self.instead = Some(instead);
            ready!(polled)?;
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingers.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        ready!(self.linger(context));
        Poll::Ready(Ok(()))
    }
}

pub struct Inward {
    stream: UnixStream,
    /// Python takes no more of the request.
    deaf: Arc<AtomicBool>,
}

impl Inward {
    pub fn new(stream: UnixStream, deaf: Arc<AtomicBool>) -> Self {
        Self { stream, deaf }
    }
}

impl AsyncRead for Inward {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Inward {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        Poll::Ready(Ok(written.unwrap_or_else(|_| {
            self.deaf.store(true, Ordering::Relaxed);
            bytes.len()
        })))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
