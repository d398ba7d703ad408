//! A meter on its way to another process.

use super::{ColorCounts, Marker, Meter};
use crate::cells::CounterValue;

/// A meter's counts and buckets, for another process that has configured it alike.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MeterState {
    /// Packets and bytes, green, yellow, red.
    #[prost(uint64, repeated, tag = "1")]
    pub counts: Vec<u64>,
    /// Low and high halves of the two buckets, and the time of the last refill.
    #[prost(uint64, repeated, tag = "2")]
    pub buckets: Vec<u64>,
}

impl Meter {
    pub(crate) fn state(&self) -> MeterState {
        let ColorCounts { green, yellow, red } = self.counts;
        let counts = [green, yellow, red].map(|it| [it.packets, it.bytes]);
        let counts = match self.counts == ColorCounts::default() {
            true => Vec::new(),
            false => counts.as_flattened().to_vec(),
        };
        let halves = |bucket: u128| [bucket as u64, (bucket >> 64) as u64];
        let buckets = self.marker.as_ref().map(|it| {
            let (committed, upper) = (halves(it.committed), halves(it.upper));
            [committed[0], committed[1], upper[0], upper[1], it.filled]
        });
        MeterState {
            counts,
            buckets: buckets.into_iter().flatten().collect(),
        }
    }

    /// Returns whether the state is of a meter that is configured as this one.
    pub(crate) fn restore(&mut self, state: &MeterState) -> bool {
        if let [gp, gb, yp, yb, rp, rb] = state.counts[..] {
            let value = |packets, bytes| CounterValue { packets, bytes };
            self.counts = ColorCounts {
                green: value(gp, gb),
                yellow: value(yp, yb),
                red: value(rp, rb),
            };
        }
        let whole = |low: u64, high: u64| u128::from(high) << 64 | u128::from(low);
        match (self.marker.as_deref_mut(), &state.buckets[..]) {
            (None, []) => true,
            (Some(marker), [cl, ch, ul, uh, filled]) => {
                let full = Marker::new(marker.config);
                marker.committed = whole(*cl, *ch).min(full.committed);
                marker.upper = whole(*ul, *uh).min(full.upper);
                marker.filled = *filled;
                true
            }
            _ => false,
        }
    }
}
