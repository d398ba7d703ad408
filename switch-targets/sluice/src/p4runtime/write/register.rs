//! Writes to registers (section 9.7).

use super::on_switch::on_switch;
use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed};
use crate::proto::p4rt::{self, update::Type};

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
