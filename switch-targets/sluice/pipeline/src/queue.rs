//! The ports' queues, as a program reads them (v1model's `enq_qdepth`, `deq_qdepth`, `deq_timedelta`).
//!
//! ```text
//!   packet ─► ingress ─► egress ─► the port's queue: N-1 … 2 1 0 ─► wire
//!                          ▲                     │
//!                          └── depth, wait ──────┘
//! ```
//! The pipeline has no queue of its own: its caller observes the ports' (see [`crate::Lane::observe`]). Egress runs as a packet joins
//! its queue, so the depth is the same for `enq_qdepth` and `deq_qdepth`.

use std::collections::HashMap;
use std::time::Duration;

use crate::bitstream::mask;
use crate::phv::Phv;

/// The packets that wait at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Their number.
    pub depth: u32,
    /// The time that the first of them has waited.
    pub wait: Duration,
}

/// The queues of the ports that have been observed. A packet that is sent lengthens its port's until the next observation.
#[derive(Debug, Default)]
pub struct Queues(HashMap<u16, Queue>);

impl Queues {
    pub fn observe(&mut self, port: u16, queue: Queue) {
        self.0.insert(port, queue);
    }

    pub fn at(&self, port: u16) -> Queue {
        self.0.get(&port).copied().unwrap_or_default()
    }

    pub fn sent(&mut self, port: u16) {
        if let Some(queue) = self.0.get_mut(&port) {
            queue.depth = queue.depth.saturating_add(1);
        }
    }
}

/// A field of the standard metadata that tells something of the queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueField {
    pub slot: usize,
    pub width: u32,
    pub tells: QueueFact,
}

#[derive(Clone, Copy, Debug)]
pub enum QueueFact {
    /// Packets.
    Depth,
    /// Microseconds.
    Wait,
}

impl QueueField {
    pub fn fill(&self, phv: &mut Phv, queue: Queue) {
        let value = match self.tells {
            QueueFact::Depth => u128::from(queue.depth),
            QueueFact::Wait => queue.wait.as_micros(),
        };
        phv.slots[self.slot] = value.min(mask(self.width));
    }
}
