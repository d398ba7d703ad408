//! Reads of meter arrays and direct meters (section 9.4).

use sluice_pipeline::{ColorCounts, Meter, MeterConfig};

use super::counter_data;
use super::direct::direct_entries;
use crate::device::{Device, Installed, no_program};
use crate::fault::Fault;
use crate::proto::p4rt::{self, entity::Entity};
use crate::schema::Table;

/// `None` for the default configuration, which an unset field stands for.
pub fn config(meter: &Meter) -> Option<p4rt::MeterConfig> {
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

pub fn counts(counts: ColorCounts) -> p4rt::MeterCounterData {
    p4rt::MeterCounterData {
        green: Some(counter_data(counts.green)),
        yellow: Some(counter_data(counts.yellow)),
        red: Some(counter_data(counts.red)),
    }
}

pub fn meters(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::MeterEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let schema = &installed.schema;
    let meters: Vec<_> = match asked.meter_id {
        0 => schema.meters.iter().map(|(id, it)| (*id, it)).collect(),
        id => vec![(id, schema.meter(id)?)],
    };
    for (meter_id, meter) in meters {
        let cells = meter.cells(asked.index.as_ref())?;
        let running = device.plane.lock();
        let switch = &running.as_ref().ok_or_else(no_program)?.switch;
        for (cell, meter) in
            cells.filter_map(|cell| Some((cell, switch.meter(meter.index, cell).ok()?)))
        {
            found.push(Entity::MeterEntry(p4rt::MeterEntry {
                meter_id,
                index: Some(p4rt::Index {
                    index: i64::try_from(cell).unwrap_or(i64::MAX),
                }),
                config: config(&meter),
                counter_data: asked.counter_data.map(|_| counts(meter.counts)),
            }));
        }
    }
    Ok(())
}

pub fn direct_meters(
    device: &Device,
    installed: &Installed,
    asked: p4rt::DirectMeterEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let asked = p4rt::TableEntry {
        meter_config: Some(p4rt::MeterConfig::default()),
        meter_counter_data: asked.counter_data,
        ..asked.table_entry.unwrap_or_default()
    };
    let metered = ("direct meter", |table: &Table| table.direct_meter.is_some());
    for (key, entry) in direct_entries(device, installed, &asked, metered)? {
        found.push(Entity::DirectMeterEntry(p4rt::DirectMeterEntry {
            table_entry: Some(key),
            config: entry.meter_config,
            counter_data: entry.meter_counter_data,
        }));
    }
    Ok(())
}
