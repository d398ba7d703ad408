//! Packet sockets (packet(7)): whole frames of one interface, a batch a system call. All unsafe code of this crate is here.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, c_void, iovec, mmsghdr, socklen_t};

use super::frames::{BATCH, FRAME, Outgoing, Received, SLOT, TAG};

/// Bytes that the kernel queues for us when we are late.
const RECEIVE_BUFFER: c_int = 8 << 20;

pub struct PacketSocket {
    fd: OwnedFd,
}

/// What became of outgoing frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub frames: u64,
    /// Longer than the interface's MTU.
    pub too_long: u64,
    /// The interface's queue was full, it was down, or the frame was too short.
    pub refused: u64,
}

impl PacketSocket {
    /// Opens an interface: promiscuous, without the frames that this host sends itself.
    ///
    /// # Errors
    /// `NotFound` when there is no such interface; `PermissionDenied` without CAP_NET_RAW.
    pub fn open(interface: &str) -> io::Result<Self> {
        let name = CString::new(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: `name` is a C string that outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let index = c_int::try_from(index).map_err(io::Error::other)?;
        // SAFETY: no pointers; the descriptor is checked before it is owned. Protocol 0 receives nothing before the bind.
        let fd = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?)
        };
        let socket = Self { fd };
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        // Beyond the system's limit only with CAP_NET_ADMIN; without, the limit has to do.
        let _ = socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER);
        let _ = socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER);
        let promiscuous = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = size_of::<libc::sockaddr_ll>() as socklen_t;
        // SAFETY: `address` is a sockaddr_ll of `length` bytes that outlives the call.
        check(unsafe { libc::bind(socket.fd.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(socket)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd as _;
        self.fd.as_fd()
    }

    /// Takes what has come in, without waiting. `WouldBlock` is an empty batch.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn receive(&self, into: &mut Received) -> io::Result<()> {
        into.frames.clear();
        // SAFETY: all zeros is a valid value of these plain C structs.
        let (mut vectors, mut headers): ([iovec; BATCH], [mmsghdr; BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        let slots = into.slots.chunks_exact_mut(SLOT);
        for (((slot, control), vector), header) in slots
            .zip(into.control.iter_mut())
            .zip(&mut vectors)
            .zip(&mut headers)
        {
            *vector = iovec {
                iov_base: slot[TAG..].as_mut_ptr().cast(),
                iov_len: FRAME,
            };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = control.0.len();
        }
        // SAFETY: each header points to one vector, and that to FRAME bytes of its own slot; all live until the call ends.
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = match check(count) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => 0,
                _ => return Err(error),
            },
        };
        for (index, header) in headers.iter().take(count).enumerate() {
            let control = into.control[index].0;
            let filled = header.msg_hdr.msg_controllen.min(control.len());
            into.add(
                index,
                header.msg_len as usize,
                header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                &control[..filled],
            );
        }
        Ok(())
    }

    /// Sends all frames that the interface takes and forgets the others.
    pub fn send(&self, outgoing: &mut Outgoing) -> Sent {
        let mut sent = Sent::default();
        let mut rest = outgoing.frames.as_slice();
        while !rest.is_empty() {
            // SAFETY: all zeros is a valid value of these plain C structs.
            let (mut vectors, mut headers): ([iovec; BATCH], [mmsghdr; BATCH]) =
                unsafe { (zeroed(), zeroed()) };
            let count = rest.len().min(BATCH);
            for ((frame, vector), header) in rest.iter().zip(&mut vectors).zip(&mut headers) {
                let bytes = &outgoing.bytes[frame.clone()];
                *vector = iovec {
                    iov_base: bytes.as_ptr().cast_mut().cast(),
                    iov_len: bytes.len(),
                };
                header.msg_hdr.msg_iov = vector;
                header.msg_hdr.msg_iovlen = 1;
            }
            // SAFETY: `count` headers point to one vector each, and those to bytes that are only read; all outlive the call.
            let result = unsafe {
                libc::sendmmsg(
                    self.fd.as_raw_fd(),
                    headers.as_mut_ptr(),
                    count as u32,
                    libc::MSG_DONTWAIT,
                )
            };
            match check(result) {
                Ok(taken) => {
                    let taken = usize::try_from(taken).unwrap_or(0).clamp(1, count);
                    sent.frames += taken as u64;
                    rest = &rest[taken..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    match error.raw_os_error() {
                        Some(libc::EMSGSIZE) => sent.too_long += 1,
                        _ => sent.refused += 1,
                    }
                    rest = &rest[1..];
                }
            }
        }
        outgoing.clear();
        sent
    }

    /// Frames that came in faster than they were taken, since the last call.
    pub fn missed(&self) -> u64 {
        // SAFETY: all zeros is a valid value of this plain C struct.
        let mut stats: libc::tpacket_stats = unsafe { zeroed() };
        let mut length = size_of::<libc::tpacket_stats>() as socklen_t;
        let (value, option) = ((&raw mut stats).cast(), libc::PACKET_STATISTICS);
        // SAFETY: `value` points to `length` bytes that outlive the call.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                option,
                value,
                &raw mut length,
            )
        };
        if result == 0 {
            u64::from(stats.tp_drops)
        } else {
            0
        }
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let (value, length) = (
            (value as *const T).cast::<c_void>(),
            size_of::<T>() as socklen_t,
        );
        // SAFETY: `value` points to `length` bytes of a plain C struct or integer.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, value, length) })
            .map(drop)
    }
}

/// Waits until a descriptor can be read or is broken. Returns for each whether it is.
///
/// # Errors
/// As poll(2); an interruption is a return with nothing ready.
pub fn wait(descriptors: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    let poll = |fd: &BorrowedFd<'_>| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polled: Vec<_> = descriptors.iter().map(poll).collect();
    let timeout = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: pointer and length are of one live vector.
    match check(unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(polled.iter().map(|it| it.revents != 0).collect()),
    }
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
