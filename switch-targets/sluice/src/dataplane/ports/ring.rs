//! The receive ring (packet(7), TPACKET_V2): the kernel puts frames into memory that it shares with us, without a system call.
//!
//! ```text
//!   │ slot 0 │ slot 1 │ … │ slot N-1 │     KERNEL ──a frame comes──► USER ──we are done──► KERNEL
//!              ▲ next                      both sides go round in the same order
//!   slot: header │ address │ room for a VLAN tag, or virtio header │ frame │
//! ```
//! A slot has room for a frame of the interface's MTU. With PACKET_COPY_THRESH the kernel queues what is longer, super-frames, on the
//! socket, and says so in a slot (TP_STATUS_COPY), so that the order is one.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_uint, c_void, tpacket2_hdr};
use offload::{VNET_LEN, Vnet};

use super::frames::FrameInfo;
use super::given::GivenRing;
use super::options::set;

/// Bytes of frames that the kernel keeps for us when we are late.
const RING: usize = 8 << 20;
/// Allocation unit of the kernel's.
const BLOCK: usize = 64 << 10;
/// Before the frame: header, address, what aligns the IP header behind, virtio header; behind it: a tag that stayed in.
const AROUND: usize = 128;
const SMALLEST_SLOT: usize = 2048;

pub(super) struct Ring {
    start: NonNull<u8>,
    slot: usize,
    slots: usize,
    next: usize,
    /// The kernel puts a virtio header before each frame.
    vnet: bool,
}

// SAFETY: the mapping belongs to this value alone, and no method needs a particular thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a ring for frames of up to `mtu` bytes behind their link header. The socket must not be bound yet.
    pub(super) fn open(fd: BorrowedFd<'_>, mtu: usize, vnet: bool) -> io::Result<Self> {
        let slot = (mtu + AROUND).next_power_of_two().max(SMALLEST_SLOT);
        let block = BLOCK.max(slot);
        let blocks = RING.max(block) / block;
        let slots = blocks * (block / slot);
        let number = |value: usize| c_uint::try_from(value).map_err(io::Error::other);
        let request = libc::tpacket_req {
            tp_block_size: number(block)?,
            tp_block_nr: number(blocks)?,
            tp_frame_size: number(slot)?,
            tp_frame_nr: number(slots)?,
        };
        let version = libc::tpacket_versions::TPACKET_V2 as c_int;
        set(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        Self::map(fd, (slot, slots, 0), vnet)
    }

    /// Maps the ring of a socket that another process has opened, and goes on where that process stopped.
    pub(super) fn take(fd: BorrowedFd<'_>, given: &GivenRing, vnet: bool) -> io::Result<Self> {
        let number = |value: u64| usize::try_from(value).map_err(io::Error::other);
        let (slot, slots, next) = (
            number(given.slot)?,
            number(given.slots)?,
            number(given.next)?,
        );
        let is_ring = slot.is_power_of_two() && slot >= SMALLEST_SLOT && next < slots;
        // The kernel refuses a mapping of another length than its ring's.
        match slot.checked_mul(slots) {
            Some(_) if is_ring => Self::map(fd, (slot, slots, next), vnet),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    pub(super) fn give(&self) -> GivenRing {
        GivenRing {
            slot: self.slot as u64,
            slots: self.slots as u64,
            next: self.next as u64,
        }
    }

    fn map(
        fd: BorrowedFd<'_>,
        (slot, slots, next): (usize, usize, usize),
        vnet: bool,
    ) -> io::Result<Self> {
        // SAFETY: a new mapping, which nothing else knows; the result is checked.
        let start = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                slots * slot,
                access,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast::<c_void>() != libc::MAP_FAILED => Ok(Self {
                start,
                slot,
                slots,
                next,
                vnet,
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0
    }

    /// The next frame, and what it lies in, until it is given back.
    pub(super) fn front(&mut self) -> Option<(FrameInfo, &mut [u8])> {
        if self.is_empty() {
            return None;
        }
        let slot = self.slot(self.next).as_ptr();
        // SAFETY: the status says that this slot is ours until we give it back. A slot begins with the header, which
        // is aligned as the slot is; the bytes behind it are disjoint from it.
        let (header, bytes) = unsafe {
            let header = slot.cast::<tpacket2_hdr>().read();
            let behind = size_of::<tpacket2_hdr>();
            (
                header,
                std::slice::from_raw_parts_mut(slot.add(behind), self.slot - behind),
            )
        };
        let start = usize::from(header.tp_mac).saturating_sub(size_of::<tpacket2_hdr>());
        let vnet = self
            .vnet
            .then(|| bytes.get(..start)?.last_chunk::<VNET_LEN>());
        let arrived = FrameInfo {
            status: header.tp_status,
            length: header.tp_len as usize,
            taken: header.tp_snaplen as usize,
            start,
            tci: header.tp_vlan_tci,
            tpid: header.tp_vlan_tpid,
            vnet: vnet.flatten().copied().map(Vnet::parse),
        };
        Some((arrived, bytes))
    }

    /// Gives the front slot back to the kernel.
    pub(super) fn release(&mut self) {
        self.status(self.next)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = if self.next + 1 == self.slots {
            0
        } else {
            self.next + 1
        };
    }

    fn slot(&self, index: usize) -> NonNull<u8> {
        // SAFETY: callers name slots of the ring, and the mapping holds `slots` of them.
        unsafe { self.start.add(index * self.slot) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a slot begins with its status, an aligned 32-bit word that both sides access atomically.
        unsafe { AtomicU32::from_ptr(self.slot(index).as_ptr().cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.slots * self.slot) };
    }
}
