//! The TUN device, the UDP socket and the wake-up descriptor, without waiting and in batches where Linux has them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use esp::TrafficClass;

use crate::control::{Control, received_class};

/// Packets moved between two looks at the other direction.
pub const BATCH: usize = 64;
/// Room for one packet: 9000 bytes of inner packet, and ESP around it.
pub const ROOM: usize = 9216;
/// Bytes queued in the kernel, so that a burst survives until the pump's next turn.
const SOCKET_BUFFER: libc::c_int = 4 << 20;

/// `BATCH` packets side by side.
pub struct Batch {
    bytes: Vec<u8>,
    lens: [usize; BATCH],
    classes: [TrafficClass; BATCH],
}

impl Batch {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; BATCH * ROOM],
            lens: [0; BATCH],
            classes: [TrafficClass(0); BATCH],
        }
    }

    pub fn packet(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * ROOM..][..self.lens[index]]
    }

    pub fn room(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * ROOM..][..ROOM]
    }

    pub fn set_len(&mut self, index: usize, len: usize) {
        self.lens[index] = len.min(ROOM);
    }
}

impl Batch {
    /// The outer header's, of a datagram that came or that shall go.
    pub fn class(&self, index: usize) -> TrafficClass {
        self.classes[index]
    }

    pub fn set_class(&mut self, index: usize, class: TrafficClass) {
        self.classes[index] = class;
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

/// A layer-3 TUN device without packet information; it goes away with the last descriptor.
pub struct Tun(File);

impl Tun {
    pub fn open(name: &str) -> io::Result<Self> {
        // SAFETY: `ifreq` is plain data, for which all zeros is a value.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        // One byte stays for the terminating zero.
        if name.is_empty()
            || name.len() >= request.ifr_name.len()
            || name.contains(['/', '\0', ' ', '%'])
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not an interface name",
            ));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) })?;
        Ok(Self(file))
    }

    /// Fills `batch`; the number of packets, less than `BATCH` when none is left.
    pub fn read_batch(&self, batch: &mut Batch) -> io::Result<usize> {
        for index in 0..BATCH {
            match (&self.0).read(batch.room(index)) {
                Ok(len) => batch.set_len(index, len),
                Err(error) if index > 0 || error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(index);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(BATCH)
    }

    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.0).write(packet).map(|_| ())
    }
}

/// The UDP socket that carries ESP (RFC 3948), on every IPv4 address.
pub struct Udp(UdpSocket);

