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
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use sluice_pipeline::{Lane, Outcome, Switch};
use tokio::sync::mpsc;
use tracing::info;

use crate::digest;
use crate::metrics::Traffic;
use crate::packet_io::PacketIo;
use crate::ports::{self, Outgoing, Port};
use crate::schema::ControllerHeader;
use crate::trace::Tap;

/// Packets that are run before another port gets its turn; one super-frame may add its own number to them.
const BATCH: usize = 64;
/// How often closed ports are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often descriptors are looked at while frames keep coming, and interfaces at most.
const GLANCE: Duration = Duration::from_millis(50);
/// How often ports' own counters are shown: the kernel is asked for what it dropped.
const PUBLISH: Duration = Duration::from_millis(500);

/// A digest message and the P4Runtime id of its digest.
pub type Learned = (u32, digest::Message);

/// The program that packets run through.
pub struct Running {
    pub switch: Switch,
    /// [`crate::schema::Schema::digest_ids`] of the same program.
    pub digest_ids: Vec<Option<u32>>,
    /// [`crate::schema::Schema::packet_in`] of the same program.
    pub packet_in: Option<Arc<ControllerHeader>>,
}

/// What the threads and the control plane share.
pub struct DataPlane {
    running: RwLock<Option<Running>>,
    /// Ports by number, and whether each is open. Locked after `running`.
    ports: Arc<Mutex<BTreeMap<u16, bool>>>,
    /// Where the program is during a transaction.
    aside: RwLock<Option<Running>>,
    in_transaction: AtomicBool,
    pub packet_io: Arc<PacketIo>,
    started: Instant,
    learned: mpsc::Sender<Learned>,
    threads: usize,
    pub traffic: Traffic,
    pub tap: Tap,
}

