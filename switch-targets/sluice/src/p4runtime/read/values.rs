//! The switch's values as P4Runtime's messages.

use std::time::Duration;

use sluice_pipeline::{ColorCounts, CounterValue, Meter, MeterConfig};

use crate::proto::p4rt;

pub fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

pub fn counter_data(value: CounterValue) -> p4rt::CounterData {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    p4rt::CounterData {
        byte_count: signed(value.bytes),
        packet_count: signed(value.packets),
    }
}

/// `None` for the default configuration, which an unset field stands for.
pub fn meter_config(meter: &Meter) -> Option<p4rt::MeterConfig> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let (cir, cburst, pir, pburst, eburst) = match meter.config()? {
        MeterConfig::TwoRate {
            cir,
            cburst,
            pir,
            pburst,
        } => (cir, cburst, pir, pburst, 0),
        MeterConfig::SingleRate {
            cir,
            cburst,
            eburst,
        } => (cir, cburst, cir, cburst, eburst),
    };
    Some(p4rt::MeterConfig {
        cir: number(cir),
        cburst: number(cburst),
        pir: number(pir),
        pburst: number(pburst),
        eburst: number(eburst),
    })
}

pub fn meter_counts(counts: ColorCounts) -> p4rt::MeterCounterData {
    p4rt::MeterCounterData {
        green: Some(counter_data(counts.green)),
        yellow: Some(counter_data(counts.yellow)),
        red: Some(counter_data(counts.red)),
    }
}
