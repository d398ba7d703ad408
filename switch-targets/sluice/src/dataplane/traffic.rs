//! Counters of the data plane, which other threads read.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::info;

use crate::dataplane::ports::PortStats;

/// The port numbers of v1model, without "drop".
const PORTS: usize = 511;

/// Counters that all data-plane threads add to; readers see each number whole, and the numbers of one batch not always together.
pub struct Traffic {
    ports: Box<[PortTraffic]>,
    pub to_no_port: AtomicU64,
    /// Packets that came while there was no program.
    pub without_program: AtomicU64,
    pub digests_lost: AtomicU64,
    /// Rounds of each thread since it started: one a second at least.
    pub beats: Box<[AtomicU64]>,
}

#[derive(Default)]
pub struct PortTraffic {
    pub received_bytes: AtomicU64,
    pub sent_bytes: AtomicU64,
    pub received: AtomicU64,
    pub sent: AtomicU64,
    pub missed: AtomicU64,
    pub oversize: AtomicU64,
    pub without_checksum: AtomicU64,
    pub too_long: AtomicU64,
    pub refused: AtomicU64,
    pub malformed: AtomicU64,
    pub received_super_frames: AtomicU64,
    pub sent_super_frames: AtomicU64,
}

/// All counts of [`Traffic`], for another process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrafficState {
    #[prost(message, repeated, tag = "1")]
    pub ports: Vec<PortState>,
    /// `to_no_port`, `without_program`, `digests_lost`.
    #[prost(uint64, repeated, tag = "2")]
    pub others: Vec<u64>,
}

/// The counts of a port, in the order of [`PortTraffic::counters`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct PortState {
    #[prost(uint32, tag = "1")]
    pub number: u32,
    #[prost(uint64, repeated, tag = "2")]
    pub counts: Vec<u64>,
}

impl PortTraffic {
    fn counters(&self) -> [&AtomicU64; 12] {
        [
            &self.received_bytes,
            &self.sent_bytes,
            &self.received,
            &self.sent,
            &self.missed,
            &self.oversize,
            &self.without_checksum,
            &self.too_long,
            &self.refused,
            &self.malformed,
            &self.received_super_frames,
            &self.sent_super_frames,
        ]
    }
}

impl Traffic {
    fn others(&self) -> [&AtomicU64; 3] {
        [&self.to_no_port, &self.without_program, &self.digests_lost]
    }

    pub fn snapshot(&self) -> TrafficState {
        let read = |counters: &[&AtomicU64]| {
            let counters = counters.iter();
            counters.map(|it| it.load(Ordering::Relaxed)).collect()
        };
        let ports = (0..).zip(&self.ports).map(|(number, port)| PortState {
            number,
            counts: read(&port.counters()),
        });
        TrafficState {
            ports: ports
                .filter(|it| it.counts.iter().any(|it| *it > 0))
                .collect(),
            others: read(&self.others()),
        }
    }

    /// Adds the counts of the process before.
    pub fn resume(&self, state: &TrafficState) {
        for from in &state.ports {
            if let Some(port) = u16::try_from(from.number).ok().and_then(|it| self.port(it)) {
                let counters = port.counters().into_iter().zip(&from.counts);
                counters.for_each(|(counter, more)| add(counter, *more));
            }
        }
        let others = self.others().into_iter().zip(&state.others);
        others.for_each(|(counter, more)| add(counter, *more));
    }

    pub fn new(threads: usize) -> Self {
        Self {
            ports: (0..PORTS).map(|_| PortTraffic::default()).collect(),
            to_no_port: AtomicU64::new(0),
            without_program: AtomicU64::new(0),
            digests_lost: AtomicU64::new(0),
            beats: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn port(&self, number: u16) -> Option<&PortTraffic> {
        self.ports.get(usize::from(number))
    }

    pub fn beat(&self, thread: usize) {
        add(&self.beats[thread], 1);
    }

    pub fn sent_to_no_port(&self) {
        add(&self.to_no_port, 1);
    }

    pub fn had_no_program(&self) {
        add(&self.without_program, 1);
    }

    /// Adds a thread's new counts of a port.
    pub fn publish(&self, number: u16, more: &PortStats) {
        let Some(port) = self.port(number) else {
            return;
        };
        for (counter, more) in [
            (&port.received, more.received),
            (&port.received_bytes, more.received_bytes),
            (&port.sent, more.sent.frames),
            (&port.sent_bytes, more.sent_bytes),
            (&port.missed, more.missed),
            (&port.oversize, more.oversize),
            (&port.without_checksum, more.unfinished),
            (&port.too_long, more.sent.too_long),
            (&port.refused, more.sent.refused),
            (&port.malformed, more.malformed),
            (&port.received_super_frames, more.received_super_frames),
            (&port.sent_super_frames, more.sent.super_frames),
        ] {
            if more > 0 {
                add(counter, more);
            }
        }
    }

    /// Logs what a port has counted in all, when no thread has it any longer.
    pub fn log_closed(&self, number: u16) {
        let Some(port) = self.port(number) else {
            return;
        };
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        info!(
            port = number,
            received = read(&port.received),
            missed = read(&port.missed),
            oversize = read(&port.oversize),
            received_super_frames = read(&port.received_super_frames),
            malformed = read(&port.malformed),
            without_checksum = read(&port.without_checksum),
            sent = read(&port.sent),
            sent_super_frames = read(&port.sent_super_frames),
            too_long = read(&port.too_long),
            refused = read(&port.refused),
            "port closed"
        );
    }
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
