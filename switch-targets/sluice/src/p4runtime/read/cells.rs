//! The cells of counter, meter and register arrays, read while packets pass.

use std::collections::BTreeMap;
use std::ops::Range;

use sluice_pipeline::Switch;

use super::values::{counter_data, meter_config, meter_counts};
use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed, no_program};
use crate::proto::p4rt::{self, entity::Entity};

/// Cells that one request reads; the program may declare arrays as large as it likes.
const MAX_CELLS: usize = 1 << 18;

/// Entries copied while the data plane waits.
pub const AT_ONCE: usize = 512;
pub fn counters(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::CounterEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let schema = &installed.schema;
    let index_asked = asked.index.as_ref();
    let find = |id| schema.counter(id);
    for (counter_id, counter) in arrays(&schema.counters, asked.counter_id, index_asked, find)? {
        let cells = counter.cells(index_asked)?;
        in_pieces(device, cells, found, |switch, cell| {
            let value = switch.counter_read(counter.index, cell).ok()?;
            Some(Entity::CounterEntry(p4rt::CounterEntry {
                counter_id,
                index: Some(index(cell)),
                data: Some(counter_data(value)),
            }))
        })
        .map_err(|fault| fault.at(&format!("counter '{}'", counter.name)))?;
    }
    Ok(())
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
    for (meter_id, meter) in arrays(&schema.meters, asked.meter_id, index_asked, find)? {
        let cells = meter.cells(index_asked)?;
        in_pieces(device, cells, found, |switch, cell| {
            let meter = switch.meter(meter.index, cell).ok()?;
            Some(Entity::MeterEntry(p4rt::MeterEntry {
                meter_id,
                index: Some(index(cell)),
                config: meter_config(&meter),
                counter_data: asked.counter_data.map(|_| meter_counts(meter.counts)),
            }))
        })
        .map_err(|fault| fault.at(&format!("meter '{}'", meter.name)))?;
    }
    Ok(())
}

pub fn registers(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::RegisterEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let schema = &installed.schema;
    let index_asked = asked.index.as_ref();
    let find = |id| schema.register(id);
    for (register_id, register) in arrays(&schema.registers, asked.register_id, index_asked, find)?
    {
        let cells = register.cells(index_asked)?;
        in_pieces(device, cells, found, |switch, cell| {
            let value = switch.register_read(register.index, cell).ok()?;
            Some(Entity::RegisterEntry(p4rt::RegisterEntry {
                register_id,
                index: Some(index(cell)),
                data: Some(register.cell.data(&value)),
            }))
        })
        .map_err(|fault| fault.at(&format!("register '{}'", register.name)))?;
    }
    Ok(())
}

/// Adds an entity for each cell that `read` gives one for. Packets pass between one piece and the next.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` for more than one request may ask for.
pub fn in_pieces(
    device: &Device,
    cells: Range<usize>,
    found: &mut Vec<Entity>,
    read: impl Fn(&Switch, usize) -> Option<Entity>,
) -> Result<(), Fault> {
    let is_cell = |it: &&Entity| {
        use Entity::{CounterEntry, MeterEntry, RegisterEntry};
        matches!(it, CounterEntry(_) | MeterEntry(_) | RegisterEntry(_))
    };
    if found.iter().filter(is_cell).count() + cells.len() > MAX_CELLS {
        let text = format!("a request reads {MAX_CELLS} cells at most: read by index");
        return Err(Fault::new(tonic::Code::ResourceExhausted, text));
    }
    let mut cells = cells.peekable();
    while cells.peek().is_some() {
        let running = device.plane.lock();
        let switch = &running.as_ref().ok_or_else(no_program)?.switch;
        let piece = cells.by_ref().take(AT_ONCE);
        found.extend(piece.filter_map(|cell| read(switch, cell)));
    }
    Ok(())
}

/// The array of that id, or all arrays, which have no index in common.
///
/// # Errors
/// `INVALID_ARGUMENT` for an index without an id, and as `find`.
pub fn arrays<'a, T>(
    all: &'a BTreeMap<u32, T>,
    id: u32,
    index: Option<&p4rt::Index>,
    find: impl Fn(u32) -> Result<&'a T, Fault>,
) -> Result<Vec<(u32, &'a T)>, Fault> {
    match (id, index) {
        (0, None) => Ok(all.iter().map(|(id, array)| (*id, array)).collect()),
        (0, Some(_)) => Err(Fault::invalid(
            "an index is asked for without the array's id: id 0 stands for all arrays",
        )),
        (id, _) => Ok(vec![(id, find(id)?)]),
    }
}

pub fn index(cell: usize) -> p4rt::Index {
    p4rt::Index {
        index: i64::try_from(cell).unwrap_or(i64::MAX),
    }
}
