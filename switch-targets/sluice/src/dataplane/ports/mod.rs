//! Ports: numbers that P4 knows on one side, network interfaces on the other.
//!
//! ```text
//!   OPEN ──the interface fails──► CLOSED ──a second later, if it is there again──► OPEN
//! ```
//! Each data-plane thread has a `Port` of every number. Packets of one flow come to one of them; all of them can send.

mod attachment;
mod backlog;
mod fanout;
#[cfg(test)]
mod fanout_tests;
mod frames;
pub mod given;
pub mod handover;
mod options;
mod port_arg;
mod ring;
mod socket;
mod xdp;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use sluice_pipeline::Queue;
use thiserror::Error;
use tracing::{info, warn};

use attachment::{Attachment, Way};
use backlog::Backlog;
use fanout::{Group, Share};
use frames::IntakeCounts;
pub use frames::Outgoing;
pub use port_arg::{MAX_PORT, PortArg};
pub use socket::{SentCounts, wait};

const REOPEN_AFTER: Duration = Duration::from_secs(1);
/// The kernel lets go of an interface's AF_XDP queue some time after the process that had it: tried so often, so far apart.
const BUSY_TRIES: usize = 20;
const BUSY_WAIT: Duration = Duration::from_millis(50);

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
        io::ErrorKind::PermissionDenied => {
            "Run as root, or with the capability CAP_NET_RAW, and for xdp CAP_NET_ADMIN and CAP_BPF"
        }
        io::ErrorKind::ResourceBusy => {
            "Take the other XDP program off it (`ip link set DEV xdp off`)"
        }
        _ => "See `ip link show` for its state",
    }
}

/// Opens the ports for so many threads: for each thread, its own of every port. `offload`: takes super-frames, and makes them, if the
/// kernel can. A port on AF_XDP is received from by one thread; on it there are no super-frames.
///
/// # Errors
/// With the reason and a remedy.
pub fn open(ports: &[PortArg], offload: bool, threads: usize) -> Result<Vec<Vec<Port>>, PortError> {
    let one = |ways: Vec<Way>| {
        let ports = ports.iter().zip(ways);
        ports.map(|(port, way)| Port::open(port, way)).collect()
    };
    ways(ports, offload, threads).into_iter().map(one).collect()
}

/// For each thread, the way in which it opens every port.
fn ways(ports: &[PortArg], offload: bool, threads: usize) -> Vec<Vec<Way>> {
    let groups: Vec<_> = ports.iter().map(|_| Group::default()).collect();
    let one = |thread| {
        let ports = ports.iter().zip(&groups);
        let ways = ports.map(|(port, group)| {
            match (port.xdp, usize::from(port.number) % threads == thread) {
                (true, true) => Way::Xdp,
                (true, false) => Way::Packet {
                    offload,
                    share: Share::Nothing,
                },
                (false, _) => Way::Packet {
                    offload,
                    share: match threads {
                        1 => Share::All,
                        _ => Share::Flows(group.clone()),
                    },
                },
            }
        });
        ways.collect()
    };
    (0..threads).map(one).collect()
}

pub struct Port {
    pub number: u16,
    interface: String,
    way: Way,
    state: PortState,
    stats: PortStats,
    warned: Warned,
    /// The packets that wait, while the program reads queues.
    backlog: Option<Backlog>,
}

enum PortState {
    Open(Attachment),
    Closed { since: Instant },
}

/// Counts of a thread's part of a port.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortStats {
    /// Packets; a super-frame is as many as it stands for.
    pub received: u64,
    pub received_bytes: u64,
    pub received_super_frames: u64,
    /// Super-frames and unfinished checksums that were not what they said.
    pub malformed: u64,
    /// Came in faster than they were taken.
    pub missed: u64,
    pub oversize: u64,
    pub unfinished: u64,
    pub sent: SentCounts,
    /// Bytes of all packets that there were to send.
    pub sent_bytes: u64,
}

/// The warnings that were given: each is given once.
#[derive(Default)]
struct Warned {
    oversize: bool,
    unfinished: bool,
    malformed: bool,
    too_long: bool,
}

