//! The loop of a data-plane thread: its ports in turn, then a wait for frames.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use precedence::Precedence;
use sluice_pipeline::Outcome;
use tokio::sync::mpsc;
use tracing::info;

use crate::dataplane::cpu_port::PacketIo;
use crate::dataplane::plane::DataPlane;
use crate::dataplane::ports::{self, Outgoing, Port};

/// Niceness of a busy thread: a receiver of its frames must not take its place before it has sent the others of a batch.
const NICENESS: i32 = -10;
/// Interval at which closed ports are checked.
const TICK: Duration = Duration::from_secs(1);
/// Interval at which descriptors are checked while frames keep coming, and the shortest interval for interfaces.
const GLANCE: Duration = Duration::from_millis(50);
/// Interval at which ports' own counters are published: the kernel is asked for its drops.
const PUBLISH: Duration = Duration::from_millis(500);

/// The running threads. Dropping it stops them and waits for their end.
pub struct Forwarder {
    plane: Arc<DataPlane>,
    ports: Vec<u16>,
    stopping: Arc<AtomicBool>,
    stop: Vec<UnixStream>,
    threads: Vec<JoinHandle<Option<Vec<Port>>>>,
}

impl Forwarder {
    /// Starts a thread for each set of ports. `ended` gets the reason when a thread ends by itself.
    ///
    /// # Errors
    /// The operating system gives no thread or socket.
    pub fn start(
        plane: &Arc<DataPlane>,
        ports: Vec<Vec<Port>>,
        ended: &mpsc::UnboundedSender<io::Error>,
    ) -> io::Result<Self> {
        let (mut stop, mut threads) = (Vec::new(), Vec::new());
        let stopping = Arc::new(AtomicBool::new(false));
        let first = ports.first().map_or(&[][..], Vec::as_slice);
        let numbers = first.iter().map(|port| port.number).collect();
        plane.watch(first);
        for (number, ports) in ports.into_iter().enumerate() {
            let (stopper, stopped) = UnixStream::pair()?;
            let (plane, ended) = (Arc::clone(plane), ended.clone());
            let stopped = Stopped {
                soon: Arc::clone(&stopping),
                by: stopped,
            };
            let run = move || {
                let run = || forward(&plane, number, ports, &stopped);
                let result = catch_unwind(AssertUnwindSafe(run));
                let crashed = |_| Err(io::Error::other("a thread of the data plane has crashed"));
                match result.unwrap_or_else(crashed) {
                    Ok(ports) => Some(ports),
                    Err(error) => {
                        let _ = ended.send(error);
                        None
                    }
                }
            };
            let thread = std::thread::Builder::new().name(format!("dataplane-{number}"));
            threads.push(thread.spawn(run)?);
            stop.push(stopper);
        }
        Ok(Self {
            plane: Arc::clone(plane),
            ports: numbers,
            stopping,
            stop,
            threads,
        })
    }

    /// Ends the threads between two batches. Returns their ports, with which [`Forwarder::start`] goes on; `None` if a thread has
    /// crashed.
    pub fn pause(mut self) -> Option<Vec<Vec<Port>>> {
        self.join()
    }

    fn join(&mut self) -> Option<Vec<Vec<Port>>> {
        self.stopping.store(true, Ordering::Relaxed);
        self.stop.clear();
        let threads: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        threads
            .into_iter()
            .map(|ports| ports.ok().flatten())
            .collect()
    }
}

/// Tells a thread that it is to end: `by` is readable, because its peer is gone.
struct Stopped {
    soon: Arc<AtomicBool>,
    by: UnixStream,
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        drop(self.join());
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
    stopped: &Stopped,
) -> io::Result<Vec<Port>> {
    let traffic = &plane.traffic;
    let mut precedence = Precedence::new(NICENESS);
    if !precedence.is_allowed() {
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
            if plane.reads_queues() && ports.get(index).is_none_or(|port| !port.is_empty()) {
                plane.observe(thread, &mut ports);
            }
            came += match ports.get_mut(index) {
                Some(port) => plane.run(thread, port, &mut outcome, send),
                None => plane.run_packet_outs(thread, &mut outcome, send),
            };
            let ports = ports.iter_mut().zip(&mut outgoing);
            ports.for_each(|(port, outgoing)| port.send(outgoing));
        }
        if came > 0 && looked.elapsed() < GLANCE && !stopped.soon.load(Ordering::Relaxed) {
            continue;
        }
        if !wait(
            &mut ports,
            &stopped.by,
            (thread == 0).then_some(&*plane.packet_io),
            if came > 0 { Duration::ZERO } else { TICK },
        )? {
            break;
        }
        looked = Instant::now();
        precedence.review(looked);
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
            if !plane.reads_queues() {
                ports.iter_mut().for_each(Port::forget_queue);
            }
        }
        if thread == 0 && !ports.iter().map(is_open).eq(open.iter().copied()) {
            open = ports.iter().map(is_open).collect();
            plane.watch(&ports);
        }
    }
    for port in &mut ports {
        traffic.publish(port.number, &port.take_stats());
    }
    Ok(ports)
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
