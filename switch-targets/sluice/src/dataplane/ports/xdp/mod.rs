//! AF_XDP sockets: frames of one interface go past the kernel's stack, in chunks of memory that the socket shares with it.
//!
//! ```text
//!   ours ──fill──► kernel ──rx──► ours        a chunk that comes in
//!   ours ──tx────► kernel ──completion──► ours   a chunk that goes out
//! ```
//! The interface is ours alone then: the kernel beside us sees none of its frames. There are no super-frames here.

#![allow(unsafe_code)]

mod program;
mod rings;

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;

use libc::{c_int, c_uint, xdp_desc};
use offload::link_header;

use super::frames::{IntakeCounts, Outgoing};
use super::options;
use super::socket::SentCounts;
use program::Attached;
use rings::{Mapping, Ring};

/// Chunks for each direction.
const CHUNKS: u32 = 2048;
const SMALL_CHUNK: usize = 2048;
const LARGE_CHUNK: usize = 4096;
/// XDP_PACKET_HEADROOM: what the kernel keeps free before a frame.
const HEADROOM: usize = 256;
/// Ethernet and two VLAN tags.
const LINK_HEADER: usize = 14 + 8;
/// Longest packet that a chunk holds.
const MAX_MTU: usize = LARGE_CHUNK - HEADROOM - LINK_HEADER;

pub(super) struct XdpSocket {
    // Fields are dropped in this order.
    program: Attached,
    fd: OwnedFd,
    rx: Ring<xdp_desc>,
    fill: Ring<u64>,
    tx: Ring<xdp_desc>,
    completion: Ring<u64>,
    chunks: Mapping,
    chunk: usize,
    /// Chunks to send with.
    free: Vec<u64>,
    /// AF_XDP sockets answer no questions about interfaces.
    asking: UnixDatagram,
    mtu: usize,
    lost: u64,
}

