//! Decides when to log a condition that may occur very often: when it begins, once a minute while it lasts, and when it has
//! ended, each time with a count.

use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(60);
/// A condition has ended when it has not occurred for this long.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Occurrences of the condition since the previous report.
    pub count: u64,
    pub ended: bool,
}

/// The log of one condition.
#[derive(Default)]
pub struct Log {
    lasts: Option<Lasts>,
}

struct Lasts {
    count: u64,
    met: Instant,
    reported: Instant,
}

impl Log {
    /// The condition occurred. Returns the report to make now if this is the beginning.
    pub fn met(&mut self, now: Instant) -> Option<Report> {
        if let Some(lasts) = &mut self.lasts {
            lasts.count += 1;
            lasts.met = now;
            return None;
        }
        self.lasts = Some(Lasts {
            count: 0,
            met: now,
            reported: now,
        });
        Some(Report {
            count: 1,
            ended: false,
        })
    }

    /// Returns the report that is due. The caller asks about once a second.
    pub fn due(&mut self, now: Instant) -> Option<Report> {
        let lasts = self.lasts.as_mut()?;
        let ended = now.saturating_duration_since(lasts.met) >= QUIET;
        if !ended && now.saturating_duration_since(lasts.reported) < EVERY {
            return None;
        }
        let report = Report {
            count: std::mem::take(&mut lasts.count),
            ended,
        };
        lasts.reported = now;
        if ended {
            self.lasts = None;
        }
        Some(report)
    }
}
