//! How soon a thread that moves packets gets a processor.
//!
//! ```text
//!   URGENT (SCHED_FIFO) ──it works a quarter of the time──► BUSY (its niceness) ──less──► URGENT
//! ```
//! Who has little to do needs microseconds for it, but would wait for milliseconds until another program's time slice ends: so it goes
//! first. Who has much to do would keep all others from running, and be woken for each packet instead of for many.

use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_millis(10);
/// The part of a window that an urgent thread works for at most.
const SHARE: u32 = 4;

/// Of the thread that makes it.
pub struct Precedence {
    urgent: bool,
    /// The system lets it be.
    allowed: bool,
    window: Instant,
    worked: Duration,
    woke: Instant,
}

impl Precedence {
    /// Urgent, if the system allows it (CAP_SYS_NICE). `niceness` is that of a busy thread.
    pub fn new(niceness: i32) -> Self {
        // SAFETY: no pointers. On Linux 0 is the calling thread alone.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
        let now = Instant::now();
        let allowed = schedule(true);
        Self {
            urgent: allowed,
            allowed,
            window: now,
            worked: Duration::ZERO,
            woke: now,
        }
    }

    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Waits with `wait`: the time between is work. A thread that finds no time to wait calls it all the same.
    pub fn rest<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        let now = Instant::now();
        self.worked += now - self.woke;
        let window = now - self.window;
        if window >= WINDOW {
            let urgent = self.worked * SHARE < window;
            if self.allowed && urgent != self.urgent {
                self.allowed = schedule(urgent);
                self.urgent = urgent;
            }
            (self.window, self.worked) = (now, Duration::ZERO);
        }
        let waited = wait();
        self.woke = Instant::now();
        waited
    }
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
            while began.elapsed() < 2 * WINDOW {
                precedence.rest(|| ());
            }
            assert_eq!(policy(), libc::SCHED_OTHER);
            precedence.rest(|| std::thread::sleep(8 * WINDOW));
            precedence.rest(|| ());
        }
    }
}
