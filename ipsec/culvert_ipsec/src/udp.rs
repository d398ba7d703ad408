//! The UDP socket that carries ESP (RFC 3948), with many datagrams in a call, and in a message where Linux has that.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::arrivals::{Arrivals, MESSAGES, ROOM};
use crate::control::{Control, received};
use crate::device::{check, wait};
use crate::trains::{Train, Trains};

/// Bytes queued in the kernel, so that a burst survives until the pump's next turn.
const SOCKET_BUFFER: libc::c_int = 4 << 20;
/// Messages sent in one call.
const CALL: usize = 64;
/// A sender waits this long for room in the socket.
const PATIENCE: Duration = Duration::from_millis(100);

/// A UDP socket on every IPv6 and IPv4 address, or on every IPv4 address where Linux has no IPv6.
pub struct Udp {
    socket: UdpSocket,
    v6: bool,
    segmentation: Arc<AtomicBool>,
    gro: bool,
}

impl Udp {
    /// Binds with the offloads that the kernel has, or with none.
    pub fn bind(port: u16, offloads: bool) -> io::Result<Self> {
        let (socket, v6) = match bind(Domain::IPV6, port) {
            Ok(socket) => (socket, true),
            Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => return Err(error),
            Err(_) => (bind(Domain::IPV4, port)?, false),
        };
        for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            set_option(&socket, libc::SOL_SOCKET, option, SOCKET_BUFFER)?;
        }
        set_option(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        // A message that says a packet was too long may be anybody's: no packet is cut for it. The gateway takes no fragments.
        let (option, value) = (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
        set_option(&socket, libc::IPPROTO_IP, option, value)?;
        if v6 {
            let (option, value) = (libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
            set_option(&socket, libc::IPPROTO_IPV6, option, value)?;
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        // Zero for the socket: each message says its own.
        let segmentation =
            offloads && set_option(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let gro = offloads && set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        Ok(Self {
            socket,
            v6,
            segmentation: Arc::new(segmentation.into()),
            gro,
        })
    }

    pub fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// The flag is true while trains leave in one message. It is false for good once a route refuses a train and takes its packets.
    pub fn segmentation(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.segmentation)
    }

    /// Returns whether datagrams of a row arrive in one message.
    pub fn has_gro(&self) -> bool {
        self.gro
    }

    /// Fills `arrivals`. Returns whether more may wait. A datagram too long comes out empty.
    pub fn receive(&self, arrivals: &mut Arrivals) -> io::Result<bool> {
        arrivals.clear();
        let mut rooms = arrivals.bytes().chunks_exact_mut(ROOM);
        let mut vectors: [libc::iovec; MESSAGES] = std::array::from_fn(|_| {
            let room = rooms.next().unwrap_or_default();
            libc::iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: room.len(),
            }
        });
        let mut controls = [Control::default(); MESSAGES];
        let mut messages: [libc::mmsghdr; MESSAGES] = std::array::from_fn(|_| empty_header());
        for ((message, vector), control) in messages.iter_mut().zip(&mut vectors).zip(&mut controls)
        {
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            control.attach(&mut message.msg_hdr);
        }
        // SAFETY: all headers, vectors and controls outlive the call, and each vector points to a room of its own.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                MESSAGES as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock => Ok(false),
                _ => Err(error),
            };
        };
        for message in messages.iter().take(count) {
            let whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            let len = if whole { message.msg_len as usize } else { 0 };
            // SAFETY: recvmmsg filled this header in, and `controls` is alive.
            arrivals.add(len, unsafe { received(&message.msg_hdr) });
        }
        Ok(count == MESSAGES)
    }

    /// Sends all, waiting for room in the socket; how many packets could not be sent.
    pub fn send_trains(&self, trains: &Trains) -> usize {
        let (mut rest, mut failed) = (trains.trains(), 0);
        while let Some(first) = rest.first() {
            if first.packets() > 1 && !self.segmentation.load(Ordering::Relaxed) {
                failed += self.send_apart(trains, first);
                rest = &rest[1..];
                continue;
            }
            match self.send_some(trains, rest) {
                Ok(sent) => rest = &rest[sent..],
                // A device without checksums or a route through IPsec refuses trains. A short MTU refuses their packets too.
                Err(libc::EIO | libc::EINVAL | libc::EMSGSIZE) if first.packets() > 1 => {
                    let lost = self.send_apart(trains, first);
                    if lost == 0 {
                        self.segmentation.store(false, Ordering::Relaxed);
                    }
                    failed += lost;
                    rest = &rest[1..];
                }
                Err(_) => {
                    failed += first.packets();
                    rest = &rest[1..];
                }
            }
        }
        failed
    }

