//! Shares one interface among several threads: each has a packet socket, and the kernel deals the frames out by flow
//! (PACKET_FANOUT_HASH, packet(7)).
//!
//! ```text
//!               ┌─ hash of addresses and ports ─┬─► socket of thread 0
//!   interface ──┤                               ├─► socket of thread 1     one flow, both its directions, one socket
//!               └───────────────────────────────┴─► …
//! ```
//! A fragment is dealt by its addresses alone, so a flow that is fragmented now and then may overtake itself. Full sockets pass nothing
//! on to others (PACKET_FANOUT_FLAG_ROLLOVER), because that reorders.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use libc::{c_int, c_uint};
use parking_lot::Mutex;

use super::options::{get, set};

/// Frames that a packet socket receives.
#[derive(Clone, Debug)]
pub(super) enum Share {
    All,
    /// The flows that the kernel's fanout group deals to it.
    Flows(Group),
    /// No frames: the socket sends only.
    Nothing,
}

/// The sockets of one interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Group(Arc<Mutex<Members>>);

#[derive(Debug, Default)]
struct Members {
    id: u16,
    count: usize,
}

/// Drop it behind its socket.
pub(super) struct Membership(Group);

impl Group {
    /// The socket, which is bound, receives what is dealt to it from now on.
    ///
    /// # Errors
    /// Others of the group are still bound to an interface that is gone.
    pub fn join(&self, fd: BorrowedFd<'_>) -> io::Result<Membership> {
        let mut members = self.0.lock();
        let kind = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        let join = |kind: c_uint, id: u16| {
            let request = kind << 16 | c_uint::from(id);
            set(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &request)
        };
        if members.count == 0 {
            // The kernel finds an id that no other process has.
            join(kind | libc::PACKET_FANOUT_FLAG_UNIQUEID, 0)?;
            let mut made: c_int = 0;
            get(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &mut made)?;
            members.id = made as u16;
        } else {
            join(kind, members.id)?;
        }
        members.count += 1;
        Ok(Membership(self.clone()))
    }

    /// A socket of another process is in the kernel's group `id` already.
    pub fn adopt(&self, id: u16) -> Membership {
        let mut members = self.0.lock();
        (members.id, members.count) = (id, members.count + 1);
        drop(members);
        Membership(self.clone())
    }
}

impl Membership {
    pub fn id(&self) -> u16 {
        self.0.0.lock().id
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.0.lock().count -= 1;
    }
}

/// The socket receives nothing until `hear`.
pub(super) fn deafen(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut refuse = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut refuse,
    };
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

pub(super) fn hear(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}
