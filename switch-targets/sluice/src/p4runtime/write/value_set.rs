//! Writes to parser value sets: all members at once (section 9.6).

use std::collections::HashSet;

use tonic::Code;

use super::on_switch::on_switch;
use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed};
use crate::p4runtime::translate::key_values;
use crate::proto::p4rt::{self, update::Type};
use crate::schema::sdn::Unknown;

pub fn value_set(
    device: &Device,
    installed: &Installed,
    kind: Type,
    entry: &p4rt::ValueSetEntry,
) -> Result<(), Fault> {
    let set = installed.schema.value_set(entry.value_set_id)?;
    let place = |fault: Fault| fault.at(&format!("value set '{}'", set.name));
    if kind != Type::Modify {
        return Err(place(Fault::invalid(
            "it can only be modified: a modification gives all members",
        )));
    }
    if entry.members.len() > set.size {
        let text = format!("{} members, it holds {}", entry.members.len(), set.size);
        return Err(place(Fault::new(Code::ResourceExhausted, text)));
    }
    let mut seen = HashSet::new();
    let mut members = Vec::new();
    for (at, member) in entry.members.iter().enumerate() {
        let place = |fault: Fault| place(fault.at(&format!("member {at}")));
        let values = key_values(&set.fields, &member.r#match, Unknown::Number).map_err(place)?;
        if !seen.insert(values.clone()) {
            let text = "it is there already";
            return Err(place(Fault::new(Code::AlreadyExists, text)));
        }
        members.push(values);
    }
    on_switch(device, |switch| {
        switch.set_value_set(set.index, members).map(drop)
    })
    .map_err(place)
}
