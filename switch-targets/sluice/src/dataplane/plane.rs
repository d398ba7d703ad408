//! The threads that move packets: port → program → ports, a batch at a time.
//!
//! ```text
//!   wait ─► share ─► run some 64 packets through the program, in a lane of one's own ─► give up ─► send ─► the next port ─► … ─► wait
//!            ▲
//!   control plane ── take alone ── one table update, or a thousand entries read ── give up
//! ```
//! One lock guards the running program: threads share it for a batch and give it up fairly, the control plane has it alone for an
//! update. Neither waits longer than the other's unit of work, which a super-frame makes some hundred microseconds, and an update
//! is seen whole. A batch that is to be seen whole keeps packets waiting to its end.
//!
//! Each thread has a socket of its own on every interface; the kernel gives it whole flows, so that the packets of a flow stay in order.
//!
//! The controller is a port too, of the first thread: what clients send is run at the CPU port, and what is sent there goes to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use sluice_pipeline::{Lane, Outcome, Switch};
use tokio::sync::mpsc;

use crate::dataplane::cpu_port::PacketIo;
use crate::dataplane::ports::Port;
use crate::dataplane::trace::Tap;
use crate::dataplane::traffic::Traffic;
use crate::schema::ControllerHeader;

/// Packets that are run before another port gets its turn; one super-frame may add its own number to them.
const BATCH: usize = 64;

/// A digest message: the struct's members in order, each as a canonical byte string.
pub type Message = Vec<Vec<u8>>;

/// A digest message and the P4Runtime id of its digest.
pub type Learned = (u32, Message);

/// The program that packets run through.
pub struct Running {
    pub switch: Switch,
    /// [`crate::schema::Schema::digest_ids`] of the same program.
    pub digest_ids: Vec<Option<u32>>,
    /// [`crate::schema::Schema::packet_in`] of the same program.
    pub packet_in: Option<Arc<ControllerHeader>>,
}

/// The state that the threads and the control plane share.
pub struct DataPlane {
    running: RwLock<Option<Running>>,
    /// Ports by number, and whether each is open. Locked after `running`.
    ports: Arc<Mutex<BTreeMap<u16, bool>>>,
    /// The program, while a transaction has taken it out of `running`.
    aside: RwLock<Option<Running>>,
    in_transaction: AtomicBool,
    pub packet_io: Arc<PacketIo>,
    started: Instant,
    learned: mpsc::Sender<Learned>,
    threads: usize,
    pub traffic: Traffic,
    pub tap: Tap,
    /// [`Switch::reads_queues`] of the program that was installed last.
    reads_queues: AtomicBool,
}

impl DataPlane {
    /// Makes a data plane without a program: nothing is forwarded. `threads`, one at least, will move packets.
    pub fn new(learned: mpsc::Sender<Learned>, packet_io: Arc<PacketIo>, threads: usize) -> Self {
        Self {
            running: RwLock::new(None),
            ports: Arc::default(),
            aside: RwLock::new(None),
            in_transaction: AtomicBool::new(false),
            packet_io,
            started: Instant::now(),
            learned,
            threads,
            traffic: Traffic::new(threads),
            tap: Tap::default(),
            reads_queues: AtomicBool::new(false),
        }
    }

    /// The switch has been running since `started`, in another process.
    #[must_use]
    pub fn since(self, started: Instant) -> Self {
        Self { started, ..self }
    }

    /// Returns whether the control plane has taken all that packets had to tell it.
    pub fn is_learned(&self) -> bool {
        self.learned.capacity() == self.learned.max_capacity()
    }

    /// Makes a data plane for a program that no packet runs through yet.
    pub fn beside(&self, running: Running) -> Self {
        Self {
            running: RwLock::new(Some(running)),
            ports: Arc::clone(&self.ports),
            aside: RwLock::new(None),
            in_transaction: AtomicBool::new(false),
            packet_io: Arc::clone(&self.packet_io),
            started: self.started,
            learned: self.learned.clone(),
            threads: 1,
            traffic: Traffic::new(1),
            tap: Tap::default(),
            reads_queues: AtomicBool::new(false),
        }
    }

    /// Takes the program away.
    pub fn take(&self) -> Option<Running> {
        self.lock().take()
    }

    /// Replaces the program. `keep` gets both, before the next packet runs.
    pub fn install(&self, mut running: Running, keep: impl FnOnce(&Running, &mut Running)) {
        running.switch.set_lanes(self.threads);
        let reads_queues = running.switch.reads_queues();
        let mut guard = self.running.write();
        if let Some(old) = guard.as_ref() {
            keep(old, &mut running);
        }
        for (port, open) in self.ports.lock().iter() {
            running.switch.set_port(*port, *open);
        }
        let old = guard.replace(running);
        self.reads_queues.store(reads_queues, Ordering::Relaxed);
        RwLockWriteGuard::unlock_fair(guard);
        drop(old);
    }

