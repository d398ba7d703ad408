//! The CPU port: two bounded queues between the control plane and the first thread of the data plane.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::schema::ControllerHeader;

/// Packets that wait, in each direction.
pub const BACKLOG: usize = 256;

/// A frame that the program sent to the CPU port, and the header that it begins with, if any.
pub struct Punted {
    pub header: Option<Arc<ControllerHeader>>,
    pub frame: Vec<u8>,
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
    /// Punted packets come out of the receiver, which goes to the control plane.
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

    /// The frames that wait for the program, which stay.
    pub fn waiting(&self) -> Vec<Vec<u8>> {
        let mut inbox = self.inbox.lock();
        let frames: Vec<_> = std::iter::from_fn(|| inbox.try_recv().ok()).collect();
        for frame in &frames {
            // There is room for what has just been taken out.
            let _ = self.to_inbox.try_send(frame.clone());
        }
        frames
    }

    /// Frames that have waited in another process wait here now, as far as there is room.
    pub fn resume(&self, frames: Vec<Vec<u8>>) {
        for frame in frames {
            let _ = self.to_inbox.try_send(frame);
        }
        let _ = (&self.wake).write(&[0]);
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

    pub fn count_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}
