//! Idle times of a table's entries: the time without a hit (P4Runtime section 9.1.8).
//!
//! ```text
//!   insert, another timeout ──► armed ── timeout without a hit ──► expired, told once ──► armed again, from now on
//!                                 ▲ │
//!                                 └─┘ hit
//! ```

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::entry::IdleView;

/// Idle times by row. Empty for a table without idle timeouts, so that a hit there costs a comparison.
#[derive(Debug, Default)]
pub struct Idle {
    rows: Vec<Row>,
    /// Rows that have a timeout.
    timed: usize,
}

/// Nanoseconds since the switch started.
#[derive(Debug, Default)]
struct Row {
    /// 0: just inserted.
    last_hit: AtomicU64,
    /// The time at which the timeout was set, or told last.
    armed: u64,
    timeout: u64,
}

/// A row's times, for another process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct IdleState {
    #[prost(uint64, tag = "1")]
    pub last_hit: u64,
    #[prost(uint64, tag = "2")]
    pub armed: u64,
}

impl Idle {
    /// A row without a timeout that was never hit.
    pub fn reset(&mut self, row: usize) {
        if self.rows.len() <= row {
            self.rows.resize_with(row + 1, Row::default);
        }
        self.timed -= usize::from(self.rows[row].timeout != 0);
        self.rows[row] = Row::default();
    }

    #[inline]
    pub fn hit(&self, row: usize, now: Duration) {
        if let Some(row) = self.rows.get(row) {
            row.last_hit.fetch_max(nanos(now), Relaxed);
        }
    }

    /// Returns the timeout that it was. Another timeout starts now; the same one goes on.
    pub fn set(&mut self, row: usize, timeout: Duration, now: Duration) -> Option<Duration> {
        let row = self.rows.get_mut(row)?;
        let (timeout, now) = (nanos(timeout), nanos(now));
        let old = row.timeout;
        self.timed = self.timed + usize::from(timeout != 0) - usize::from(old != 0);
        let last_hit = row.last_hit.get_mut();
        if *last_hit == 0 {
            *last_hit = now;
        }
        if old != timeout {
            (row.timeout, row.armed) = (timeout, now);
        }
        Some(Duration::from_nanos(old))
    }

    pub fn view(&self, row: usize) -> Option<IdleView> {
        self.rows.get(row).map(|row| IdleView {
            timeout: Duration::from_nanos(row.timeout),
            last_hit: Duration::from_nanos(row.last_hit.load(Relaxed)),
        })
    }

    /// A row with the timeout of another one goes on where that one is.
    pub fn adopt(&mut self, row: usize, other: &Idle, from: usize) {
        if let (Some(own), Some(from)) = (self.rows.get_mut(row), other.rows.get(from))
            && own.timeout == from.timeout
        {
            *own = Row {
                last_hit: from.last_hit.load(Relaxed).into(),
                armed: from.armed,
                timeout: from.timeout,
            };
        }
    }

    /// `None` for a row without idle times.
    pub fn state(&self, row: usize) -> Option<IdleState> {
        self.rows.get(row).map(|row| IdleState {
            last_hit: row.last_hit.load(Relaxed),
            armed: row.armed,
        })
    }

    /// A row goes on where it was in another process, with the timeout that it has here.
    pub fn restore(&mut self, row: usize, state: &IdleState) {
        if let Some(row) = self.rows.get_mut(row) {
            (*row.last_hit.get_mut(), row.armed) = (state.last_hit, state.armed);
        }
    }

    /// Looks at `budget` rows from `from` on, tells those that have expired, and arms them again. Returns the row to go
    /// on with; `None` at the end.
    pub fn sweep(
        &mut self,
        from: usize,
        budget: usize,
        now: Duration,
        mut expired: impl FnMut(usize),
    ) -> Option<usize> {
        if self.timed == 0 {
            return None;
        }
        let (now, end) = (nanos(now), from.saturating_add(budget));
        for (at, row) in self.rows.iter_mut().enumerate().take(end).skip(from) {
            let last = (*row.last_hit.get_mut()).max(row.armed);
            if row.timeout != 0 && now.saturating_sub(last) >= row.timeout {
                row.armed = now;
                expired(at);
            }
        }
        (end < self.rows.len()).then_some(end)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NONE: [usize; 0] = [];

    fn expired(idle: &mut Idle, now: Duration) -> Vec<usize> {
        let mut rows = Vec::new();
        assert_eq!(idle.sweep(0, usize::MAX, now, |row| rows.push(row)), None);
        rows
    }

    fn armed(timeouts: &[u32]) -> Idle {
        let mut idle = Idle::default();
        for (row, timeout) in timeouts.iter().enumerate() {
            idle.reset(row);
            idle.set(row, *timeout * MS, 100 * MS);
        }
        idle
    }

    #[test]
    fn an_entry_expires_once_a_timeout_and_a_hit_puts_it_off() {
        let mut idle = armed(&[10, 0]);
        assert_eq!(expired(&mut idle, 109 * MS), NONE);
        assert_eq!(expired(&mut idle, 110 * MS), [0]);
        assert_eq!(expired(&mut idle, 119 * MS), NONE);
        assert_eq!(
            expired(&mut idle, 120 * MS),
            [0],
            "told again after another timeout"
        );
        idle.hit(0, 125 * MS);
        assert_eq!(expired(&mut idle, 134 * MS), NONE);
        assert_eq!(expired(&mut idle, 135 * MS), [0]);
    }

    #[test]
    fn another_timeout_starts_anew_and_the_same_one_goes_on() {
        let mut idle = armed(&[10]);
        assert_eq!(idle.set(0, 10 * MS, 109 * MS), Some(10 * MS));
        assert_eq!(expired(&mut idle, 110 * MS), [0]);
        idle.set(0, 20 * MS, 115 * MS);
        assert_eq!(expired(&mut idle, 134 * MS), NONE);
        assert_eq!(expired(&mut idle, 135 * MS), [0]);
        idle.set(0, Duration::ZERO, 136 * MS);
        assert_eq!(expired(&mut idle, 999 * MS), NONE);
    }

    #[test]
    fn a_sweep_goes_piece_by_piece() {
        let mut idle = armed(&[10; 5]);
        let (mut rows, mut from, mut pieces) = (Vec::new(), Some(0), 0);
        while let Some(at) = from {
            from = idle.sweep(at, 2, 200 * MS, |row| rows.push(row));
            pieces += 1;
        }
        assert_eq!((rows, pieces), (vec![0, 1, 2, 3, 4], 3));
    }

    #[test]
    fn a_row_that_is_used_again_has_forgotten() {
        let mut idle = armed(&[10]);
        idle.reset(0);
        assert_eq!(expired(&mut idle, 999 * MS), NONE);
        idle.set(0, 10 * MS, 1000 * MS);
        assert_eq!(idle.view(0).map(|view| view.last_hit), Some(1000 * MS));
    }
}
