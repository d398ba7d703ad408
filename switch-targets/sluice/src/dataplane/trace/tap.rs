//! Takes the ways of real packets out of the data plane.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sluice_pipeline::{Lane, Outcome, Step};
use tokio::sync::mpsc;

use super::Filter;

/// A packet and its way.
#[derive(Debug)]
pub struct Explained {
    pub port: u16,
    pub frame: Vec<u8>,
    pub steps: Vec<Step>,
    /// Packets before it that came too fast to be looked at.
    pub lost: u64,
}

/// Packets of one second whose way is looked at for a filter that needs it: it costs several times what the packet costs.
const LOOKS_A_SECOND: u32 = 2000;

struct Open {
    ticket: u64,
    filter: Filter,
    to: mpsc::Sender<Explained>,
    lost: u64,
    /// Ways looked at since then.
    looks: (Duration, u32),
}

impl Open {
    /// Returns whether to look at this packet's way.
    fn looks(&mut self, port: u16, frame: &[u8], now: Duration) -> bool {
        if !self.filter.takes(port, frame) {
            return false;
        }
        let (since, looks) = self.looks;
        if !self.filter.looks_at_steps() || now.saturating_sub(since) >= Duration::from_secs(1) {
            self.looks = (now, 1);
        } else if looks < LOOKS_A_SECOND {
            self.looks.1 += 1;
        } else {
            self.lost += 1;
            return false;
        }
        true
    }
}

/// A look into the data plane, one at a time. Shut, the tap costs a load a packet.
#[derive(Default)]
pub struct Tap {
    is_open: AtomicBool,
    open: Mutex<Option<Open>>,
    opened: AtomicU64,
}

impl Tap {
    /// Returns what shuts it; `None` while another one is open.
    pub fn open(&self, filter: Filter, to: mpsc::Sender<Explained>) -> Option<u64> {
        let mut open = self.open.lock();
        if open.is_some() {
            return None;
        }
        let ticket = self.opened.fetch_add(1, Ordering::Relaxed);
        *open = Some(Open {
            ticket,
            filter,
            to,
            lost: 0,
            looks: Default::default(),
        });
        self.is_open.store(true, Ordering::Relaxed);
        Some(ticket)
    }

    /// Shuts the look of that ticket, if it is still open.
    pub fn shut(&self, ticket: u64) {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|open| open.ticket == ticket) {
            *open = None;
            self.is_open.store(false, Ordering::Relaxed);
        }
    }

    /// Runs the packet through the program, and tells its way if it is asked for.
    #[inline]
    pub fn process(
        &self,
        lane: &mut Lane<'_>,
        port: u16,
        frame: &[u8],
        now: Duration,
        outcome: &mut Outcome,
    ) {
        if !self.is_open.load(Ordering::Relaxed) {
            return lane.process(port, frame, now, outcome);
        }
        self.explain(lane, port, frame, now, outcome);
    }

    #[cold]
    fn explain(
        &self,
        lane: &mut Lane<'_>,
        port: u16,
        frame: &[u8],
        now: Duration,
        outcome: &mut Outcome,
    ) {
        let mut guard = self.open.lock();
        let open = guard.as_mut();
        let Some(open) = open.and_then(|open| open.looks(port, frame, now).then_some(open)) else {
            return lane.process(port, frame, now, outcome);
        };
        let steps = lane.explain(port, frame, now, outcome);
        if !open.filter.wants(&steps) {
            return;
        }
        let explained = Explained {
            port,
            frame: frame.to_vec(),
            steps,
            lost: open.lost,
        };
        match open.to.try_send(explained) {
            Ok(()) => {
                open.lost = 0;
                open.filter.count = open.filter.count.saturating_sub(1);
            }
            Err(mpsc::error::TrySendError::Full(_)) => open.lost += 1,
            Err(mpsc::error::TrySendError::Closed(_)) => open.filter.count = 0,
        }
        if open.filter.count == 0 {
            *guard = None;
            self.is_open.store(false, Ordering::Relaxed);
        }
    }
}
