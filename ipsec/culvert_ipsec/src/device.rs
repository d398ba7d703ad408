//! The base of both devices: the wake-up descriptor, waiting, and the clock.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

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
        // The write fails only after 2^64 writes without a read.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    pub fn clear(&self) {
        let _ = (&self.0).read(&mut [0; 8]);
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

pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
