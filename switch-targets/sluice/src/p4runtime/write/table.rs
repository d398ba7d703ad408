//! Writes to table entries and default entries (section 9.1).

use std::time::Duration;

use sluice_pipeline::{CounterValue, Entry};

use super::cells::value;
use super::meter::{Setting, setting_of};
use super::on_switch::{RefusedChange, on_switch};
use super::profile::entry_action;
use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed, Note};
use crate::p4runtime::translate::{EntryKey, action_call, entry_key};
use crate::proto::p4rt::{self, table_action, update::Type};
use crate::schema::Table;

/// Bytes of `TableEntry.metadata` that are kept for one entry at most.
const MAX_METADATA: usize = 1024;

pub fn table_entry(
    device: &Device,
    installed: &mut Installed,
    kind: Type,
    entry: p4rt::TableEntry,
) -> Result<(), Fault> {
    let table = installed.schema.table(entry.table_id)?;
    let place = |fault: Fault| fault.at(&format!("table '{}'", table.name));
    if table.fields.is_empty() {
        return Err(place(Fault::invalid(
            "it has no key, hence no entries but the default one",
        )));
    }
    if entry.is_const {
        return Err(place(Fault::invalid("is_const can't be written")));
    }
    if table.is_const && (kind != Type::Modify || entry.action.is_some()) {
        return Err(place(Fault::denied("the program fixes its entries")));
    }
    let key = entry_key(table, &entry)?;
    let note_at = (entry.table_id, Some(key.clone()));
    if kind == Type::Delete {
        on_switch(device, |switch| {
            switch.delete(table.index, &key.fields, key.priority)
        })
        .map_err(place)?;
        installed.notes.remove(&note_at);
        return Ok(());
    }
    let counter = direct_resources(table, &entry).map_err(place)?;
    let meter = meter_setting(table, &entry).map_err(place)?;
    let timeout = idle_timeout(table, &entry).map_err(place)?;
    let mut note = note(&entry).map_err(place)?;
    if entry.action.is_none() {
        note.modes = installed
            .notes
            .get(&note_at)
            .map_or(note.modes, |kept| kept.modes);
    }
    let action = entry
        .action
        .as_ref()
        .map(|action| entry_action(&device.plane, &installed.schema, table, action))
        .transpose()?;
    let EntryKey { fields, priority } = key;
    let with = |action| Entry {
        key: fields.clone(),
        priority,
        action,
    };
    let now = device.plane.now();
    on_switch(device, |switch| {
        match (kind, action) {
            (Type::Insert, Some(action)) => switch.insert(table.index, with(action))?,
            (Type::Modify, Some(action)) => switch.modify(table.index, with(action))?,
            (Type::Insert, None) => {
                return Err(RefusedChange::Fault(Fault::invalid(
                    "the action is not set",
                )));
            }
            _ => drop(switch.entry(table.index, &fields, priority)?),
        }
        if let Some(timeout) = timeout {
            switch.set_idle_timeout(table.index, &fields, priority, timeout, now)?;
        }
        if let Some(setting) = meter {
            setting.apply(switch.direct_meter_mut(table.index, &fields, priority)?);
        }
        match counter {
            Some(value) => {
                Ok(switch.direct_counter_write(table.index, &fields, priority, value)?)
            }
            None => Ok(()),
        }
    })
    .map_err(place)?;
    keep(installed, note_at, note);
    Ok(())
}