impl Udp {
    pub fn bind(port: u16) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
        socket.set_nonblocking(true)?;
        for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            set_option(&socket, libc::SOL_SOCKET, option, SOCKET_BUFFER)?;
        }
        set_option(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        Ok(Self(socket))
    }

    pub fn port(&self) -> io::Result<u16> {
        Ok(self.0.local_addr()?.port())
    }

    /// Fills `batch`; the number of datagrams, less than `BATCH` when none is left. One too long comes out empty.
    pub fn receive_batch(&self, batch: &mut Batch) -> io::Result<usize> {
        let base = batch.bytes.as_mut_ptr();
        // SAFETY: plain data; each vector points to its own ROOM bytes of `batch.bytes`, which has BATCH * ROOM.
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|index| libc::iovec {
            iov_base: unsafe { base.add(index * ROOM) }.cast(),
            iov_len: ROOM,
        });
        let mut messages = message_headers(&mut vectors, None);
        let mut controls = [Control::default(); BATCH];
        for (message, control) in messages.iter_mut().zip(&mut controls) {
            control.attach(&mut message.msg_hdr);
        }
        // SAFETY: all headers and vectors outlive the call and point to live memory.
        let count = unsafe {
            libc::recvmmsg(
                self.0.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock {
                Ok(0)
            } else {
                Err(error)
            };
        }
        for (index, message) in messages.iter().take(count as usize).enumerate() {
            let whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            batch.set_len(index, if whole { message.msg_len as usize } else { 0 });
            // SAFETY: recvmmsg filled this header in, and `controls` is alive.
            batch.classes[index] = unsafe { received_class(&message.msg_hdr) };
        }
        Ok(count as usize)
    }

    /// Sends the first `to.len()` packets of `batch`, waiting for room in the socket; how many could not be sent.
    pub fn send_batch(&self, batch: &mut Batch, to: &[SocketAddrV4]) -> usize {
        let count = to.len().min(BATCH);
        let base = batch.bytes.as_mut_ptr();
        // SAFETY: plain data; each vector points to its own ROOM bytes of `batch.bytes`, which has BATCH * ROOM.
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|index| libc::iovec {
            iov_base: unsafe { base.add(index * ROOM) }.cast(),
            iov_len: batch.lens[index],
        });
        let mut names: [libc::sockaddr_in; BATCH] =
            std::array::from_fn(|index| socket_address(to.get(index).or(to.first())));
        let mut messages = message_headers(&mut vectors, Some(&mut names));
        let mut controls = [Control::default(); BATCH];
        for (index, (message, control)) in messages.iter_mut().zip(&mut controls).enumerate() {
            control.set(&mut message.msg_hdr, batch.classes[index]);
        }
        let (mut sent, mut failed) = (0, 0);
        while sent < count {
            let rest = &mut messages[sent..count];
            // SAFETY: all headers, vectors and names outlive the call and point to live memory.
            let done = unsafe {
                let len = rest.len() as libc::c_uint;
                libc::sendmmsg(
                    self.0.as_raw_fd(),
                    rest.as_mut_ptr(),
                    len,
                    libc::MSG_DONTWAIT as _,
                )
            };
            if done >= 0 {
                sent += done as usize;
            } else if io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock
                || !wait(
                    [(self.0.as_raw_fd(), libc::POLLOUT)],
                    Some(Duration::from_millis(100)),
                )[0]
            {
                // The error belongs to the first of the rest.
                failed += 1;
                sent += 1;
            }
        }
        failed
    }

    pub fn send(&self, packet: &[u8], to: SocketAddrV4) -> io::Result<()> {
        self.0.send_to(packet, to).map(|_| ())
    }
}

/// An eventfd: readable from `raise` until `clear`.
pub struct Signal(File);

impl Signal {
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers; the descriptor it returns is ours alone.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: as above.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }.into()))
    }

    pub fn raise(&self) {
        // It fails only when it is raised 2^64 times over.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    pub fn clear(&self) {
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsRawFd for Udp {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsRawFd for Signal {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Waits until a descriptor is ready for its events, or the timeout; which ones are.
pub fn wait<const N: usize>(
    wanted: [(RawFd, libc::c_short); N],
    timeout: Option<Duration>,
) -> [bool; N] {
    let mut polled = wanted.map(|(fd, events)| libc::pollfd {
        fd,
        events,
        revents: 0,
    });
    let millis = timeout.map_or(-1, |timeout| {
        timeout.as_millis().min(i32::MAX as u128) as libc::c_int
    });
    // SAFETY: `polled` holds N entries and outlives the call.
    unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, millis) };
    polled.map(|entry| entry.revents != 0)
}

/// Seconds of CLOCK_MONOTONIC, as Python's `time.monotonic`.
pub fn monotonic() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn message_headers(
    vectors: &mut [libc::iovec; BATCH],
    mut names: Option<&mut [libc::sockaddr_in; BATCH]>,
) -> [libc::mmsghdr; BATCH] {
    std::array::from_fn(|index| {
        // SAFETY: `mmsghdr` is plain data, for which all zeros is a value.
        let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
        message.msg_hdr.msg_iov = &mut vectors[index];
        message.msg_hdr.msg_iovlen = 1;
        if let Some(names) = &mut names {
            message.msg_hdr.msg_name = (&raw mut names[index]).cast();
            message.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;
        }
        message
    })
}

fn socket_address(address: Option<&SocketAddrV4>) -> libc::sockaddr_in {
    // SAFETY: `sockaddr_in` is plain data, for which all zeros is a value.
    let mut name: libc::sockaddr_in = unsafe { mem::zeroed() };
    if let Some(address) = address {
        name.sin_family = libc::AF_INET as libc::sa_family_t;
        name.sin_port = address.port().to_be();
        name.sin_addr.s_addr = u32::from(*address.ip()).to_be();
    }
    name
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

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
