//! Packet sockets (packet(7)): whole frames of one interface. All unsafe code of this crate is here and in `ring.rs`.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, c_void, iovec, mmsghdr, socklen_t};

use super::frames::{Intake, Outgoing};
use super::ring::Ring;

/// Frames that one system call sends at most.
const BATCH: usize = 64;
/// Of the thread that forwards: who receives a frame must not take its place before it has sent the others of a batch.
const NICENESS: c_int = -10;

pub struct PacketSocket {
    ring: Ring,
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
        let mtu = mtu(fd.as_fd(), interface)?;
        let socket = Self {
            ring: Ring::open(fd.as_fd(), mtu)?,
            fd,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
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
        self.fd.as_fd()
    }

    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Hands what has come in over, up to `limit` frames, without waiting. Returns how many there were.
    pub fn receive(&mut self, limit: usize, intake: &mut Intake, each: impl FnMut(&[u8])) -> usize {
        self.ring.take(limit, intake, each)
    }

    /// # Errors
    /// The interface is down or gone.
    pub fn check(&self) -> io::Result<()> {
        let mut error: c_int = 0;
        let mut length = size_of::<c_int>() as socklen_t;
        // SAFETY: the value is `length` bytes that outlive the call.
        check(unsafe {
            let value = (&raw mut error).cast();
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                value,
                &raw mut length,
            )
        })?;
        match error {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Sends all frames that the interface takes and forgets the others.
    pub fn send(&self, outgoing: &mut Outgoing) -> Sent {
        let mut sent = Sent::default();
        let mut rest = outgoing.frames.as_slice();
        while !rest.is_empty() {
            let mut vectors = [const { MaybeUninit::<iovec>::uninit() }; BATCH];
            let mut headers = [const { MaybeUninit::<mmsghdr>::uninit() }; BATCH];
            let count = rest.len().min(BATCH);
            for ((frame, vector), header) in rest.iter().zip(&mut vectors).zip(&mut headers) {
                let vector = vector.write(iovec {
                    iov_base: frame.as_ptr().cast_mut().cast(),
                    iov_len: frame.len(),
                });
                // SAFETY: all zeros is a valid value of this plain C struct.
                let header = header.write(unsafe { zeroed() });
                header.msg_hdr.msg_iov = vector;
                header.msg_hdr.msg_iovlen = 1;
            }
            // SAFETY: the first `count` headers are set, each points to one vector, and that to bytes that are only read;
            // all outlive the call.
            let result = unsafe {
                libc::sendmmsg(
                    self.fd.as_raw_fd(),
                    headers.as_mut_ptr().cast(),
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
        set(self.fd(), level, option, value)
    }
}

/// `value` is an integer or a plain C struct, as the option asks for.
pub(super) fn set<T>(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let pointer = (value as *const T).cast::<c_void>();
    let length = size_of::<T>() as socklen_t;
    // SAFETY: `pointer` leads to `length` bytes that outlive the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, pointer, length) }).map(drop)
}

/// Bytes of the interface's longest IP packet.
fn mtu(fd: BorrowedFd<'_>, interface: &str) -> io::Result<usize> {
    // SAFETY: all zeros is a valid value of this plain C struct.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request is an ifreq with a terminated name; the call writes the MTU into it.
    let mtu = unsafe {
        check(libc::ioctl(
            fd.as_raw_fd(),
            libc::SIOCGIFMTU,
            &raw mut request,
        ))?;
        request.ifr_ifru.ifru_mtu
    };
    usize::try_from(mtu).map_err(io::Error::other)
}

/// Lets the calling thread go before others, where CAP_SYS_NICE allows it. Returns whether it does.
pub fn go_first() -> bool {
    // SAFETY: no pointers. On Linux 0 is the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) == 0 }
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