impl DataPlane {
    /// Without a program: nothing is forwarded. `threads`, one at least, will move packets.
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
        }
    }

    /// One for a program that no packet runs through yet.
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
        }
    }

    /// Takes the program away.
    pub fn take(&self) -> Option<Running> {
        self.lock().take()
    }

    /// Replaces the program. `keep` gets both, before the next packet runs.
    pub fn install(&self, mut running: Running, keep: impl FnOnce(&Running, &mut Running)) {
        running.switch.set_lanes(self.threads);
        let mut guard = self.running.write();
        if let Some(old) = guard.as_ref() {
            keep(old, &mut running);
        }
        for (port, open) in self.ports.lock().iter() {
            running.switch.set_port(*port, *open);
        }
        let old = guard.replace(running);
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
    fn watch(&self, ports: &[Port]) {
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

    /// For the control plane. Keep it for one update.
    pub fn lock(&self) -> RwLockWriteGuard<'_, Option<Running>> {
        match self.in_transaction.load(Ordering::Acquire) {
            true => self.aside.write(),
            false => self.running.write(),
        }
    }

    /// No packet runs until it is dropped; [`DataPlane::lock`] goes on to give the program. The caller holds
    /// [`crate::device::Device::installed`] for writing, so that there is one transaction at a time.
    pub fn transaction(&self) -> Transaction<'_> {
        let mut held = self.running.write();
        *self.aside.write() = held.take();
        self.in_transaction.store(true, Ordering::Release);
        Transaction { plane: self, held }
    }

    /// Runs what has come in at a thread's port, up to a batch. Returns how many frames there were.
    fn run(
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
        self.share(thread, |mut program| {
            let now = self.started.elapsed();
            port.receive(Instant::now(), BATCH, |frame| {
                let Some((running, lane)) = &mut program else {
                    return traffic.had_no_program();
                };
                self.tap.process(lane, number, frame, now, outcome);
                self.deliver(running, outcome, &mut send);
            })
        })
    }

    /// Runs what clients have sent, up to a batch. Returns how many packets there were.
    fn run_packet_outs(
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

    /// For a thread, for a batch.
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

/// The running threads. Dropping it stops them and waits for their end.
pub struct Forwarder {
    plane: Arc<DataPlane>,
    ports: Vec<u16>,
    stop: Vec<UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Forwarder {
    /// One thread for each set of ports. `ended` gets the reason when one ends by itself.
    ///
    /// # Errors
    /// The operating system gives no thread or socket.
    pub fn start(
        plane: &Arc<DataPlane>,
        ports: Vec<Vec<Port>>,
        ended: &mpsc::UnboundedSender<io::Error>,
    ) -> io::Result<Self> {
        let (mut stop, mut threads) = (Vec::new(), Vec::new());
        let first = ports.first().map_or(&[][..], Vec::as_slice);
        let numbers = first.iter().map(|port| port.number).collect();
        plane.watch(first);
        for (number, ports) in ports.into_iter().enumerate() {
            let (stopper, stopped) = UnixStream::pair()?;
            let (plane, ended) = (Arc::clone(plane), ended.clone());
            let run = move || {
                let run = || forward(&plane, number, ports, &stopped);
                let result = catch_unwind(AssertUnwindSafe(run));
                let crashed = |_| Err(io::Error::other("a thread of the data plane has crashed"));
                if let Err(error) = result.unwrap_or_else(crashed) {
                    let _ = ended.send(error);
                }
            };
            let thread = std::thread::Builder::new().name(format!("dataplane-{number}"));
            threads.push(thread.spawn(run)?);
            stop.push(stopper);
        }
        Ok(Self {
            plane: Arc::clone(plane),
            ports: numbers,
            stop,
            threads,
        })
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let (plane, traffic) = (&self.plane, &self.plane.traffic);
        self.ports.iter().for_each(|port| traffic.log_closed(*port));
        let running = plane.lock();
        let faults = running.as_ref().map(|running| running.switch.faults());
        info!(
            sent_to_no_port = traffic.to_no_port.load(Ordering::Relaxed),
            without_program = traffic.without_program.load(Ordering::Relaxed),
            digests_lost = traffic.digests_lost.load(Ordering::Relaxed),
            packet_ins_lost = plane.packet_io.lost(),
            faults = ?faults.unwrap_or_default(),
            "data plane ended"
        );
    }
}

fn forward(
    plane: &DataPlane,
    thread: usize,
    mut ports: Vec<Port>,
    stopped: &UnixStream,
) -> io::Result<()> {
    let traffic = &plane.traffic;
    if !ports::go_first() {
        info!("the data plane has no priority: give CAP_SYS_NICE for more throughput");
    }
    let mut outcome = Outcome::new();
    let mut outgoing: Vec<_> = ports.iter().map(|_| Outgoing::default()).collect();
    let mut by_number = vec![None; 512];
    for (index, port) in ports.iter().enumerate() {
        by_number[usize::from(port.number)] = Some(index);
    }
    let mut looked = Instant::now();
    let mut published = looked;
    let mut refreshed = looked;
    let is_open = |port: &Port| port.fd().is_some();
    let mut open: Vec<bool> = ports.iter().map(is_open).collect();
    loop {
        let mut came = 0;
        // The turn behind the last port is the controller's.
        for index in 0..=ports.len() {
            let send = |to: u16, frame: &mut Vec<u8>| match by_number
                .get(usize::from(to))
                .copied()
                .flatten()
            {
                Some(port) => outgoing[port].push(frame),
                None => traffic.sent_to_no_port(),
            };
            came += match ports.get_mut(index) {
                Some(port) => plane.run(thread, port, &mut outcome, send),
                None => plane.run_packet_outs(thread, &mut outcome, send),
            };
            let ports = ports.iter_mut().zip(&mut outgoing);
            ports.for_each(|(port, outgoing)| port.send(outgoing));
        }
        if came > 0 && looked.elapsed() < GLANCE {
            continue;
        }
        if !wait(
            &mut ports,
            stopped,
            (thread == 0).then_some(&*plane.packet_io),
            if came > 0 { Duration::ZERO } else { TICK },
        )? {
            break;
        }
        looked = Instant::now();
        traffic.beat(thread);
        if published.elapsed() >= PUBLISH {
            published = looked;
            ports
                .iter_mut()
                .for_each(|port| traffic.publish(port.number, &port.take_stats()));
        }
        if looked - refreshed >= GLANCE {
            refreshed = looked;
            ports.iter_mut().for_each(|port| port.refresh(looked));
        }
        if thread == 0 && !ports.iter().map(is_open).eq(open.iter().copied()) {
            open = ports.iter().map(is_open).collect();
            plane.watch(&ports);
        }
    }
    for port in &mut ports {
        traffic.publish(port.number, &port.take_stats());
    }
    Ok(())
}

/// Waits until a frame comes in, and closes ports that have failed. False: the thread is to end.
fn wait(
    ports: &mut [Port],
    stopped: &UnixStream,
    packet_io: Option<&PacketIo>,
    timeout: Duration,
) -> io::Result<bool> {
    let open: Vec<usize> = (0..ports.len())
        .filter(|index| ports[*index].fd().is_some())
        .collect();
    let descriptors = open.iter().filter_map(|index| ports[*index].fd());
    // `stopped` is readable when its peer is dropped.
    let others = [Some(stopped.as_fd()), packet_io.map(PacketIo::fd)];
    let descriptors: Vec<_> = descriptors.chain(others.into_iter().flatten()).collect();
    let ready = ports::wait(&descriptors, timeout)?;
    let now = Instant::now();
    let (ready, others) = ready.split_at(open.len());
    if let (Some(packet_io), Some(true)) = (packet_io, others.get(1)) {
        packet_io.clear_wake();
    }
    for (index, ready) in open.into_iter().zip(ready) {
        if *ready && ports[index].is_empty() {
            ports[index].check(now);
        }
    }
    Ok(!others[0])
}
