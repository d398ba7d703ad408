//! A condition is logged when it begins, once a minute while it lasts, and when it has ended, with a count: not each time.

use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(60);
/// A condition that has not been met for so long has ended.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// How often it was met since the report before.
    pub count: u64,
    pub ended: bool,
}

/// Of one condition.
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
    /// The report to make at once, if it begins.
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

    /// To be asked every second or so.
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
