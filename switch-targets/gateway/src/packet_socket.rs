//! Packet sockets of one interface, which see frames beside the switch's. The only unsafe code of this program.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::Duration;

/// ARP (RFC 826) and IPv6 (RFC 2464), as Ethernet types.
pub const ETH_P_ARP: u16 = 0x0806;
pub const ETH_P_IPV6: u16 = 0x86dd;
const FRAME_MAX: usize = 1514;

/// A program of the kernel's packet filter (BPF): operation, jumps if true and if false, operand.
pub type Filter = [(u16, u8, u8, u32)];

pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Takes frames of this Ethernet type at the interface with this index. `filter`: fewer of them.
    pub fn open(index: i32, ethernet_type: u16, filter: Option<&Filter>) -> io::Result<Self> {
        // SAFETY: no memory is passed; the result is checked and then owned here alone.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        if let Some(filter) = filter {
            attach(&socket, filter)?;
        }
        // SAFETY: zeros are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::sa_family_t::try_from(libc::AF_PACKET).unwrap_or_default();
        address.sll_protocol = ethernet_type.to_be();
        address.sll_ifindex = index;
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).unwrap_or_default();
        // SAFETY: the address is valid for its length.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        if bound < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self(socket))
        }
    }

    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the buffer is valid for its length; the socket is bound to its interface.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// The next frame that has come, without waiting.
    pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        let mut frame = vec![0; FRAME_MAX];
        // SAFETY: the buffer is valid for its length.
        let count = unsafe {
            libc::recv(
                self.0.as_raw_fd(),
                frame.as_mut_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let cause = io::Error::last_os_error();
            return match cause.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(cause),
            };
        };
        frame.truncate(count);
        Ok(Some(frame))
    }
}

/// Waits until one of the sockets has a frame, at most this long.
pub fn wait<'a>(
    sockets: impl IntoIterator<Item = &'a PacketSocket>,
    time: Duration,
) -> io::Result<()> {
    let mut asked: Vec<libc::pollfd> = sockets
        .into_iter()
        .map(|it| libc::pollfd {
            fd: it.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let milliseconds = i32::try_from(time.as_millis().max(1)).unwrap_or(i32::MAX);
    let count = libc::nfds_t::try_from(asked.len()).unwrap_or_default();
    // SAFETY: the pollfds are valid for their count.
    match unsafe { libc::poll(asked.as_mut_ptr(), count, milliseconds) } {
        -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn attach(socket: &OwnedFd, filter: &Filter) -> io::Result<()> {
    let mut program: Vec<libc::sock_filter> = filter
        .iter()
        .map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k })
        .collect();
    let whole = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap_or_default(),
        filter: program.as_mut_ptr(),
    };
    let length = libc::socklen_t::try_from(size_of::<libc::sock_fprog>()).unwrap_or_default();
    // SAFETY: the program outlives the call, which copies it.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const whole).cast(),
            length,
        )
    };
    if set < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