pub fn default_entry(
    device: &Device,
    installed: &mut Installed,
    kind: Type,
    entry: p4rt::TableEntry,
) -> Result<(), Fault> {
    let table = installed.schema.table(entry.table_id)?;
    let place = |fault: Fault| fault.at(&format!("table '{}', default entry", table.name));
    if kind != Type::Modify {
        return Err(place(Fault::invalid(
            "it can only be modified: it always exists",
        )));
    }
    if !entry.r#match.is_empty() || entry.priority != 0 {
        return Err(place(Fault::invalid(
            "it has neither match fields nor a priority",
        )));
    }
    if table.const_default {
        return Err(place(Fault::denied("the program fixes it")));
    }
    let counter = direct_resources(table, &entry).map_err(place)?;
    if entry.meter_config.is_some() || entry.meter_counter_data.is_some() {
        meter_setting(table, &entry).map_err(place)?;
        return Err(place(Fault::unsupported(
            "misses are not marked by this switch",
        )));
    }
    if entry.idle_timeout_ns != 0 || entry.time_since_last_hit.is_some() {
        return Err(place(Fault::invalid("it has no idle timeout")));
    }
    let (reset, mut note) = (entry.action.is_none(), note(&entry).map_err(place)?);
    let action = entry
        .action
        .as_ref()
        .map(|action| action_call(table, action, true))
        .transpose()?;
    on_switch(device, |switch| {
        match action {
            Some(action) => switch.set_default(table.index, action)?,
            None => switch.reset_default(table.index)?,
        }
        match counter {
            Some(value) => switch.default_counter_write(table.index, value).map(drop),
            None => Ok(()),
        }
    })
    .map_err(place)?;
    if reset {
        note = Note::default();
    }
    keep(installed, (entry.table_id, None), note);
    Ok(())
}

/// The value to set an entry's direct counter to, if any.
fn direct_resources(
    table: &Table,
    entry: &p4rt::TableEntry,
) -> Result<Option<CounterValue>, Fault> {
    if entry.is_const {
        return Err(Fault::invalid("is_const can't be written"));
    }
    match &entry.counter_data {
        Some(_) if !table.direct_counter => Err(Fault::invalid("the table has no direct counter")),
        Some(data) => Ok(Some(value(data)?)),
        None => Ok(None),
    }
}

/// The idle timeout to set, if any: a modification without an action changes no timeout that it does not give. A timeout of zero
/// is none.
fn idle_timeout(table: &Table, entry: &p4rt::TableEntry) -> Result<Option<Duration>, Fault> {
    if entry.time_since_last_hit.is_some() {
        return Err(Fault::invalid("time_since_last_hit can't be written"));
    }
    match u64::try_from(entry.idle_timeout_ns) {
        Err(_) => Err(Fault::invalid("an idle timeout can't be negative")),
        Ok(1..) if !table.idle_timeout => Err(Fault::invalid("the table has no idle timeout")),
        Ok(1..) if table.is_const => {
            Err(Fault::denied("entries of the program have no idle timeout"))
        }
        Ok(0) if entry.action.is_none() => Ok(None),
        Ok(nanos) => Ok(table.idle_timeout.then_some(Duration::from_nanos(nanos))),
    }
}

fn meter_setting(table: &Table, entry: &p4rt::TableEntry) -> Result<Option<Setting>, Fault> {
    setting_of(
        table,
        entry.meter_config.as_ref(),
        entry.meter_counter_data.as_ref(),
    )
}

fn note(entry: &p4rt::TableEntry) -> Result<Note, Fault> {
    if entry.metadata.len() > MAX_METADATA {
        return Err(Fault::invalid(format!(
            "metadata is longer than {MAX_METADATA} bytes"
        )));
    }
    #[allow(
        deprecated,
        reason = "older clients use controller_metadata, and it must be read back"
    )]
    let controller_metadata = entry.controller_metadata;
    Ok(Note {
        controller_metadata,
        metadata: entry.metadata.clone(),
        modes: modes(entry),
    })
}

fn modes(entry: &p4rt::TableEntry) -> [i32; 2] {
    let action = entry.action.as_ref();
    match action.and_then(|action| action.r#type.as_ref()) {
        Some(table_action::Type::ActionProfileActionSet(set)) => {
            [set.action_selection_mode, set.size_semantics]
        }
        _ => Default::default(),
    }
}

fn keep(installed: &mut Installed, at: (u32, Option<EntryKey>), note: Note) {
    if note != Note::default() {
        installed.notes.insert(at, note);
    } else if !installed.notes.is_empty() {
        installed.notes.remove(&at);
    }
}
