//! Meters: they colour a packet by the rate of those before it. Colour-blind.

mod handover;

use std::time::Duration;

use crate::cells::CounterValue;
pub use handover::MeterState;

/// Buckets are kept in billionths of a unit, so that a rate times nanoseconds is exact.
const SCALE: u128 = 1_000_000_000;

/// Colours in v1model's numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Color {
    Green,
    Yellow,
    Red,
}

/// Rates in units a second, bursts in units: packets or bytes, as the meter's [`crate::MeterSpec`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterConfig {
    /// RFC 2698.
    TwoRate {
        cir: u64,
        cburst: u64,
        pir: u64,
        pburst: u64,
    },
    /// RFC 2697.
    SingleRate { cir: u64, cburst: u64, eburst: u64 },
}

/// Packets and bytes of each colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColorCounts {
    pub green: CounterValue,
    pub yellow: CounterValue,
    pub red: CounterValue,
}

/// A meter. Without a configuration every packet is green.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    marker: Option<Box<Marker>>,
    pub counts: ColorCounts,
}

impl Meter {
    pub fn config(&self) -> Option<MeterConfig> {
        self.marker.as_ref().map(|marker| marker.config)
    }

    /// Starts anew, with full buckets, unless the meter is configured so already. Returns the configuration before.
    pub fn configure(&mut self, config: Option<MeterConfig>) -> Option<MeterConfig> {
        let before = self.config();
        if before != config {
            self.marker = config.map(|config| Box::new(Marker::new(config)));
        }
        before
    }

