//! Packets between a controller and the program, by way of the CPU port (section 16.1).
//!
//! ```text
//!   PacketOut ─ header in front ─► inbox ─ wakes ─► data plane: ingress at the CPU port
//!   PacketIn  ◄ header parsed ──── outbox ◄──────── data plane: sent to the CPU port
//! ```
//! Both queues are bounded. A client that sends faster than packets are run waits; a packet to a client that lags is lost, and
//! counted.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::device::{Device, no_program};
use crate::fault::Fault;
use crate::proto::p4rt;
use crate::role::Access;
use crate::schema::ControllerHeader;

/// Packets that wait, in each direction.
pub const BACKLOG: usize = 256;
/// Bytes of a packet-out that is shown to its sender again when it is refused.
pub const MAX_ECHO: usize = 4096;
/// Bytes of a packet-out's payload.
pub const MAX_PAYLOAD: usize = 65_535;

/// A frame that the program sent to the CPU port, and the header that it begins with, if any.
pub struct Punted {
    header: Option<Arc<ControllerHeader>>,
    frame: Vec<u8>,
}

/// Between the control plane and the data-plane thread.
pub struct PacketIo {
    /// `None`: there is no packet I/O.
    pub cpu_port: Option<u16>,
    to_inbox: mpsc::Sender<Vec<u8>>,
    inbox: Mutex<mpsc::Receiver<Vec<u8>>>,
    wake: UnixStream,
    woken: UnixStream,
    outbox: mpsc::Sender<Punted>,
    lost: AtomicU64,
}

impl PacketIo {
    /// What is punted comes out of the receiver, which goes to [`run`].
    ///
    /// # Errors
    /// The operating system gives no socket.
    pub fn new(cpu_port: Option<u16>) -> io::Result<(Self, mpsc::Receiver<Punted>)> {
        let (to_inbox, inbox) = mpsc::channel(BACKLOG);
        let (outbox, punted) = mpsc::channel(BACKLOG);
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let io = Self {
            cpu_port,
            to_inbox,
            inbox: Mutex::new(inbox),
            wake,
            woken,
            outbox,
            lost: AtomicU64::new(0),
        };
        Ok((io, punted))
    }

    /// Hands a frame to the data plane, and waits while its inbox is full.
    pub async fn inject(&self, frame: Vec<u8>) {
        if self.to_inbox.send(frame).await.is_ok() {
            // A socket that is full has woken the thread already.
            let _ = (&self.wake).write(&[0]);
        }
    }

    /// Readable when a frame waits.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// Call it before the last look into the inbox.
    pub fn clear_wake(&self) {
        while matches!((&self.woken).read(&mut [0; BACKLOG]), Ok(BACKLOG)) {}
    }

    /// The next frame for the program.
    pub fn next(&self) -> Option<Vec<u8>> {
        self.inbox.lock().try_recv().ok()
    }

    pub fn is_empty(&self) -> bool {
        self.inbox.lock().is_empty()
    }

    /// Takes a frame that the program sent to the CPU port.
    pub fn punt(&self, header: Option<&Arc<ControllerHeader>>, frame: &[u8]) {
        let punted = Punted {
            header: header.cloned(),
            frame: frame.to_vec(),
        };
        if self.outbox.try_send(punted).is_err() {
            self.count_lost(1);
        }
    }

    /// Packet-ins that no client got: the queue was full, the client lagged, or the frame was shorter than the header.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn count_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}

/// Moves packet-ins to their clients. Runs until the data plane is gone.
pub async fn run(device: Arc<Device>, mut punted: mpsc::Receiver<Punted>) {
    while let Some(Punted { header, frame }) = punted.recv().await {
        let parsed = match &header {
            Some(header) => header.parse(&frame),
            None => Some((Vec::new(), frame.as_slice())),
        };
        let Some((metadata, payload)) = parsed else {
            device.plane.packet_io.count_lost(1);
            continue;
        };
        let packet = p4rt::PacketIn {
            payload: payload.to_vec(),
            metadata,
        };
        let owner = header.as_ref().and_then(|header| header.owner.as_ref());
        let lost = device.sessions.lock().send_packet_in(&packet, owner);
        device.plane.packet_io.count_lost(lost);
    }
}

impl Device {
    /// Runs a packet of a role's primary through the program.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` without a CPU port, `PERMISSION_DENIED` for a role that sends none, `FAILED_PRECONDITION` before the first program, `INVALID_ARGUMENT` for metadata that is
    /// not the P4Info's, or a packet that is too long.
    pub async fn packet_out(&self, access: &Access, packet: &p4rt::PacketOut) -> Result<(), Fault> {
        let io = &self.plane.packet_io;
        if io.cpu_port.is_none() {
            let text = "this switch has no CPU port: start it with --cpu-port";
            return Err(Fault::unsupported(text));
        }
        if packet.payload.len() > MAX_PAYLOAD {
            let text = format!("the payload is longer than {MAX_PAYLOAD} bytes");
            return Err(Fault::invalid(text));
        }
        let mut frame = {
            let installed = self.installed.read().await;
            let schema = &installed.as_ref().ok_or_else(no_program)?.schema;
            let header = schema.packet_out.as_ref();
            let owner = header.and_then(|header| header.owner.as_ref());
            if !access.may_send_packets(header.map(|header| header.id), owner) {
                return Err(Fault::denied("the client's role sends no packets"));
            }
            match header {
                Some(header) => header.emit(&packet.metadata)?,
                None if packet.metadata.is_empty() => Vec::new(),
                None => {
                    let text = "the program has no packet_out header, hence no metadata";
                    return Err(Fault::invalid(text));
                }
            }
        };
        frame.extend_from_slice(&packet.payload);
        io.inject(frame).await;
        Ok(())
    }
}
