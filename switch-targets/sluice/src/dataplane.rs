//! The thread that moves packets: port → program → ports, a batch at a time.
//!
//! ```text
//!   wait ─► lock ─► run ≤ 64 frames through the program ─► unlock ─► send ─► the next port ─► … ─► wait when all are empty
//!            ▲
//!   control plane ── lock ── one table update, or a thousand entries read ── unlock
//! ```
//! One mutex guards the running program. The thread takes it once a batch and gives it up fairly, the control plane once an
//! update: neither waits longer than the other's unit of work, some tens of microseconds, and an update is seen whole.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use sluice_pipeline::{Outcome, Switch};
use tokio::sync::{mpsc, oneshot};
use tracing::info;

use crate::digest;
use crate::ports::{self, Outgoing, Port};

/// Frames that are run before another port gets its turn.
const BATCH: usize = 64;
/// How often closed ports are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often descriptors are looked at while frames keep coming.
const GLANCE: Duration = Duration::from_millis(50);

/// A digest message and the P4Runtime id of its digest.
pub type Learned = (u32, digest::Message);

/// The program that packets run through.
pub struct Running {
    pub switch: Switch,
    /// [`crate::schema::Schema::digest_ids`] of the same program.
    pub digest_ids: Vec<Option<u32>>,
}

/// What the thread and the control plane share.
pub struct DataPlane {
    running: Mutex<Option<Running>>,
    started: Instant,
    learned: mpsc::Sender<Learned>,
    digests_lost: AtomicU64,
}

impl DataPlane {
    /// Without a program: nothing is forwarded.
    pub fn new(learned: mpsc::Sender<Learned>) -> Self {
        Self {
            running: Mutex::new(None),
            started: Instant::now(),
            learned,
            digests_lost: AtomicU64::new(0),
        }
    }

    /// Replaces the program; the old one's entries and counters go with it.
    pub fn install(&self, running: Running) {
        let old = self.lock().replace(running);
        drop(old);
    }

    /// The time since the switch started, as packets are told it.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Keep it for one update.
    pub fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock()
    }

    /// Runs what has come in at a port, up to a batch. Returns how many frames there were.
    fn run(
        &self,
        port: &mut Port,
        outcome: &mut Outcome,
        mut send: impl FnMut(u16, &mut Vec<u8>),
    ) -> usize {
        if port.is_empty() {
            return 0;
        }
        let mut guard = self.lock();
        let (number, now) = (port.number, self.started.elapsed());
        let count = port.receive(BATCH, |frame| {
            let Some(running) = guard.as_mut() else {
                return;
            };
            running.switch.process(number, frame, now, outcome);
            for sent in &mut outcome.sent {
                send(sent.port, &mut sent.bytes);
            }
            if !outcome.digests.is_empty() {
                self.learn(&running.digest_ids, outcome);
            }
        });
        MutexGuard::unlock_fair(guard);
        count
    }

    fn learn(&self, ids: &[Option<u32>], outcome: &Outcome) {
        for digest in &outcome.digests {
            let Some(Some(id)) = ids.get(digest.digest.0) else {
                continue;
            };
            let values = digest.values.iter();
            let message = values.map(|value| value.canonical().to_vec()).collect();
            if self.learned.try_send((*id, message)).is_err() {
                self.digests_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The running thread. Dropping it stops the thread and waits for its end.
pub struct Forwarder {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// `ended` gets the reason when the thread ends by itself.
    ///
    /// # Errors
    /// The operating system gives no thread or socket.
    pub fn start(
        plane: Arc<DataPlane>,
        ports: Vec<Port>,
        ended: oneshot::Sender<io::Error>,
    ) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let run = move || {
            if let Err(error) = forward(&plane, ports, &stopped) {
                let _ = ended.send(error);
            }
        };
        let thread = std::thread::Builder::new()
            .name("dataplane".into())
            .spawn(run)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn forward(plane: &DataPlane, mut ports: Vec<Port>, stopped: &UnixStream) -> io::Result<()> {
    if !ports::go_first() {
        info!("the data plane has no priority: give CAP_SYS_NICE for more throughput");
    }
    let mut outcome = Outcome::new();
    let mut outgoing: Vec<_> = ports.iter().map(|_| Outgoing::default()).collect();
    let mut by_number = vec![None; 512];
    for (index, port) in ports.iter().enumerate() {
        by_number[usize::from(port.number)] = Some(index);
    }
    let mut no_port: u64 = 0;
    let mut looked = Instant::now();
    loop {
        let mut came = 0;
        for index in 0..ports.len() {
            came += plane.run(&mut ports[index], &mut outcome, |to, frame| match by_number
                .get(usize::from(to))
                .copied()
                .flatten()
            {
                Some(port) => outgoing[port].push(frame),
                None => no_port += 1,
            });
            let ports = ports.iter_mut().zip(&mut outgoing);
            ports.for_each(|(port, outgoing)| port.send(outgoing));
        }
        if came > 0 && looked.elapsed() < GLANCE {
            continue;
        }
        if !wait(
            &mut ports,
            stopped,
            if came > 0 { Duration::ZERO } else { TICK },
        )? {
            break;
        }
        looked = Instant::now();
        ports.iter_mut().for_each(|port| port.reopen(looked));
    }
    for port in &mut ports {
        let stats = port.stats();
        info!(
            port = port.number,
            received = stats.received,
            missed = stats.missed,
            oversize = stats.oversize,
            without_checksum = stats.unfinished,
            sent = stats.sent.frames,
            too_long = stats.sent.too_long,
            refused = stats.sent.refused,
            "port closed"
        );
    }
    let faults = plane.lock().as_ref().map(|running| running.switch.faults());
    let digests_lost = plane.digests_lost.load(Ordering::Relaxed);
    info!(sent_to_no_port = no_port, digests_lost, faults = ?faults.unwrap_or_default(), "data plane ended");
    Ok(())
}

/// Waits until a frame comes in, and closes ports that have failed. False: the thread is to end.
fn wait(ports: &mut [Port], stopped: &UnixStream, timeout: Duration) -> io::Result<bool> {
    let open: Vec<usize> = (0..ports.len())
        .filter(|index| ports[*index].fd().is_some())
        .collect();
    let descriptors = open.iter().filter_map(|index| ports[*index].fd());
    // The first descriptor is readable when its peer is dropped.
    let descriptors: Vec<_> = std::iter::once(stopped.as_fd())
        .chain(descriptors)
        .collect();
    let ready = ports::wait(&descriptors, timeout)?;
    let now = Instant::now();
    for (index, ready) in open.into_iter().zip(&ready[1..]) {
        if *ready && ports[index].is_empty() {
            ports[index].check(now);
        }
    }
    Ok(!ready[0])
}
