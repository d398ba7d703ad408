//! Packet sockets (packet(7)): whole frames of one interface, beside the kernel's own stack.

#![allow(unsafe_code)]

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, iovec, mmsghdr, socklen_t};
use offload::{Link, Mergeable, Train, Transport, VNET_LEN};

use super::fanout::{Membership, Share, deafen, hear};
use super::frames::{FrameInfo, IntakeCounts, Outgoing, TAG};
use super::options::{check, fault, get, index, mtu, set};
use super::ring::Ring;

/// Messages that one system call sends at most.
const BATCH: usize = 64;
/// Bytes of super-frames that wait on their way in, and on their way out: as much as TCP has under way on a fast path.
const QUEUE: c_int = 4 << 20;
/// Room for the longest super-frame: Ethernet, two VLAN tags, an IP packet.
const LARGE: usize = 14 + 2 * TAG + 65535;

pub struct PacketSocket {
    /// The receive ring; none in a socket that only sends.
    pub(super) ring: Option<Ring>,
    pub(super) fd: OwnedFd,
    pub(super) offload: Option<Offload>,
    /// Leaves the count of its group when the socket is gone.
    pub(super) membership: Option<Membership>,
}

/// The state for super-frames, if they are enabled and the kernel supports them.
pub(super) struct Offload {
    /// Room for a super-frame that is too long for the ring, and for a tag before it.
    large: Box<[u8]>,
    pub(super) may: Mergeable,
}

/// The fate of outgoing frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentCounts {
    /// Packets.
    pub frames: u64,
    /// Super-frames that they went out in.
    pub super_frames: u64,
    /// Longer than the interface's MTU.
    pub too_long: u64,
    /// The interface's queue was full, it was down, or the frame was too short.
    pub refused: u64,
}

impl PacketSocket {
    /// Opens an interface: promiscuous, without the frames that this host sends itself. `offload`: with super-frames and
    /// unfinished checksums, if the kernel has them.
    ///
    /// # Errors
    /// `NotFound` when there is no such interface; `PermissionDenied` without CAP_NET_RAW; as [`super::fanout::Group::join`].
    pub(super) fn open(interface: &str, offload: bool, share: &Share) -> io::Result<Self> {
        let index = c_int::try_from(index(interface)?).map_err(io::Error::other)?;
        // SAFETY: no pointers; the descriptor is checked before it is owned. Protocol 0 receives nothing before the bind.
        let fd = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?)
        };
        let mtu = mtu(fd.as_fd(), interface)?;
        let offload = if offload {
            Offload::on(fd.as_fd(), mtu)
        } else {
            None
        };
        let ring = match share {
            Share::Nothing => None,
            _ => Some(Ring::open(fd.as_fd(), mtu, offload.is_some())?),
        };
        let mut socket = Self {
            ring,
            fd,
            offload,
            membership: None,
        };
        // Between binding and joining it would receive all.
        if !matches!(share, Share::All) {
            deafen(socket.fd())?;
        }
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
        if let Share::Flows(group) = share {
            socket.membership = Some(group.join(socket.fd())?);
            hear(socket.fd())?;
        }
        Ok(socket)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn is_empty(&self) -> bool {
        self.ring.as_ref().is_none_or(Ring::is_empty)
    }

    pub fn has_offload(&self) -> bool {
        self.offload.is_some()
    }

    /// Hands over the packets that have come in, without waiting, until there have been `limit`; a super-frame is taken as a whole.
    /// Returns how many frames they came in.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn receive(
        &mut self,
        limit: usize,
        intake: &mut IntakeCounts,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let Some(ring) = &mut self.ring else {
            return Ok(0);
        };
        let mut taken = 0;
        while intake.packets < limit as u64 && taken < limit {
            let Some((arrived, slot)) = ring.front() else {
                break;
            };
            let queued = arrived.status & libc::TP_STATUS_COPY != 0;
            let is_super = arrived.vnet.is_some_and(|vnet| vnet.is_super());
            match &mut self.offload {
                Some(offload) if queued => {
                    let arrived = offload.fetch(self.fd.as_fd(), arrived)?;
                    intake.take(&arrived, &mut offload.large, &mut each);
                }
                // Cut off, because the queue had no room.
                _ if is_super && arrived.taken < arrived.length => intake.missed += 1,
                _ => intake.take(&arrived, slot, &mut each),
            }
            ring.release();
            taken += 1;
        }
        Ok(taken)
    }

    /// # Errors
    /// The interface is down or gone.
    pub fn check(&self) -> io::Result<()> {
        fault(self.fd())
    }

    /// Sends all frames that the interface takes and forgets the others. Returns also which super-frames it has refused from now on.
    pub fn send(&mut self, outgoing: &mut Outgoing) -> (SentCounts, Option<Transport>) {
        let (mut sent, mut refused) = (SentCounts::default(), None);
        let (frames, merger) = (&outgoing.frames, &mut outgoing.merger);
        let may = self.offload.as_ref().map(|offload| &offload.may);
        merger.merge(0..frames.len(), may, |number| &frames[number]);
        while let Some(train) = self.send_trains(frames, merger.trains(), &mut sent) {
            let rest = &merger.trains()[train..];
            refused = rest[0].protocol();
            let mut rest: Vec<_> = rest.iter().flat_map(Train::packets).copied().collect();
            rest.sort_unstable();
            if let Some(offload) = &mut self.offload {
                offload.may.forbid(refused);
            }
            let may = self.offload.as_ref().map(|offload| &offload.may);
            merger.merge(rest, may, |number| &frames[number]);
        }
        outgoing.clear();
        (sent, refused)
    }

    /// Sends what the interface takes. Stops at a super-frame of a kind that it refuses, and returns its index.
    fn send_trains(
        &self,
        frames: &[Vec<u8>],
        trains: &[Train],
        sent: &mut SentCounts,
    ) -> Option<usize> {
        let with_head = self.offload.is_some();
        let mut vectors = Vec::with_capacity(BATCH + frames.len());
        let mut from = 0;
        while from < trains.len() {
            let rest = &trains[from..];
            let count = rest.len().min(BATCH);
            vectors.clear();
            for train in &rest[..count] {
                if with_head {
                    vectors.push(vector(train.head()));
                }
                let packets = train.packets().iter();
                vectors.extend(packets.map(|number| vector(&frames[*number][train.headers()..])));
            }
            let mut headers = [const { MaybeUninit::<mmsghdr>::uninit() }; BATCH];
            let mut at = vectors.as_mut_ptr();
            for (train, header) in rest.iter().zip(&mut headers) {
                let length = train.packets().len() + usize::from(with_head);
                // SAFETY: all zeros is a valid value of this plain C struct.
                let header = header.write(unsafe { zeroed() });
                header.msg_hdr.msg_iov = at;
                header.msg_hdr.msg_iovlen = length;
                at = at.wrapping_add(length);
            }
            // SAFETY: the first `count` headers are set, each points to its own of `vectors`, and those to bytes that are only
            // read; all outlive the call.
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
                    for train in &rest[..taken] {
                        sent.frames += train.packets().len() as u64;
                        sent.super_frames += u64::from(train.protocol().is_some());
                    }
                    from += taken;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let errno = error.raw_os_error();
                    let count = rest[0].packets().len() as u64;
                    match errno {
                        Some(libc::EINVAL | libc::EMSGSIZE) if count > 1 => return Some(from),
                        Some(libc::EMSGSIZE) => sent.too_long += count,
                        _ => sent.refused += count,
                    }
                    from += 1;
                }
            }
        }
        None
    }

    /// Bytes of kernel memory for frames that wait to be sent.
    pub fn held(&self) -> u64 {
        let mut bytes: c_int = 0;
        // SAFETY: SIOCOUTQ, which is TIOCOUTQ's number, writes an integer, which outlives the call.
        let asked = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        check(asked).map_or(0, |_| u64::try_from(bytes).unwrap_or(0))
    }

    /// Follows the interface's MTU.
    pub fn refresh(&mut self, interface: &str) {
        if let (Some(offload), Ok(mtu)) = (&mut self.offload, mtu(self.fd.as_fd(), interface)) {
            offload.may.mtu = mtu;
        }
    }

    /// Frames that came in faster than they were taken, since the last call.
    pub fn missed(&self) -> u64 {
        // SAFETY: all zeros is a valid value of this plain C struct.
        let mut stats: libc::tpacket_stats = unsafe { zeroed() };
        match get(
            self.fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            &mut stats,
        ) {
            Ok(()) => u64::from(stats.tp_drops),
            Err(_) => 0,
        }
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        set(self.fd(), level, option, value)
    }
}

