//! Ports: numbers that P4 knows on one side, network interfaces on the other.
//!
//! ```text
//!   OPEN ──the interface fails──► CLOSED ──a second later, if it is there again──► OPEN
//! ```

mod frames;
mod socket;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use thiserror::Error;
use tracing::{info, warn};

pub use frames::{Outgoing, Received};
use socket::PacketSocket;
pub use socket::{Sent, wait};

use crate::config::PortArg;

const REOPEN_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
#[error(
    "cannot open interface {interface} for port {number}: {cause}. {}",
    remedy(cause)
)]
pub struct PortError {
    number: u16,
    interface: String,
    cause: io::Error,
}

fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::NotFound => {
            "Create it first, or correct --port (`ip link` lists the interfaces)"
        }
        io::ErrorKind::PermissionDenied => "Run as root, or with the capability CAP_NET_RAW",
        _ => "See `ip link show` for its state",
    }
}

pub struct Port {
    pub number: u16,
    interface: String,
    state: State,
    pub outgoing: Outgoing,
    stats: PortStats,
}

enum State {
    Open(PacketSocket),
    Closed { since: Instant },
}

#[derive(Clone, Copy, Debug, Default)]
pub struct PortStats {
    pub received: u64,
    /// Came in faster than they were taken.
    pub missed: u64,
    pub oversize: u64,
    pub unfinished: u64,
    pub sent: Sent,
}

impl Port {
    /// # Errors
    /// With the reason and a remedy.
    pub fn open(port: &PortArg) -> Result<Self, PortError> {
        let PortArg { number, interface } = port.clone();
        match PacketSocket::open(&interface) {
            Ok(socket) => {
                let (state, outgoing, stats) = (
                    State::Open(socket),
                    Outgoing::default(),
                    PortStats::default(),
                );
                Ok(Self {
                    number,
                    interface,
                    state,
                    outgoing,
                    stats,
                })
            }
            Err(cause) => Err(PortError {
                number,
                interface,
                cause,
            }),
        }
    }

    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Open(socket) => Some(socket.fd()),
            State::Closed { .. } => None,
        }
    }

    /// The frames that have come in since.
    pub fn receive(&mut self, into: &mut Received, now: Instant) {
        let State::Open(socket) = &self.state else {
            return;
        };
        if let Err(error) = socket.receive(into) {
            warn!(port = self.number, interface = self.interface, %error, "port is down");
            self.state = State::Closed { since: now };
        }
        self.stats.received += into.frames().len() as u64;
        self.stats.oversize += std::mem::take(&mut into.oversize);
        let unfinished = std::mem::take(&mut into.unfinished);
        if unfinished > 0 && self.stats.unfinished == 0 {
            warn!(
                port = self.number,
                interface = self.interface,
                "frames arrive without their checksums: switch off the sender's offload (ethtool -K DEV tx off)"
            );
        }
        self.stats.unfinished += unfinished;
    }

    /// Sends what has been put into `outgoing`.
    pub fn send(&mut self) {
        if self.outgoing.is_empty() {
            return;
        }
        let State::Open(socket) = &self.state else {
            return self.outgoing.clear();
        };
        let sent = socket.send(&mut self.outgoing);
        if sent.too_long > 0 && self.stats.sent.too_long == 0 {
            warn!(
                port = self.number,
                interface = self.interface,
                "dropped a frame that is longer than the MTU"
            );
        }
        self.stats.sent.frames += sent.frames;
        self.stats.sent.too_long += sent.too_long;
        self.stats.sent.refused += sent.refused;
    }

    /// The counters, with what the kernel dropped before it reached us.
    pub fn stats(&mut self) -> PortStats {
        if let State::Open(socket) = &self.state {
            self.stats.missed += socket.missed();
        }
        self.stats
    }

    /// Tries a closed interface again when it is time.
    pub fn reopen(&mut self, now: Instant) {
        let State::Closed { since } = self.state else {
            return;
        };
        if now < since + REOPEN_AFTER {
            return;
        }
        self.state = match PacketSocket::open(&self.interface) {
            Ok(socket) => {
                info!(
                    port = self.number,
                    interface = self.interface,
                    "port is open again"
                );
                State::Open(socket)
            }
            Err(_) => State::Closed { since: now },
        };
    }
}
