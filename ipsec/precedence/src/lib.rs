//! The scheduling of a thread that moves packets.
//!
//! ```text
//!   URGENT (SCHED_FIFO) ──it works a quarter of the time──► BUSY (its niceness) ──less──► URGENT
//! ```
//! A thread with little work needs microseconds for it, but would wait milliseconds for the end of another program's time slice: so it
//! runs first. A thread with much work would starve all others, and would be woken for each packet instead of for many.

use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_millis(10);
/// The part of a window that an urgent thread works for at most.
const SHARE: u32 = 4;

/// The scheduling of the thread that creates it.
pub struct Precedence {
    urgent: bool,
    /// The system lets it be.
    allowed: bool,
    since: Instant,
    /// Processor time until then.
    worked: Duration,
}

impl Precedence {
    /// Urgent, if the system allows it (CAP_SYS_NICE). `niceness` is that of a busy thread.
    pub fn new(niceness: i32) -> Self {
        // SAFETY: no pointers. On Linux 0 is the calling thread alone.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
        let allowed = schedule(true);
        Self {
            urgent: allowed,
            allowed,
            since: Instant::now(),
            worked: worked(),
        }
    }

    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Call it every round, at `now`.
    pub fn review(&mut self, now: Instant) {
        let window = now - self.since;
        if window < WINDOW || !self.allowed {
            return;
        }
        let worked = worked();
        let urgent = worked.saturating_sub(self.worked) * SHARE < window;
        (self.since, self.worked) = (now, worked);
        if urgent != self.urgent {
            self.urgent = urgent;
            self.allowed = schedule(urgent);
        }
    }
}

/// Processor time of the calling thread.
fn worked() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn schedule(urgent: bool) -> bool {
    let policy = if urgent {
        libc::SCHED_FIFO
    } else {
        libc::SCHED_OTHER
    };
    let parameter = libc::sched_param {
        sched_priority: libc::c_int::from(urgent),
    };
    // SAFETY: `parameter` outlives the call. On Linux 0 is the calling thread alone.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn policy() -> libc::c_int {
        // SAFETY: no pointers.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn who_works_little_goes_first_and_who_works_much_does_not() {
        let mut precedence = Precedence::new(0);
        if !precedence.is_allowed() {
            assert_eq!(policy(), libc::SCHED_OTHER);
            return;
        }
        for _ in 0..2 {
            assert_eq!(policy(), libc::SCHED_FIFO);
            let began = Instant::now();
            while policy() == libc::SCHED_FIFO && began.elapsed() < PATIENCE {
                precedence.review(Instant::now());
            }
            assert_eq!(policy(), libc::SCHED_OTHER);
            for _ in 0..3 {
                std::thread::sleep(WINDOW);
                precedence.review(Instant::now());
            }
        }
    }
}
