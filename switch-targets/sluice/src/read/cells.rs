//! The cells of counter and register arrays, read while packets pass.

use std::ops::Range;

use sluice_pipeline::Switch;

use super::{AT_ONCE, counter_data};
use crate::device::{Device, Installed, no_program};
use crate::fault::Fault;
use crate::proto::p4rt::{self, entity::Entity};
use crate::schema::{Counter, Register};

/// Cells that one request reads; the program may declare arrays as large as it likes.
const MAX_CELLS: usize = 1 << 18;

pub fn counters(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::CounterEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let schema = &installed.schema;
    let counters: Vec<(u32, &Counter)> = match asked.counter_id {
        0 => schema.counters.iter().map(|(id, it)| (*id, it)).collect(),
        id => vec![(id, schema.counter(id)?)],
    };
    for (counter_id, counter) in counters {
        let cells = counter.cells(asked.index.as_ref())?;
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

pub fn registers(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::RegisterEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let schema = &installed.schema;
    let registers: Vec<(u32, &Register)> = match asked.register_id {
        0 => schema.registers.iter().map(|(id, it)| (*id, it)).collect(),
        id => vec![(id, schema.register(id)?)],
    };
    for (register_id, register) in registers {
        let cells = register.cells(asked.index.as_ref())?;
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

/// What `read` makes of the cells. Packets pass between one piece and the next.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` for more than one request may ask for.
pub fn in_pieces(
    device: &Device,
    cells: Range<usize>,
    found: &mut Vec<Entity>,
    read: impl Fn(&Switch, usize) -> Option<Entity>,
) -> Result<(), Fault> {
    let is_cell = |it: &&Entity| matches!(it, Entity::CounterEntry(_) | Entity::RegisterEntry(_));
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

pub fn index(cell: usize) -> p4rt::Index {
    p4rt::Index {
        index: i64::try_from(cell).unwrap_or(i64::MAX),
    }
}