    pub fn send(&self, packet: &[u8], to: SocketAddr) -> io::Result<()> {
        self.socket.send_to(packet, self.spelt(to)).map(|_| ())
    }

    /// The address in the form of the socket's family: an IPv4 address on an IPv6 socket is a mapped one (ipv6(7)).
    fn spelt(&self, to: SocketAddr) -> SocketAddr {
        match to {
            SocketAddr::V4(v4) if self.v6 => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
            _ => to,
        }
    }

    fn send_apart(&self, trains: &Trains, train: &Train) -> usize {
        let packets: Vec<Train> = train.each().collect();
        let (mut rest, mut failed) = (&packets[..], 0);
        while !rest.is_empty() {
            let sent = self.send_some(trains, rest).unwrap_or_else(|_| {
                failed += 1;
                1
            });
            rest = &rest[sent..];
        }
        failed
    }

    /// Sends trains. Returns how many of the first were sent, or the error of the very first one.
    fn send_some(&self, trains: &Trains, rows: &[Train]) -> Result<usize, libc::c_int> {
        let count = rows.len().min(CALL);
        let row = |index: usize| rows.get(index).filter(|_| index < count);
        let mut vectors: [libc::iovec; CALL] = std::array::from_fn(|index| {
            let bytes = row(index).map_or(&[][..], |row| trains.packet(row.bytes.clone()));
            libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            }
        });
        let names: [Option<SockAddr>; CALL] =
            std::array::from_fn(|index| row(index).map(|row| self.spelt(row.to).into()));
        let mut controls = [Control::default(); CALL];
        let mut messages: [libc::mmsghdr; CALL] = std::array::from_fn(|_| empty_header());
        for (index, row) in rows.iter().enumerate().take(count) {
            let header = &mut messages[index].msg_hdr;
            header.msg_iov = &mut vectors[index];
            header.msg_iovlen = 1;
            if let Some(name) = &names[index] {
                header.msg_name = name.as_ptr().cast_mut().cast();
                header.msg_namelen = name.len();
            }
            let segment = (row.packets() > 1).then_some(row.segment as u16);
            controls[index].set(header, row.to.ip(), row.class, segment);
        }
        loop {
            // SAFETY: all headers, vectors, names and controls outlive the call and point to live memory, of which
            // sendmmsg writes the headers' lengths alone.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    count as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            if let Ok(sent) = usize::try_from(sent) {
                return Ok(sent);
            }
            let error = io::Error::last_os_error();
            let full = error.kind() == io::ErrorKind::WouldBlock;
            if !full || !wait([(self.socket.as_raw_fd(), libc::POLLOUT)], Some(PATIENCE))[0] {
                return Err(error.raw_os_error().unwrap_or(libc::EIO));
            }
        }
    }
}

impl AsRawFd for Udp {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: `mmsghdr` is plain data, for which all zeros is a value.
    unsafe { mem::zeroed() }
}

fn bind(domain: Domain, port: u16) -> io::Result<UdpSocket> {
    let socket = Socket::new(domain, Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    let any: SocketAddr = if domain == Domain::IPV6 {
        socket.set_only_v6(false)?;
        (Ipv6Addr::UNSPECIFIED, port).into()
    } else {
        (Ipv4Addr::UNSPECIFIED, port).into()
    };
    socket.bind(&any.into())?;
    Ok(socket.into())
}

fn set_option(
    socket: &UdpSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: it reads `len` bytes of `value`, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            len,
        )
    })
    .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esp::TrafficClass;

    /// SO_NO_CHECK stands for a route that takes single packets only: Linux refuses trains without checksums.
    #[test]
    fn packets_of_a_refused_train_leave_one_by_one() -> io::Result<()> {
        let sink = UdpSocket::bind("127.0.0.1:0")?;
        sink.set_read_timeout(Some(Duration::from_secs(5)))?;
        let udp = Udp::bind(0, true)?;
        set_option(&udp.socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)?;
        let mut trains = Trains::new();
        for number in 0..3 {
            trains
                .room(100)
                .into_iter()
                .for_each(|room| room.fill(number));
            trains.depart(100, sink.local_addr()?, TrafficClass(0));
        }
        assert_eq!(trains.trains().len(), 1);
        assert_eq!(udp.send_trains(&trains), 0);
        assert!(!udp.segmentation().load(Ordering::Relaxed));
        for number in 0..3 {
            let mut packet = [0; 200];
            assert_eq!(sink.recv(&mut packet)?, 100);
            assert_eq!(packet[0], number);
        }
        Ok(())
    }
}
