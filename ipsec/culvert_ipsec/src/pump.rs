//! The thread that moves packets between the TUN device and the UDP socket. It decides nothing.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use esp::nat_t::KEEPALIVE;

use crate::device::{BATCH, Batch, Signal, Tun, Udp, monotonic, wait};
use crate::tunnels::{Desired, Refusal, SoftLimit, Tunnels};

/// After a device error, e.g. while the TUN is down.
const RETRY: Duration = Duration::from_millis(100);

pub struct Pump {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    tunnels: Mutex<Tunnels>,
    /// Raised to end the thread, or because a deadline may have changed.
    wake: Signal,
    notices: Signal,
    stop: AtomicBool,
}

impl Shared {
    fn tunnels(&self) -> MutexGuard<'_, Tunnels> {
        self.tunnels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pump {
    pub fn start(tun: Tun, udp: Udp) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            tunnels: Mutex::new(Tunnels::new()),
            wake: Signal::new()?,
            notices: Signal::new()?,
            stop: AtomicBool::new(false),
        });
        let mut mover = Mover {
            shared: Arc::clone(&shared),
            tun,
            udp,
            from: Batch::new(),
            sealed: Batch::new(),
            to: Vec::with_capacity(BATCH),
        };
        let thread = Builder::new()
            .name("culvert-ipsec".into())
            .spawn(move || mover.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    pub fn apply(&self, desired: Vec<Desired>) -> Result<(), Refusal> {
        let result = self.shared.tunnels().apply(desired, monotonic());
        self.shared.wake.raise();
        result
    }

    /// A look at the counters; the pump waits meanwhile.
    pub fn inspect<T>(&self, look: impl FnOnce(&Tunnels) -> T) -> T {
        look(&self.shared.tunnels())
    }

    /// Readable while notices wait.
    pub fn notices_fd(&self) -> RawFd {
        self.shared.notices.as_raw_fd()
    }

    pub fn take_notices(&self) -> Vec<SoftLimit> {
        let mut tunnels = self.shared.tunnels();
        self.shared.notices.clear();
        tunnels.take_notices()
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.wake.raise();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Ready {
    udp: bool,
    tun: bool,
}

struct Mover {
    shared: Arc<Shared>,
    tun: Tun,
    udp: Udp,
    from: Batch,
    sealed: Batch,
    to: Vec<SocketAddrV4>,
}

impl Mover {
    fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut ready = Ready {
            udp: true,
            tun: true,
        };
        while !shared.stop.load(Ordering::Relaxed) {
            match self.turn(&mut ready) {
                Ok(()) if ready.udp || ready.tun => {}
                Ok(()) => ready = self.sleep(None),
                Err(_) => ready = self.sleep(Some(RETRY)),
            }
        }
    }

    /// One batch in each direction that has packets; a batch that is not full was the last for now.
    fn turn(&mut self, ready: &mut Ready) -> io::Result<()> {
        if ready.udp {
            ready.udp = self.inbound()? == BATCH;
        }
        if ready.tun {
            ready.tun = self.outbound()? == BATCH;
        }
        Ok(())
    }

    /// UDP to TUN.
    fn inbound(&mut self) -> io::Result<usize> {
        let count = self.udp.receive_batch(&mut self.from)?;
        if count == 0 {
            return Ok(0);
        }
        let mut ranges: [_; BATCH] = std::array::from_fn(|_| 0..0);
        let now = monotonic();
        let notices = {
            let mut tunnels = self.shared.tunnels();
            for (index, range) in ranges.iter_mut().enumerate().take(count) {
                let class = self.from.class(index);
                *range = tunnels
                    .inbound(self.from.packet(index), class, now)
                    .unwrap_or(0..0);
            }
            tunnels.has_notices()
        };
        let mut failed = 0;
        for (index, range) in ranges.into_iter().enumerate().take(count) {
            if !range.is_empty() {
                failed += usize::from(self.tun.write(&self.from.packet(index)[range]).is_err());
            }
        }
        self.report(notices, failed);
        Ok(count)
    }

    /// TUN to UDP.
    fn outbound(&mut self) -> io::Result<usize> {
        let count = self.tun.read_batch(&mut self.from)?;
        if count == 0 {
            return Ok(0);
        }
        self.to.clear();
        let now = monotonic();
        let notices = {
            let mut tunnels = self.shared.tunnels();
            for index in 0..count {
                let next = self.to.len();
                let room = self.sealed.room(next);
                if let Some(packet) = tunnels.outbound(self.from.packet(index), room, now) {
                    self.sealed.set_len(next, packet.len);
                    self.sealed.set_class(next, packet.class);
                    self.to.push(packet.to);
                }
            }
            tunnels.has_notices()
        };
        let failed = self.udp.send_batch(&mut self.sealed, &self.to);
        self.report(notices, failed);
        Ok(count)
    }

    fn report(&self, notices: bool, failed: usize) {
        if notices {
            self.shared.notices.raise();
        }
        if failed > 0 {
            self.shared.tunnels().send_failed(failed);
        }
    }

    /// Sends what keepalives are due, then waits: for a packet, `apply`, the next keepalive, or `pause`.
    fn sleep(&mut self, pause: Option<Duration>) -> Ready {
        let now = monotonic();
        let (due, deadline) = {
            let mut tunnels = self.shared.tunnels();
            (tunnels.due_keepalives(now), tunnels.deadline())
        };
        for to in due {
            if self.udp.send(&[KEEPALIVE], to).is_err() {
                self.report(false, 1);
            }
        }
        let wake = self.shared.wake.as_raw_fd();
        let (woken, ready) = if pause.is_some() {
            let [woken] = wait([(wake, libc::POLLIN)], pause);
            (
                woken,
                Ready {
                    udp: true,
                    tun: true,
                },
            )
        } else {
            // A millisecond more, so that the deadline is behind when the clock is read again.
            let until = deadline.map(|at| Duration::from_secs_f64((at - now).max(0.0) + 1e-3));
            let fds = [wake, self.udp.as_raw_fd(), self.tun.as_raw_fd()];
            let [woken, udp, tun] = wait(fds.map(|fd| (fd, libc::POLLIN)), until);
            (woken, Ready { udp, tun })
        };
        if woken {
            self.shared.wake.clear();
        }
        ready
    }
}
