//! Writes to counter arrays, direct counters and registers (sections 9.3 and 9.7).

use sluice_pipeline::CounterValue;

use super::on_switch::on_switch;
use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed};
use crate::p4runtime::translate::{EntryKey, entry_key};
use crate::proto::p4rt::{self, update::Type};

pub fn counter(
    device: &Device,
    installed: &Installed,
    kind: Type,
    entry: &p4rt::CounterEntry,
) -> Result<(), Fault> {
    let counter = installed.schema.counter(entry.counter_id)?;
    let place = |fault: Fault| fault.at(&format!("counter '{}'", counter.name));
    if kind != Type::Modify {
        return Err(place(Fault::invalid("its cells can only be modified")));
    }
    let cells = counter.cells(entry.index.as_ref())?;
    let Some(value) = entry.data.as_ref().map(value).transpose().map_err(place)? else {
        return Ok(());
    };
    on_switch(device, |switch| {
        cells
            .into_iter()
            .try_for_each(|cell| switch.counter_write(counter.index, cell, value))
    })
    .map_err(place)
}

pub fn direct_counter(
    device: &Device,
    installed: &Installed,
    kind: Type,
    entry: &p4rt::DirectCounterEntry,
) -> Result<(), Fault> {
    let of = entry
        .table_entry
        .as_ref()
        .ok_or_else(|| Fault::invalid("direct counter: the table entry is not set"))?;
    let table = installed.schema.table(of.table_id)?;
    let place = |fault: Fault| fault.at(&format!("direct counter of table '{}'", table.name));
    if kind != Type::Modify {
        return Err(place(Fault::invalid("it can only be modified")));
    }
    if !table.direct_counter {
        return Err(place(Fault::invalid("the table has none")));
    }
    let value = entry.data.as_ref().map(value).transpose().map_err(place)?;
    if of.is_default_action {
        if !of.r#match.is_empty() || of.priority != 0 {
            let text = "the default entry has neither match fields nor a priority";
            return Err(place(Fault::invalid(text)));
        }
        return on_switch(device, |switch| match value {
            Some(value) => switch.default_counter_write(table.index, value).map(drop),
            None => Ok(()),
        })
        .map_err(place);
    }
    let EntryKey { fields, priority } = entry_key(table, of)?;
    on_switch(device, |switch| match value {
        Some(value) => switch.direct_counter_write(table.index, &fields, priority, value),
        None => switch.entry(table.index, &fields, priority).map(drop),
    })
    .map_err(place)
}

/// # Errors
/// `INVALID_ARGUMENT` for negative counts.
pub fn value(data: &p4rt::CounterData) -> Result<CounterValue, Fault> {
    let negative = |_| Fault::invalid("a counter can't be negative");
    let (packets, bytes) = (data.packet_count.try_into(), data.byte_count.try_into());
    Ok(CounterValue {
        packets: packets.map_err(negative)?,
        bytes: bytes.map_err(negative)?,
    })
}

pub fn register(
    device: &Device,
    installed: &Installed,
    kind: Type,
    entry: &p4rt::RegisterEntry,
) -> Result<(), Fault> {
    let register = installed.schema.register(entry.register_id)?;
    let place = |fault: Fault| fault.at(&format!("register '{}'", register.name));
    if kind != Type::Modify {
        return Err(place(Fault::invalid("its cells can only be modified")));
    }
    let cells = register.cells(entry.index.as_ref())?;
    let data = entry.data.as_ref();
    let data = data.ok_or_else(|| place(Fault::invalid("the data is not set")))?;
    let value = register.cell.parse(register.width, data).map_err(place)?;
    on_switch(device, |switch| {
        cells
            .into_iter()
            .try_for_each(|cell| switch.register_write(register.index, cell, &value))
    })
    .map_err(place)
}