    /// Marks and counts a packet of `bytes` that is `units` to the meter. `now` is the time since the switch started.
    pub fn mark(&mut self, units: u64, bytes: u64, now: Duration) -> Color {
        let color = match &mut self.marker {
            Some(marker) => marker.mark(units, now),
            None => Color::Green,
        };
        let count = match color {
            Color::Green => &mut self.counts.green,
            Color::Yellow => &mut self.counts.yellow,
            Color::Red => &mut self.counts.red,
        };
        count.packets = count.packets.wrapping_add(1);
        count.bytes = count.bytes.wrapping_add(bytes);
        color
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Marker {
    config: MeterConfig,
    /// Tc of the RFCs.
    committed: u128,
    /// Tp of RFC 2698, Te of RFC 2697.
    upper: u128,
    /// The time of the last refill in nanoseconds. The buckets are full at first, so that the first time does not matter.
    filled: u64,
}

impl Marker {
    fn new(config: MeterConfig) -> Marker {
        let (committed, upper) = match config {
            MeterConfig::TwoRate { cburst, pburst, .. } => (cburst, pburst),
            MeterConfig::SingleRate { cburst, eburst, .. } => (cburst, eburst),
        };
        Marker {
            config,
            committed: scaled(committed),
            upper: scaled(upper),
            filled: 0,
        }
    }

    fn mark(&mut self, units: u64, now: Duration) -> Color {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let elapsed = now.saturating_sub(self.filled);
        self.filled = self.filled.max(now);
        let earned = |rate: u64| u128::from(rate) * u128::from(elapsed);
        let need = scaled(units);
        match self.config {
            MeterConfig::TwoRate {
                cir,
                cburst,
                pir,
                pburst,
            } => {
                self.committed = filled(self.committed, earned(cir), cburst);
                self.upper = filled(self.upper, earned(pir), pburst);
                if self.upper < need {
                    return Color::Red;
                }
                self.upper -= need;
                match take(&mut self.committed, need) {
                    true => Color::Green,
                    false => Color::Yellow,
                }
            }
            MeterConfig::SingleRate {
                cir,
                cburst,
                eburst,
            } => {
                let room = scaled(cburst) - self.committed;
                let spilt = earned(cir).saturating_sub(room);
                self.committed = filled(self.committed, earned(cir), cburst);
                self.upper = filled(self.upper, spilt, eburst);
                if take(&mut self.committed, need) {
                    Color::Green
                } else if take(&mut self.upper, need) {
                    Color::Yellow
                } else {
                    Color::Red
                }
            }
        }
    }
}

fn scaled(units: u64) -> u128 {
    u128::from(units) * SCALE
}

fn filled(bucket: u128, earned: u128, burst: u64) -> u128 {
    bucket.saturating_add(earned).min(scaled(burst))
}

/// Takes `need` from the bucket. Returns false, and takes nothing, when the bucket holds less.
fn take(bucket: &mut u128, need: u128) -> bool {
    match bucket.checked_sub(need) {
        Some(rest) => {
            *bucket = rest;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marks(config: MeterConfig, packets: &[(u64, u64)]) -> Vec<Color> {
        let mut meter = Meter::default();
        meter.configure(Some(config));
        let mut now = 0;
        let mark = packets.iter().map(|(gap, units)| {
            now += gap;
            meter.mark(*units, *units, Duration::from_nanos(now))
        });
        mark.collect()
    }

    #[test]
    fn without_a_configuration_all_is_green() {
        let mut meter = Meter::default();
        assert_eq!(meter.mark(u64::MAX, 100, Duration::MAX), Color::Green);
        assert_eq!(meter.counts.green.packets, 1);
        assert_eq!(meter.counts.green.bytes, 100);
        assert_eq!(meter.config(), None);
    }

    #[test]
    fn two_rates_mark_a_burst_green_then_yellow_then_red() {
        use Color::{Green, Red, Yellow};
        let config = MeterConfig::TwoRate {
            cir: 1,
            cburst: 2,
            pir: 2,
            pburst: 4,
        };
        let second = 1_000_000_000;
        let burst = [(0, 1), (0, 1), (0, 1), (0, 1), (0, 1)];
        assert_eq!(marks(config, &burst), [Green, Green, Yellow, Yellow, Red]);
        let later = [&burst[..], &[(second, 1), (0, 1), (0, 1)]].concat();
        assert_eq!(marks(config, &later)[5..], [Green, Yellow, Red]);
        let just_before = [&burst[..], &[(second / 2 - 1, 1), (1, 1)]].concat();
        assert_eq!(marks(config, &just_before)[5..], [Red, Yellow]);
    }

    #[test]
    fn a_single_rate_fills_the_excess_with_what_the_committed_burst_leaves() {
        use Color::{Green, Red, Yellow};
        let config = MeterConfig::SingleRate {
            cir: 1,
            cburst: 2,
            eburst: 1,
        };
        let burst = [(0, 1); 4];
        assert_eq!(marks(config, &burst), [Green, Green, Yellow, Red]);
        let later = [&burst[..], &[(3_000_000_000, 1), (0, 1), (0, 1), (0, 1)]].concat();
        assert_eq!(marks(config, &later)[4..], [Green, Green, Yellow, Red]);
    }

    #[test]
    fn extremes_do_not_overflow_and_time_does_not_run_backwards() {
        let most = u64::MAX;
        for config in [
            MeterConfig::TwoRate {
                cir: most,
                cburst: most,
                pir: most,
                pburst: most,
            },
            MeterConfig::SingleRate {
                cir: most,
                cburst: most,
                eburst: most,
            },
        ] {
            let mut meter = Meter::default();
            meter.configure(Some(config));
            for now in [Duration::MAX, Duration::ZERO, Duration::MAX] {
                meter.mark(most, most, now);
            }
        }
    }

    /// Buckets in units, as floating-point numbers; `None` where rounding could decide.
    struct Model {
        config: MeterConfig,
        committed: f64,
        upper: f64,
    }

    impl Model {
        fn mark(&mut self, seconds: f64, units: f64) -> Option<Color> {
            let close = |bucket: f64| (bucket - units).abs() < 1e-3;
            let doubtful;
            let color = match self.config {
                MeterConfig::TwoRate {
                    cir,
                    cburst,
                    pir,
                    pburst,
                } => {
                    self.committed = (self.committed + cir as f64 * seconds).min(cburst as f64);
                    self.upper = (self.upper + pir as f64 * seconds).min(pburst as f64);
                    doubtful = close(self.upper) || close(self.committed);
                    if self.upper < units {
                        Color::Red
                    } else {
                        self.upper -= units;
                        if self.committed < units {
                            Color::Yellow
                        } else {
                            self.committed -= units;
                            Color::Green
                        }
                    }
                }
                MeterConfig::SingleRate {
                    cir,
                    cburst,
                    eburst,
                } => {
                    let sum = self.committed + cir as f64 * seconds;
                    self.committed = sum.min(cburst as f64);
                    self.upper = (self.upper + sum - self.committed).min(eburst as f64);
                    doubtful = close(self.upper) || close(self.committed);
                    if self.committed >= units {
                        self.committed -= units;
                        Color::Green
                    } else if self.upper >= units {
                        self.upper -= units;
                        Color::Yellow
                    } else {
                        Color::Red
                    }
                }
            };
            (!doubtful).then_some(color)
        }
    }

    fn configs() -> impl Strategy<Value = MeterConfig> {
        let rate = 0_u64..1_000_000;
        let burst = 0_u64..10_000;
        (any::<bool>(), rate.clone(), burst.clone(), rate, burst).prop_map(
            |(two, cir, cburst, more, upper)| match two {
                true => MeterConfig::TwoRate {
                    cir,
                    cburst,
                    pir: cir + more,
                    pburst: upper,
                },
                false => MeterConfig::SingleRate {
                    cir,
                    cburst,
                    eburst: upper,
                },
            },
        )
    }

    proptest! {
        #[test]
        fn colours_are_those_of_a_naive_model(
            config in configs(),
            packets in prop::collection::vec((0_u64..20_000_000, 1_u64..3_000), 1..200),
        ) {
            let (committed, upper) = match config {
                MeterConfig::TwoRate { cburst, pburst, .. } => (cburst, pburst),
                MeterConfig::SingleRate { cburst, eburst, .. } => (cburst, eburst),
            };
            let mut model = Model { config, committed: committed as f64, upper: upper as f64 };
            for (at, color) in marks(config, &packets).into_iter().enumerate() {
                let (gap, units) = packets[at];
                match model.mark(gap as f64 / 1e9, units as f64) {
                    Some(expected) => prop_assert_eq!(color, expected, "packet {}", at),
                    None => break,
                }
            }
        }

        #[test]
        fn no_more_is_green_than_the_committed_rate_allows(
            config in configs(),
            packets in prop::collection::vec((0_u64..20_000_000, 1_u64..3_000), 1..200),
        ) {
            let (MeterConfig::TwoRate { cir, cburst, .. } | MeterConfig::SingleRate { cir, cburst, .. }) = config;
            let colors = marks(config, &packets);
            let green = packets.iter().zip(colors).filter(|(_, color)| *color == Color::Green);
            let green: u64 = green.map(|((_, units), _)| units).sum();
            let nanos: u64 = packets.iter().map(|(gap, _)| gap).sum();
            prop_assert!(scaled(green) <= scaled(cburst) + u128::from(cir) * u128::from(nanos));
        }
    }
}
