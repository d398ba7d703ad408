//! Socket options and interface requests to the kernel.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use libc::{c_int, c_uint, c_void, socklen_t};

/// `value` is an integer or a plain C struct, as the option asks for.
pub(super) fn set<T>(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let pointer = (value as *const T).cast::<c_void>();
    let length = size_of::<T>() as socklen_t;
    // SAFETY: `pointer` leads to `length` bytes that outlive the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, pointer, length) }).map(drop)
}

/// `value` is an integer or a plain C struct of integers, as the option asks for.
pub(super) fn get<T: Copy>(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: &mut T,
) -> io::Result<()> {
    let pointer = std::ptr::from_mut(value).cast::<c_void>();
    let mut length = size_of::<T>() as socklen_t;
    let fd = fd.as_raw_fd();
    // SAFETY: `pointer` leads to `length` bytes that outlive the call.
    check(unsafe { libc::getsockopt(fd, level, option, pointer, &raw mut length) }).map(drop)
}

/// # Errors
/// The socket's fault since the last call.
pub(super) fn fault(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut error: c_int = 0;
    get(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
    match error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

pub(super) fn index(interface: &str) -> io::Result<c_uint> {
    let name = CString::new(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `name` is a C string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::ErrorKind::NotFound.into()),
        index => Ok(index),
    }
}

/// The interface that a packet socket is bound to; `None` for a socket of another kind.
pub(super) fn bound_to(fd: BorrowedFd<'_>) -> io::Result<Option<c_uint>> {
    // SAFETY: all zeros is a valid value of this plain C struct.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_ll>() as socklen_t;
    // SAFETY: `address` has `length` bytes, and both outlive the call.
    check(unsafe {
        let address = (&raw mut address).cast();
        libc::getsockname(fd.as_raw_fd(), address, &raw mut length)
    })?;
    let is_packet = address.sll_family == libc::AF_PACKET as u16;
    Ok(is_packet.then_some(address.sll_ifindex as c_uint))
}

/// Bytes of the interface's longest IP packet.
pub(super) fn mtu(fd: BorrowedFd<'_>, interface: &str) -> io::Result<usize> {
    let mut request = request(interface);
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

/// Queues that the interface receives on; one where the driver does not say.
pub(super) fn receive_queues(fd: BorrowedFd<'_>, interface: &str) -> u32 {
    /// `struct ethtool_channels` (linux/ethtool.h).
    #[repr(C)]
    #[derive(Default)]
    struct Channels {
        command: u32,
        most: [u32; 4],
        receive: u32,
        transmit: u32,
        other: u32,
        combined: u32,
    }
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    let mut request = request(interface);
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the request is an ifreq with a terminated name and leads to what the command asks for; both outlive the call.
    let asked = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    match asked {
        0 => (channels.receive + channels.combined).max(1),
        _ => 1,
    }
}

fn request(interface: &str) -> libc::ifreq {
    // SAFETY: all zeros is a valid value of this plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

pub(super) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
