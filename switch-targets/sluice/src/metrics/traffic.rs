//! What the data plane counts, for whoever reads it from another thread.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ports::PortStats;

/// Every port number of v1model but "drop".
const PORTS: usize = 511;

/// One writer, the data plane; readers see each number whole, and the numbers of one batch not always together.
pub struct Traffic {
    ports: Box<[PortTraffic]>,
    pub to_no_port: AtomicU64,
    /// Packets that came while there was no program.
    pub without_program: AtomicU64,
    pub digests_lost: AtomicU64,
    /// Rounds of the data plane since it started: one a second at least.
    pub beats: AtomicU64,
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

impl Default for Traffic {
    fn default() -> Self {
        Self {
            ports: (0..PORTS).map(|_| PortTraffic::default()).collect(),
            to_no_port: AtomicU64::new(0),
            without_program: AtomicU64::new(0),
            digests_lost: AtomicU64::new(0),
            beats: AtomicU64::new(0),
        }
    }
}

impl Traffic {
    pub fn port(&self, number: u16) -> Option<&PortTraffic> {
        self.ports.get(usize::from(number))
    }

    /// Bytes of frames that came in at a port and were run.
    pub fn received(&self, number: u16, bytes: u64) {
        if let Some(port) = self.port(number) {
            add(&port.received_bytes, bytes);
        }
    }

    /// Bytes of a frame that a port was given to send.
    pub fn sent(&self, number: u16, bytes: u64) {
        if let Some(port) = self.port(number) {
            add(&port.sent_bytes, bytes);
        }
    }

    pub fn beat(&self) {
        add(&self.beats, 1);
    }

    pub fn sent_to_no_port(&self) {
        add(&self.to_no_port, 1);
    }

    pub fn had_no_program(&self) {
        add(&self.without_program, 1);
    }

    /// A port's own counters.
    pub fn publish(&self, number: u16, stats: &PortStats) {
        let Some(port) = self.port(number) else {
            return;
        };
        for (counter, value) in [
            (&port.received, stats.received),
            (&port.sent, stats.sent.frames),
            (&port.missed, stats.missed),
            (&port.oversize, stats.oversize),
            (&port.without_checksum, stats.unfinished),
            (&port.too_long, stats.sent.too_long),
            (&port.refused, stats.sent.refused),
            (&port.malformed, stats.malformed),
            (&port.received_super_frames, stats.received_super_frames),
            (&port.sent_super_frames, stats.sent.super_frames),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
    }
}

/// Of the only writer: no locked instruction.
fn add(counter: &AtomicU64, more: u64) {
    let now = counter.load(Ordering::Relaxed);
    counter.store(now.wrapping_add(more), Ordering::Relaxed);
}
