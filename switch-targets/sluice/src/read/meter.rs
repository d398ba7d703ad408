//! Reads of meter arrays and direct meters (section 9.4).

use sluice_pipeline::{ColorCounts, Meter, MeterConfig};

use super::direct::{direct_entries, key_of};
use super::{cells, counter_data};
use crate::device::{Device, Installed};
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
    let index_asked = asked.index.as_ref();
    let find = |id| schema.meter(id);
    for (meter_id, meter) in cells::arrays(&schema.meters, asked.meter_id, index_asked, find)? {
        let cells = meter.cells(index_asked)?;
        cells::in_pieces(device, cells, found, |switch, cell| {
            let meter = switch.meter(meter.index, cell).ok()?;
            Some(Entity::MeterEntry(p4rt::MeterEntry {
                meter_id,
                index: Some(cells::index(cell)),
                config: config(&meter),
                counter_data: asked.counter_data.map(|_| counts(meter.counts)),
            }))
        })
        .map_err(|fault| fault.at(&format!("meter '{}'", meter.name)))?;
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
        ..key_of(asked.table_entry)?
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
