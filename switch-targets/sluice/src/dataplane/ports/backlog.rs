//! The packets that a socket has sent and that still wait, and their age. The kernel tells bytes alone.
//!
//! ```text
//!   sent ─► newest │ … │ oldest ─► gone        charge: bytes of the kernel's memory that a send takes
//!           └── what the kernel holds ──┘      as much of the newest as makes up the bytes that it holds still waits
//! ```

use std::collections::VecDeque;
use std::time::Instant;

use sluice_pipeline::Queue;

/// Packets that were sent at once.
#[derive(Debug)]
struct Batch {
    packets: u64,
    charge: u64,
    at: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Backlog {
    batches: VecDeque<Batch>,
    packets: u64,
    charge: u64,
}

impl Backlog {
    /// Packets of `bytes` in all have been sent. `held`: the bytes that the kernel held before, and holds now.
    pub fn sent(&mut self, packets: u64, bytes: u64, held: [u64; 2], at: Instant) {
        // If others have gone meanwhile, the difference is too small.
        let charge = held[1].saturating_sub(held[0]).max(bytes);
        self.batches.push_back(Batch {
            packets,
            charge,
            at,
        });
        self.packets += packets;
        self.charge += charge;
        self.settle(held[1]);
    }

    /// The packets that wait while the kernel holds `held` bytes.
    pub fn queue(&mut self, held: u64, now: Instant) -> Queue {
        self.settle(held);
        let Some(oldest) = self.batches.front() else {
            return Queue::default();
        };
        let gone = self.charge.saturating_sub(held) * oldest.packets / oldest.charge.max(1);
        Queue {
            depth: u32::try_from(self.packets - gone).unwrap_or(u32::MAX),
            wait: now.saturating_duration_since(oldest.at),
        }
    }

    fn settle(&mut self, held: u64) {
        while let Some(oldest) = self.batches.front()
            && self.charge - oldest.charge >= held
        {
            self.packets -= oldest.packets;
            self.charge -= oldest.charge;
            self.batches.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_that_make_up_what_is_held_wait() {
        let (mut backlog, start) = (Backlog::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let queue = |depth, wait| Queue {
            depth,
            wait: Duration::from_secs(wait),
        };
        backlog.sent(1, 1000, [0, 2304], after(0));
        backlog.sent(1, 60, [2304, 3072], after(1));
        backlog.sent(4, 4000, [3072, 11072], after(2));
        assert_eq!(backlog.queue(11072, after(3)), queue(6, 3));
        assert_eq!(backlog.queue(8768, after(4)), queue(5, 3));
        assert_eq!(backlog.queue(8000, after(5)), queue(4, 3));
        assert_eq!(backlog.queue(3000, after(6)), queue(2, 4));
        assert_eq!(backlog.queue(1, after(7)), queue(1, 5));
        assert_eq!(backlog.queue(0, after(8)), Queue::default());
    }

    #[test]
    fn what_has_gone_at_once_does_not_wait() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        backlog.sent(1, 1000, [0, 0], now);
        assert_eq!(backlog.queue(0, now), Queue::default());
        backlog.sent(64, 64_000, [0, 2304], now);
        assert_eq!(backlog.queue(2304, now).depth, 3);
    }

    #[test]
    fn frames_that_go_while_others_are_sent_are_forgotten() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        for _ in 0..100_000 {
            backlog.sent(1, 1500, [230_400, 230_400], now);
        }
        assert_eq!(backlog.queue(230_400, now).depth, 154);
    }
}