impl Port {
    fn open(port: &PortArg, way: Way) -> Result<Self, PortError> {
        let PortArg {
            number, interface, ..
        } = port.clone();
        let busy = |attachment: &io::Result<Attachment>| matches!(attachment, Err(cause) if cause.kind() == io::ErrorKind::ResourceBusy);
        let mut attachment = Attachment::open(&interface, &way);
        for _ in 1..BUSY_TRIES {
            if !busy(&attachment) {
                break;
            }
            std::thread::sleep(BUSY_WAIT);
            attachment = Attachment::open(&interface, &way);
        }
        match attachment {
            Ok(socket) => {
                if let Some(shortcoming) = socket.shortcoming(&way) {
                    warn!(port = number, interface, "{shortcoming}");
                }
                Ok(Self {
                    number,
                    interface,
                    way,
                    state: PortState::Open(socket),
                    stats: PortStats::default(),
                    warned: Warned::default(),
                    backlog: None,
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
            PortState::Open(socket) => Some(socket.fd()),
            PortState::Closed { .. } => None,
        }
    }

    /// Returns whether no frame has come in.
    pub fn is_empty(&self) -> bool {
        match &self.state {
            PortState::Open(socket) => socket.is_empty(),
            PortState::Closed { .. } => true,
        }
    }

    /// Hands over the packets that have come in since, until there have been `limit`. Returns how many frames they came in.
    pub fn receive(&mut self, now: Instant, limit: usize, mut each: impl FnMut(&[u8])) -> usize {
        let PortState::Open(socket) = &mut self.state else {
            return 0;
        };
        let mut intake = IntakeCounts::default();
        let bytes = &mut self.stats.received_bytes;
        let taken = socket.receive(limit, &mut intake, |packet| {
            *bytes += packet.len() as u64;
            each(packet);
        });
        self.count(&intake);
        taken.unwrap_or_else(|error| {
            self.close(now, &error);
            0
        })
    }

    fn count(&mut self, intake: &IntakeCounts) {
        let (number, interface) = (self.number, &self.interface);
        self.stats.received += intake.packets;
        self.stats.received_super_frames += intake.super_frames;
        self.stats.missed += intake.missed;
        if intake.oversize > 0 && !std::mem::replace(&mut self.warned.oversize, true) {
            warn!(
                port = number,
                interface,
                "dropped a frame that is longer than the MTU on its way in: give both ends one MTU, and with --no-offload switch off the sender's (ethtool -K DEV tso off gso off)"
            );
        }
        self.stats.oversize += intake.oversize;
        if intake.unfinished > 0 && !std::mem::replace(&mut self.warned.unfinished, true) {
            warn!(
                port = number,
                interface,
                "frames arrive without their checksums: switch off the sender's offload (ethtool -K DEV tx off), or leave out --no-offload"
            );
        }
        self.stats.unfinished += intake.unfinished;
        let fault = intake.fault;
        if let Some(fault) = fault.filter(|_| !std::mem::replace(&mut self.warned.malformed, true))
        {
            warn!(
                port = number,
                interface, "dropped a frame that is not what its sender's offload says: {fault}"
            );
        }
        self.stats.malformed += intake.malformed;
    }

    /// Looks after the interface when its descriptor has been reported.
    pub fn check(&mut self, now: Instant) {
        let PortState::Open(socket) = &self.state else {
            return;
        };
        if let Err(error) = socket.check() {
            self.close(now, &error);
        }
    }

    fn close(&mut self, now: Instant, error: &io::Error) {
        warn!(port = self.number, interface = self.interface, %error, "port is down");
        (self.state, self.backlog) = (PortState::Closed { since: now }, None);
    }

    /// Sends the frames and forgets them.
    pub fn send(&mut self, outgoing: &mut Outgoing) {
        if outgoing.is_empty() {
            return;
        }
        self.stats.sent_bytes += outgoing.bytes;
        let PortState::Open(socket) = &mut self.state else {
            return outgoing.clear();
        };
        let before = self
            .backlog
            .is_some()
            .then(|| (socket.held(), outgoing.frames.len() as u64, outgoing.bytes));
        let (sent, refused) = socket.send(outgoing);
        if let (Some(backlog), Some((before, frames, bytes))) = (&mut self.backlog, before)
            && sent.frames > 0
        {
            let (bytes, held) = (bytes * sent.frames / frames, [before, socket.held()]);
            backlog.sent(sent.frames, bytes, held, Instant::now());
        }
        if let Some(protocol) = refused {
            info!(
                port = self.number,
                interface = self.interface,
                "takes no super-frames of {protocol:?}: packets are sent one by one"
            );
        }
        if sent.too_long > 0 && !std::mem::replace(&mut self.warned.too_long, true) {
            warn!(
                port = self.number,
                interface = self.interface,
                "dropped a frame that is longer than the MTU"
            );
        }
        self.stats.sent.frames += sent.frames;
        self.stats.sent.super_frames += sent.super_frames;
        self.stats.sent.too_long += sent.too_long;
        self.stats.sent.refused += sent.refused;
    }

    /// The packets that this thread has sent since the first call and that still wait.
    pub fn queue(&mut self, now: Instant) -> Queue {
        match &mut self.state {
            PortState::Open(socket) => {
                let backlog = self.backlog.get_or_insert_default();
                backlog.queue(socket.held(), now)
            }
            PortState::Closed { .. } => Queue::default(),
        }
    }

    /// Ends the account of packets that wait.
    pub fn forget_queue(&mut self) {
        self.backlog = None;
    }

    /// Takes the counts since the last call, with the frames that the kernel dropped before they reached us.
    pub fn take_stats(&mut self) -> PortStats {
        if let PortState::Open(socket) = &mut self.state {
            self.stats.missed += socket.missed();
        }
        std::mem::take(&mut self.stats)
    }

    /// Follows an open interface's MTU, and tries a closed one again when it is time.
    pub fn refresh(&mut self, now: Instant) {
        let since = match &mut self.state {
            PortState::Open(socket) => return socket.refresh(&self.interface),
            PortState::Closed { since } => *since,
        };
        if now < since + REOPEN_AFTER {
            return;
        }
        self.state = match Attachment::open(&self.interface, &self.way) {
            Ok(socket) => {
                info!(
                    port = self.number,
                    interface = self.interface,
                    "port is open again"
                );
                PortState::Open(socket)
            }
            Err(_) => PortState::Closed { since: now },
        };
    }
}