impl Offload {
    /// Call this before the ring is opened: afterwards the kernel refuses PACKET_VNET_HDR with EBUSY.
    fn on(fd: BorrowedFd<'_>, mtu: usize) -> Option<Self> {
        set(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1).ok()?;
        set(fd, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1).ok()?;
        for (force, option) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ] {
            // Beyond the system's limit with CAP_NET_ADMIN, up to it without.
            let _ = set(fd, libc::SOL_SOCKET, force, &QUEUE)
                .or_else(|_| set(fd, libc::SOL_SOCKET, option, &QUEUE));
        }
        Some(Self::with(mtu, true, true))
    }

    pub(super) fn with(mtu: usize, tcp: bool, udp: bool) -> Self {
        Self {
            large: vec![0; TAG + LARGE].into(),
            may: Mergeable {
                link: Link::Ethernet,
                mtu,
                tcp,
                udp,
            },
        }
    }

    /// The frame that the kernel has queued beside a slot.
    fn fetch(&mut self, fd: BorrowedFd<'_>, arrived: FrameInfo) -> io::Result<FrameInfo> {
        let mut head = [0; VNET_LEN];
        let mut vectors = [&mut head[..], &mut self.large[TAG..]].map(|bytes| iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        });
        // SAFETY: all zeros is a valid value of this plain C struct.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = vectors.as_mut_ptr();
        header.msg_iovlen = vectors.len();
        // SAFETY: the header points to two vectors, and those to bytes that nothing else uses; all outlive the call.
        let length = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
        let length = match usize::try_from(length) {
            Ok(length) => length,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => 0,
                error => return Err(error),
            },
        };
        // A frame that is too long for the ring is a super-frame, or longer than the MTU.
        let whole = arrived.vnet.is_some_and(|vnet| vnet.is_super());
        Ok(FrameInfo {
            start: TAG,
            taken: if whole {
                length.saturating_sub(VNET_LEN)
            } else {
                0
            },
            ..arrived
        })
    }
}

fn vector(bytes: &[u8]) -> iovec {
    iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
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
