//! Takes the ways of real packets out of the data plane.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sluice_pipeline::{Lane, Outcome, Step};
use tokio::sync::mpsc;

/// A packet and its way.
#[derive(Debug)]
pub struct Explained {
    pub port: u16,
    pub frame: Vec<u8>,
    pub steps: Vec<Step>,
    /// Packets before it that came faster than they were taken, and are not told.
    pub lost: u64,
}

/// Which packets are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub port: u16,
    /// How many.
    pub count: usize,
    /// Bytes that must stand at an offset.
    pub pattern: Option<(usize, Vec<u8>)>,
}

impl Filter {
    fn takes(&self, port: u16, frame: &[u8]) -> bool {
        let fits = |(offset, bytes): &(usize, Vec<u8>)| {
            frame
                .get(*offset..)
                .is_some_and(|rest| rest.starts_with(bytes))
        };
        port == self.port && self.pattern.as_ref().is_none_or(fits)
    }
}

struct Open {
    filter: Filter,
    to: mpsc::Sender<Explained>,
    lost: u64,
}

/// One look into the data plane at a time. Shut, it costs a load a packet.
#[derive(Default)]
pub struct Tap {
    is_open: AtomicBool,
    open: Mutex<Option<Open>>,
}

impl Tap {
    /// False: another one is open.
    pub fn open(&self, filter: Filter, to: mpsc::Sender<Explained>) -> bool {
        let mut open = self.open.lock();
        if open.is_some() {
            return false;
        }
        *open = Some(Open {
            filter,
            to,
            lost: 0,
        });
        self.is_open.store(true, Ordering::Relaxed);
        true
    }

    /// No packet is told any more.
    pub fn shut(&self) {
        *self.open.lock() = None;
        self.is_open.store(false, Ordering::Relaxed);
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
        let Some(open) = guard.as_mut().filter(|open| open.filter.takes(port, frame)) else {
            return lane.process(port, frame, now, outcome);
        };
        let steps = lane.explain(port, frame, now, outcome);
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
