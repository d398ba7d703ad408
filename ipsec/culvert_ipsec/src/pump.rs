//! The thread that moves packets between the TUN device and the UDP socket. It decides nothing.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use esp::nat_t::KEEPALIVE;

use offload::{Link, Merger, Segments};
use precedence::Precedence;

use crate::arrivals::Arrivals;
use crate::device::{Signal, monotonic, wait};
use crate::trains::Trains;
use crate::tun::{FRAME_ROOM, Tun};
use crate::tunnels::{Desired, Refusal, SoftLimit, Tunnels};
use crate::udp::Udp;

/// Frames read between two looks at the other direction.
const FRAMES: usize = 64;

/// After a device error, e.g. while the TUN is down.
const RETRY: Duration = Duration::from_millis(100);

/// Kernel offloads: work that the kernel does for many packets at once. Without them each packet costs a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// TCP super-frames to and from the TUN device.
    pub tso: bool,
    /// UDP super-frames from the TUN device.
    pub uso: bool,
    /// Several datagrams in a message that is sent (UDP_SEGMENT).
    pub udp_segment: bool,
    /// Several datagrams in a message that is received (UDP_GRO).
    pub udp_gro: bool,
}

pub struct Pump {
    offloads: Offloads,
    segmentation: Arc<AtomicBool>,
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
        let segmentation = udp.segmentation();
        let offloads = Offloads {
            tso: tun.has_tso(),
            uso: tun.has_uso(),
            udp_segment: segmentation.load(Ordering::Relaxed),
            udp_gro: udp.has_gro(),
        };
        let mut mover = Mover {
            shared: Arc::clone(&shared),
            tun,
            udp,
            segmentation: Arc::clone(&segmentation),
            frame: vec![0; FRAME_ROOM],
            trains: Trains::new(),
            arrivals: Arrivals::new(),
            inner: Vec::new(),
            merger: Merger::default(),
        };
        let thread = Builder::new()
            .name("culvert-ipsec".into())
            .spawn(move || mover.run())?;
        Ok(Self {
            offloads,
            segmentation,
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

    /// The offloads found at the start; `udp_segment` is the present state, because a route may refuse it.
    pub fn offloads(&self) -> Offloads {
        Offloads {
            udp_segment: self.segmentation.load(Ordering::Relaxed),
            ..self.offloads
        }
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
    segmentation: Arc<AtomicBool>,
    frame: Vec<u8>,
    trains: Trains,
    arrivals: Arrivals,
    /// The ranges of the inner packets in the arrivals.
    inner: Vec<Range<usize>>,
    merger: Merger,
}

impl Mover {
    fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut ready = Ready {
            udp: true,
            tun: true,
        };
        let mut precedence = Precedence::new(0);
        while !shared.stop.load(Ordering::Relaxed) {
            precedence.review(Instant::now());
            match self.turn(&mut ready) {
                Ok(()) if ready.udp || ready.tun => {}
                Ok(()) => ready = self.sleep(None),
                Err(_) => ready = self.sleep(Some(RETRY)),
            }
        }
    }

    /// Moves one batch in each direction that has packets; a batch that is not full was the last for now.
    fn turn(&mut self, ready: &mut Ready) -> io::Result<()> {
        if ready.udp {
            ready.udp = self.inbound()?;
        }
        if ready.tun {
            ready.tun = self.outbound()?;
        }
        Ok(())
    }

    /// Moves packets from UDP to TUN. Returns whether more may wait.
    fn inbound(&mut self) -> io::Result<bool> {
        let more = self.udp.receive(&mut self.arrivals)?;
        self.inner.clear();
        let now = monotonic();
        let (bytes, datagrams) = self.arrivals.datagrams();
        let notices = {
            let mut tunnels = self.shared.tunnels();
            for (at, received) in datagrams {
                let datagram = bytes.get_mut(at.clone()).unwrap_or_default();
                let Some(inner) = tunnels.inbound(datagram, received.class, now) else {
                    continue;
                };
                self.inner
                    .push(at.start + inner.start..at.start + inner.end);
            }
            tunnels.has_notices()
        };
        let packet = |number: usize| bytes.get(self.inner[number].clone()).unwrap_or_default();
        let may = self.tun.mergeable();
        self.merger.merge(0..self.inner.len(), may.as_ref(), packet);
        let mut failed = 0;
        for train in self.merger.trains() {
            if self.tun.write(train, packet).is_err() {
                failed += train.packets().len();
            }
        }
        self.report(notices, failed);
        Ok(more)
    }

    /// Moves packets from TUN to UDP. Returns whether more may wait.
    fn outbound(&mut self) -> io::Result<bool> {
        let (mut notices, mut failed, mut frames) = (false, 0, 0);
        let now = monotonic();
        self.trains.clear(self.segmentation.load(Ordering::Relaxed));
        while frames < FRAMES && !self.trains.is_full() {
            let frame = match self.tun.read(&mut self.frame) {
                Ok(Some(frame)) => frame,
                // The packets that were read before the error have yet to leave.
                Err(error) if frames == 0 => return Err(error),
                Ok(None) | Err(_) => break,
            };
            frames += 1;
            let Ok(mut segments) = Segments::new(frame.packet, Link::None, &frame.header) else {
                self.shared.tunnels().malformed();
                continue;
            };
            loop {
                let mut tunnels = self.shared.tunnels();
                tunnels.outbound(&mut segments, &mut self.trains, now);
                notices |= tunnels.has_notices();
                drop(tunnels);
                if segments.next_len().is_none() {
                    break;
                }
                failed += self.udp.send_trains(&self.trains);
                self.trains.clear(self.segmentation.load(Ordering::Relaxed));
            }
        }
        let more = frames == FRAMES || self.trains.is_full();
        failed += self.udp.send_trains(&self.trains);
        self.report(notices, failed);
        Ok(more)
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
