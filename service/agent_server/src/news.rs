//! News for Python, in order.

use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use culvert_admission::Report;
use tokio::sync::mpsc;
use tonic::Status;

use crate::devices::{Fingerprint, Limited};

/// Events that get one line in the log with a count, not a line each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// A connection was refused at a limit, or an older one was closed for it.
    Connections,
    /// A client did not finish the TLS handshake.
    Handshakes,
    /// The operating system refused a connection.
    Descriptors,
    /// A source exceeded its rate of requests.
    Requests,
}

impl Condition {
    pub const ALL: [Self; 4] = [
        Self::Connections,
        Self::Handshakes,
        Self::Descriptors,
        Self::Requests,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connection limit reached",
            Self::Handshakes => "handshakes failed",
            Self::Descriptors => "connections not accepted by the system",
            Self::Requests => "requests limited",
        }
    }
}

pub struct Told {
    pub condition: Condition,
    pub report: Report,
}

pub enum News {
    Asked(Asked),
    /// The connection takes the next message of this call.
    Taken(u64),
    /// The client has cancelled this call.
    Gone(u64),
    Limited(Limited),
    Told(Told),
    Gateway(GatewayNews),
    /// No connection of a device is left, and none comes.
    Ended,
}

impl From<Told> for News {
    fn from(told: Told) -> Self {
        Self::Told(told)
    }
}

/// A gateway's connection has begun, and can be taken at this path; or it has ended.
pub struct GatewayNews {
    pub name: String,
    pub path: PathBuf,
    pub connected: bool,
}

/// A call, with all that its device has sent.
pub struct Asked {
    pub number: u64,
    /// "/package.Service/Method"
    pub path: String,
    pub message: Bytes,
    pub device: Device,
    /// Boxed: a channel has room for 32 of them from the beginning.
    pub replies: mpsc::UnboundedSender<Box<Reply>>,
}

/// The device at the other end of a connection.
#[derive(Clone, Copy)]
pub struct Device {
    pub address: IpAddr,
    pub fingerprint: Fingerprint,
}

pub enum Reply {
    Message(Bytes),
    /// The last one.
    End(Status),
}

pub struct Board<N> {
    news: Mutex<Vec<N>>,
    bell: UnixStream,
    heard: UnixStream,
}

impl<N> Board<N> {
    pub fn new() -> io::Result<Self> {
        let (bell, heard) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        Ok(Self {
            news: Mutex::new(Vec::new()),
            bell,
            heard,
        })
    }

    /// Readable while there is something to take.
    pub fn fd(&self) -> RawFd {
        self.heard.as_raw_fd()
    }

    pub fn tell(&self, one: N) {
        let mut news = self.news();
        if news.is_empty() {
            // The pair cannot be full: taking the news takes the byte.
            let _ = (&self.bell).write(&[0]);
        }
        news.push(one);
    }

    pub fn take(&self) -> Vec<N> {
        let mut news = self.news();
        let _ = (&self.heard).read(&mut [0; 8]);
        std::mem::take(&mut *news)
    }

    fn news(&self) -> MutexGuard<'_, Vec<N>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