impl XdpSocket {
    /// Takes an interface over, its only queue.
    ///
    /// # Errors
    /// `NotFound` when there is no such interface; `PermissionDenied` without CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN;
    /// `ResourceBusy` when it has an XDP program; `Unsupported`, with the reason, when it has several queues or too large an MTU.
    pub fn open(interface: &str) -> io::Result<Self> {
        let index = options::index(interface)?;
        let asking = UnixDatagram::unbound()?;
        // SAFETY: no pointers; the descriptor is checked before it is owned.
        let fd = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(options::check(libc::socket(libc::AF_XDP, kind, 0))?)
        };
        let mtu = options::mtu(asking.as_fd(), interface)?;
        if mtu > MAX_MTU {
            let reason = format!("its MTU of {mtu} is beyond {MAX_MTU}, the most with xdp");
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        let queues = options::receive_queues(asking.as_fd(), interface);
        if queues > 1 {
            let reason = format!(
                "it has {queues} receive queues, with xdp it must have one (ethtool -L {interface} combined 1)"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        let chunk = if mtu + HEADROOM + LINK_HEADER <= SMALL_CHUNK {
            SMALL_CHUNK
        } else {
            LARGE_CHUNK
        };
        let chunks = Mapping::anonymous(2 * CHUNKS as usize * chunk)?;
        let memory = libc::xdp_umem_reg {
            addr: chunks.address(),
            len: (2 * CHUNKS as usize * chunk) as u64,
            chunk_size: chunk as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        options::set(fd.as_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, &memory)?;
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            options::set(fd.as_fd(), libc::SOL_XDP, ring, &CHUNKS)?;
        }
        // SAFETY: integers, for which all zeros is a value.
        let mut at: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        options::get(fd.as_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut at)?;
        let page = libc::off_t::try_from;
        let (fill_page, completion_page) = (
            page(libc::XDP_UMEM_PGOFF_FILL_RING).map_err(io::Error::other)?,
            page(libc::XDP_UMEM_PGOFF_COMPLETION_RING).map_err(io::Error::other)?,
        );
        let rx = Ring::map(fd.as_fd(), libc::XDP_PGOFF_RX_RING, &at.rx, CHUNKS)?;
        let tx = Ring::map(fd.as_fd(), libc::XDP_PGOFF_TX_RING, &at.tx, CHUNKS)?;
        let mut fill = Ring::map(fd.as_fd(), fill_page, &at.fr, CHUNKS)?;
        let completion = Ring::map(fd.as_fd(), completion_page, &at.cr, CHUNKS)?;
        let address = |number: u32| u64::from(number) * chunk as u64;
        for number in 0..CHUNKS {
            fill.push(address(number));
        }
        bind(fd.as_fd(), index)?;
        Ok(Self {
            program: Attached::new(fd.as_fd(), index)?,
            fd,
            rx,
            fill,
            tx,
            completion,
            chunks,
            chunk,
            free: (CHUNKS..2 * CHUNKS).map(address).collect(),
            asking,
            mtu,
            lost: 0,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The driver has no XDP: it is the kernel's, and slower.
    pub fn is_generic(&self) -> bool {
        self.program.generic
    }

    /// # Errors
    /// The interface is gone.
    pub fn check(&self) -> io::Result<()> {
        options::fault(self.fd())
    }

    pub fn is_empty(&self) -> bool {
        self.rx.len() == 0
    }

    /// Hands over up to `limit` frames. Returns how many there were.
    pub fn receive(
        &mut self,
        limit: usize,
        intake: &mut IntakeCounts,
        mut each: impl FnMut(&[u8]),
    ) -> usize {
        for count in 0..limit {
            let Some(descriptor) = self.rx.pop() else {
                return count;
            };
            let start = descriptor.addr as usize;
            if let Some(frame) = self.chunks.bytes(start..start + descriptor.len as usize) {
                intake.packets += 1;
                each(frame);
            }
            self.fill
                .push(descriptor.addr - descriptor.addr % self.chunk as u64);
        }
        limit
    }

    /// Sends all frames that the interface takes and forgets the others.
    pub fn send(&mut self, outgoing: &mut Outgoing) -> SentCounts {
        let mut sent = SentCounts::default();
        for frame in &outgoing.frames {
            if frame.len() > link_header(frame) + self.mtu {
                sent.too_long += 1;
            } else if self.put(frame) {
                sent.frames += 1;
            } else {
                sent.refused += 1;
            }
        }
        self.kick();
        outgoing.clear();
        sent
    }

    /// False: it finds no room, even after those before it are gone.
    fn put(&mut self, frame: &[u8]) -> bool {
        if self.free.is_empty() {
            self.kick();
        }
        let Some(address) = self.free.pop() else {
            return false;
        };
        let start = address as usize;
        let Some(chunk) = self.chunks.bytes_mut(start..start + frame.len()) else {
            return false;
        };
        chunk.copy_from_slice(frame);
        let (len, options) = (frame.len() as u32, 0);
        self.tx.push(xdp_desc {
            addr: address,
            len,
            options,
        })
    }

    /// Has the kernel send what is on the ring: it sends some frames a call.
    fn kick(&mut self) {
        loop {
            let waiting = self.tx.len();
            self.reap();
            if waiting == 0 {
                return;
            }
            // SAFETY: no bytes are sent along, and there is no address.
            unsafe {
                libc::sendto(
                    self.fd.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            self.reap();
            if self.tx.len() == waiting {
                return;
            }
        }
    }

    /// Takes chunks back that have been sent.
    fn reap(&mut self) {
        while let Some(address) = self.completion.pop() {
            self.free.push(address);
        }
    }

    /// Bytes of the chunks that wait to be sent.
    pub fn held(&mut self) -> u64 {
        self.reap();
        (CHUNKS as usize - self.free.len()) as u64 * self.chunk as u64
    }

    /// Frames that came in faster than they were taken, since the last call.
    pub fn missed(&mut self) -> u64 {
        // SAFETY: integers, for which all zeros is a value.
        let mut stats: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        let asked = options::get(self.fd(), libc::SOL_XDP, libc::XDP_STATISTICS, &mut stats);
        let lost = match asked {
            Ok(()) => stats.rx_dropped + stats.rx_ring_full,
            Err(_) => self.lost,
        };
        let more = lost.saturating_sub(self.lost);
        self.lost = lost;
        more
    }

    pub fn refresh(&mut self, interface: &str) {
        if let Ok(mtu) = options::mtu(self.asking.as_fd(), interface) {
            self.mtu = mtu.min(MAX_MTU);
        }
    }
}

fn bind(fd: BorrowedFd<'_>, interface: c_uint) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: 0,
        sxdp_ifindex: interface,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: `address` is a sockaddr_xdp of `length` bytes that outlives the call.
    let result: c_int = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    options::check(result).map(drop)
}
