//! The two ways to an interface.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use offload::Transport;

use super::fanout::Share;
use super::frames::{IntakeCounts, Outgoing};
use super::given::GivenSocket;
use super::socket::{PacketSocket, SentCounts};
use super::xdp::XdpSocket;

/// The way in which an interface is opened.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Beside the kernel's own stack.
    Packet {
        /// Super-frames and unfinished checksums, if the kernel has them.
        offload: bool,
        share: Share,
    },
    /// In place of the kernel's own stack.
    Xdp,
}

pub(super) enum Attachment {
    Packet(PacketSocket),
    Xdp(Box<XdpSocket>),
}

impl Attachment {
    /// # Errors
    /// As [`PacketSocket::open`] and [`XdpSocket::open`].
    pub fn open(interface: &str, way: &Way) -> io::Result<Self> {
        match way {
            Way::Packet { offload, share } => {
                PacketSocket::open(interface, *offload, share).map(Self::Packet)
            }
            Way::Xdp => XdpSocket::open(interface).map(|socket| Self::Xdp(Box::new(socket))),
        }
    }

    /// Goes on with a socket of another process.
    ///
    /// # Errors
    /// As [`PacketSocket::take`]; AF_XDP sockets are not handed over.
    pub fn take(interface: &str, way: &Way, given: &GivenSocket, fd: OwnedFd) -> io::Result<Self> {
        match way {
            Way::Packet { share, .. } => {
                PacketSocket::take(interface, share, given, fd).map(Self::Packet)
            }
            Way::Xdp => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The shortcoming that the user may want to know about.
    pub fn shortcoming(&self, way: &Way) -> Option<&'static str> {
        match self {
            Self::Packet(socket) => (matches!(way, Way::Packet { offload: true, .. })
                && !socket.has_offload())
            .then_some("this kernel gives packet sockets no super-frames"),
            Self::Xdp(socket) => socket
                .is_generic()
                .then_some("the interface's driver has no XDP: the kernel's generic one is slower"),
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packet(socket) => socket.fd(),
            Self::Xdp(socket) => socket.fd(),
        }
    }

    /// Returns whether no frame has come in.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Packet(socket) => socket.is_empty(),
            Self::Xdp(socket) => socket.is_empty(),
        }
    }

    /// Hands over the packets that have come in, without waiting, until there have been `limit`. Returns how many frames they came in.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn receive(
        &mut self,
        limit: usize,
        intake: &mut IntakeCounts,
        each: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        match self {
            Self::Packet(socket) => socket.receive(limit, intake, each),
            Self::Xdp(socket) => Ok(socket.receive(limit, intake, each)),
        }
    }

    /// # Errors
    /// The interface is down or gone.
    pub fn check(&self) -> io::Result<()> {
        match self {
            Self::Packet(socket) => socket.check(),
            Self::Xdp(socket) => socket.check(),
        }
    }

    /// Sends what the interface takes and forgets the rest. Returns also which super-frames it has refused from now on.
    pub fn send(&mut self, outgoing: &mut Outgoing) -> (SentCounts, Option<Transport>) {
        match self {
            Self::Packet(socket) => socket.send(outgoing),
            Self::Xdp(socket) => (socket.send(outgoing), None),
        }
    }

    /// Frames that came in faster than they were taken, since the last call.
    pub fn missed(&mut self) -> u64 {
        match self {
            Self::Packet(socket) => socket.missed(),
            Self::Xdp(socket) => socket.missed(),
        }
    }

    /// Bytes of kernel memory for frames that wait to be sent.
    pub fn held(&mut self) -> u64 {
        match self {
            Self::Packet(socket) => socket.held(),
            Self::Xdp(socket) => socket.held(),
        }
    }

    /// Follows the interface's MTU.
    pub fn refresh(&mut self, interface: &str) {
        match self {
            Self::Packet(socket) => socket.refresh(interface),
            Self::Xdp(socket) => socket.refresh(interface),
        }
    }
}