    /// The time since the switch started, as packets are told it.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn has_port(&self, number: u16) -> bool {
        self.ports.lock().contains_key(&number)
    }

    /// Members that watch a closed port are passed over from now on.
    pub(crate) fn watch(&self, ports: &[Port]) {
        let ports = ports.iter();
        let now: BTreeMap<_, _> = ports
            .map(|port| (port.number, port.fd().is_some()))
            .collect();
        if *self.ports.lock() == now {
            return;
        }
        let mut running = self.running.write();
        if let Some(running) = running.as_mut() {
            for (port, open) in &now {
                running.switch.set_port(*port, *open);
            }
        }
        *self.ports.lock() = now;
    }

    /// Locks the program for the control plane. Keep the lock for one update.
    pub fn lock(&self) -> RwLockWriteGuard<'_, Option<Running>> {
        match self.in_transaction.load(Ordering::Acquire) {
            true => self.aside.write(),
            false => self.running.write(),
        }
    }

    /// No packet runs until it is dropped; [`DataPlane::lock`] goes on to give the program. The caller holds
    /// [`crate::p4runtime::state::Device::installed`] for writing, so that there is one transaction at a time.
    pub fn transaction(&self) -> Transaction<'_> {
        let mut held = self.running.write();
        *self.aside.write() = held.take();
        self.in_transaction.store(true, Ordering::Release);
        Transaction { plane: self, held }
    }

    /// Returns whether [`DataPlane::observe`] is to be called before each batch.
    pub(crate) fn reads_queues(&self) -> bool {
        self.reads_queues.load(Ordering::Relaxed)
    }

    /// Tells the program of the packets that wait at a thread's ports.
    pub(crate) fn observe(&self, thread: usize, ports: &mut [Port]) {
        let now = Instant::now();
        self.share(thread, |program| {
            if let Some((_, mut lane)) = program {
                ports
                    .iter_mut()
                    .for_each(|port| lane.observe(port.number, port.queue(now)));
            }
        });
    }

    /// Runs what has come in at a thread's port, up to a batch. Returns how many frames there were.
    pub(crate) fn run(
        &self,
        thread: usize,
        port: &mut Port,
        outcome: &mut Outcome,
        mut send: impl FnMut(u16, &mut Vec<u8>),
    ) -> usize {
        if port.is_empty() {
            return 0;
        }
        let (traffic, number) = (&self.traffic, port.number);
        // Packets of a batch are sent at its end, and would seem to wait until then.
        let batch = if self.reads_queues() { 1 } else { BATCH };
        self.share(thread, |mut program| {
            let now = self.started.elapsed();
            port.receive(Instant::now(), batch, |frame| {
                let Some((running, lane)) = &mut program else {
                    return traffic.had_no_program();
                };
                self.tap.process(lane, number, frame, now, outcome);
                self.deliver(running, outcome, &mut send);
            })
        })
    }

    /// Runs what clients have sent, up to a batch. Returns how many packets there were.
    pub(crate) fn run_packet_outs(
        &self,
        thread: usize,
        outcome: &mut Outcome,
        mut send: impl FnMut(u16, &mut Vec<u8>),
    ) -> usize {
        let io = &self.packet_io;
        let Some(cpu_port) = io.cpu_port.filter(|_| thread == 0 && !io.is_empty()) else {
            return 0;
        };
        self.share(thread, |mut program| {
            let (mut count, now) = (0, self.started.elapsed());
            while let Some(frame) = (count < BATCH).then(|| io.next()).flatten() {
                count += 1;
                if let Some((running, lane)) = &mut program {
                    self.tap.process(lane, cpu_port, &frame, now, outcome);
                    self.deliver(running, outcome, &mut send);
                }
            }
            count
        })
    }

    /// Runs a batch of a thread with the program, which other threads share.
    fn share<T>(&self, thread: usize, batch: impl FnOnce(Option<(&Running, Lane<'_>)>) -> T) -> T {
        let guard = self.running.read();
        let program = guard.as_ref();
        let done = batch(program.map(|running| (running, running.switch.lane(thread))));
        RwLockReadGuard::unlock_fair(guard);
        done
    }

    /// Takes what a packet led to to where it goes.
    fn deliver(
        &self,
        running: &Running,
        outcome: &mut Outcome,
        send: &mut impl FnMut(u16, &mut Vec<u8>),
    ) {
        for sent in &mut outcome.sent {
            if Some(sent.port) == self.packet_io.cpu_port {
                self.packet_io.punt(running.packet_in.as_ref(), &sent.bytes);
            } else {
                send(sent.port, &mut sent.bytes);
            }
        }
        if !outcome.digests.is_empty() {
            self.learn(&running.digest_ids, outcome);
        }
    }

    fn learn(&self, ids: &[Option<u32>], outcome: &Outcome) {
        for digest in &outcome.digests {
            let Some(Some(id)) = ids.get(digest.digest.0) else {
                continue;
            };
            let values = digest.values.iter();
            let message = values.map(|value| value.canonical().to_vec()).collect();
            if self.learned.try_send((*id, message)).is_err() {
                self.traffic.digests_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Packets see nothing of it, or all of it.
pub struct Transaction<'a> {
    plane: &'a DataPlane,
    held: RwLockWriteGuard<'a, Option<Running>>,
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let mut aside = self.plane.aside.write();
        *self.held = aside.take();
        self.plane.in_transaction.store(false, Ordering::Release);
    }
}
