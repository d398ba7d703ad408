//! Reads of table entries and default entries (section 9.1.6).

use sluice_pipeline::{EntryView, MatchValue, Switch};
use tonic::Code;

use super::cells::AT_ONCE;
use super::profile;
use super::values::{counter_data, meter_config, meter_counts, nanos};
use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed, no_program};
use crate::p4runtime::translate::{
    EntryKey, action_id, entry_key, field_matches, key_values, shown_key, table_action,
};
use crate::proto::p4rt::{self, table_action};
use crate::schema::Table;
use crate::schema::sdn::Unknown;

/// Returns whether a request asks for some entries only (section 9.1.6).
pub fn is_filtered(asked: &p4rt::TableEntry) -> bool {
    #[allow(deprecated, reason = "older clients use controller_metadata")]
    let cookie = asked.controller_metadata;
    asked.is_default_action
        || asked.priority != 0
        || cookie != 0
        || !asked.r#match.is_empty()
        || !asked.metadata.is_empty()
        || asked.action.is_some()
}

pub fn table_entries(
    device: &Device,
    installed: &Installed,
    table_id: u32,
    table: &Table,
    asked: &p4rt::TableEntry,
) -> Result<Vec<p4rt::TableEntry>, Fault> {
    let place = |fault: Fault| fault.at(&format!("table '{}'", table.name));
    let asks_idle = asked.time_since_last_hit.is_some() || asked.idle_timeout_ns != 0;
    if asks_idle && (!table.idle_timeout || asked.is_default_action) && asked.table_id != 0 {
        return Err(place(Fault::invalid("the entry has no idle timeout")));
    }
    let by_reference = asked.action.as_ref().is_some_and(|action| {
        use table_action::Type;
        !matches!(action.r#type, Some(Type::Action(_)) | None)
    });
    if by_reference {
        let text = "entries are found by their action, not by a member, a group or an action set";
        return Err(place(Fault::invalid(text)));
    }
    if asked.is_default_action {
        if !asked.r#match.is_empty() || asked.priority != 0 {
            let text = "the default entry has neither match fields nor a priority";
            return Err(place(Fault::invalid(text)));
        }
        return Ok(default_entry(device, installed, table_id, table, asked)
            .into_iter()
            .collect());
    }
    let key = (!asked.r#match.is_empty())
        .then(|| key_values(&table.fields, &asked.r#match, Unknown::Refuse))
        .transpose();
    let key = match key {
        // A name that nothing has.
        Err(fault) if fault.code == Code::NotFound => return Ok(Vec::new()),
        key => key.map_err(place)?,
    };
    entries_of(device, installed, table_id, table, asked, key)
}

/// The entry of exactly the key that is asked for: a key without match fields is that of the entry that matches everything.
///
/// # Errors
/// As for a write of that key.
pub fn exactly(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::TableEntry,
) -> Result<Option<p4rt::TableEntry>, Fault> {
    let table = installed.schema.table(asked.table_id)?;
    if asked.is_default_action {
        return Ok(default_entry(
            device,
            installed,
            asked.table_id,
            table,
            asked,
        ));
    }
    let key = Some(entry_key(table, asked)?.fields);
    let found = entries_of(device, installed, asked.table_id, table, asked, key)?;
    Ok(found.into_iter().next())
}

fn entries_of(
    device: &Device,
    installed: &Installed,
    table_id: u32,
    table: &Table,
    asked: &p4rt::TableEntry,
    key: Option<Vec<MatchValue>>,
) -> Result<Vec<p4rt::TableEntry>, Fault> {
    let action = action_id(asked.action.as_ref());
    let now = device.plane.now();
    let mut entries = Vec::new();
    let candidates = match &key {
        Some(key) if asked.priority != 0 || !table.prioritised => {
            one_entry(device, table, key, asked.priority)?
        }
        _ => all_entries(device, table)?,
    };
    for view in candidates {
        let EntryView {
            entry,
            counter,
            idle,
            meter,
        } = view;
        if key.as_ref().is_some_and(|key| *key != entry.key)
            || (asked.priority != 0 && asked.priority != entry.priority)
        {
            continue;
        }
        let shown_action = profile::shown_action(&installed.schema, table, &entry.action);
        if action.is_some() && action != action_id(shown_action.as_ref()) {
            continue;
        }
        let counter = counter.filter(|_| asked.counter_data.is_some() && table.direct_counter);
        let idle = idle.filter(|_| table.idle_timeout);
        let elapsed = idle.filter(|_| asked.time_since_last_hit.is_some());
        let shown = p4rt::TableEntry {
            table_id,
            r#match: field_matches(table, &entry.key),
            priority: entry.priority,
            action: shown_action,
            counter_data: counter.map(counter_data),
            idle_timeout_ns: idle.map_or(0, |idle| nanos(idle.timeout)),
            time_since_last_hit: elapsed.map(|idle| p4rt::table_entry::IdleTimeout {
                elapsed_ns: nanos(now.saturating_sub(idle.last_hit)),
            }),
            meter_config: (meter.as_ref())
                .filter(|_| asked.meter_config.is_some())
                .and_then(meter_config),
            meter_counter_data: (meter.as_ref())
                .filter(|_| asked.meter_counter_data.is_some())
                .map(|meter| meter_counts(meter.counts)),
            is_const: table.is_const,
            ..Default::default()
        };
        let at = (
            table_id,
            Some(EntryKey {
                fields: entry.key,
                priority: entry.priority,
            }),
        );
        entries.extend(noted(installed, &at, shown, asked));
    }
    Ok(entries)
}

fn one_entry(
    device: &Device,
    table: &Table,
    key: &[MatchValue],
    priority: i32,
) -> Result<Vec<EntryView>, Fault> {
    let running = device.plane.lock();
    let switch: &Switch = &running.as_ref().ok_or_else(no_program)?.switch;
    let view = switch.entry(table.index, key, priority);
    Ok(view
        .ok()
        .map(|view| shown(table, view))
        .into_iter()
        .collect())
}

fn shown(table: &Table, mut view: EntryView) -> EntryView {
    view.entry.key = shown_key(table, &view.entry.key);
    view
}

/// Reads all entries. No write can come meanwhile, so that the order holds from one lock to the next.
fn all_entries(device: &Device, table: &Table) -> Result<Vec<EntryView>, Fault> {
    let mut entries = Vec::new();
    let mut from = 0;
    loop {
        let before = entries.len();
        let running = device.plane.lock();
        let switch: &Switch = &running.as_ref().ok_or_else(no_program)?.switch;
        for (row, view) in switch.entries_from(table.index, from).take(AT_ONCE) {
            entries.push(view);
            from = row + 1;
        }
        drop(running);
        let piece = entries.split_off(before);
        let is_last = piece.len() < AT_ONCE;
        entries.extend(piece.into_iter().map(|view| shown(table, view)));
        if is_last {
            return Ok(entries);
        }
    }
}

fn default_entry(
    device: &Device,
    installed: &Installed,
    table_id: u32,
    table: &Table,
    asked: &p4rt::TableEntry,
) -> Option<p4rt::TableEntry> {
    let running = device.plane.lock();
    let switch = &running.as_ref()?.switch;
    let call = switch.default_entry(table.index).ok()??;
    let action = table_action(table, call)?;
    let wanted = action_id(asked.action.as_ref());
    if wanted.is_some() && wanted != action_id(Some(&action)) {
        return None;
    }
    let counter = switch.default_counter_read(table.index).ok();
    let counter = counter.filter(|_| asked.counter_data.is_some() && table.direct_counter);
    let entry = p4rt::TableEntry {
        table_id,
        action: Some(action),
        counter_data: counter.map(counter_data),
        is_default_action: true,
        is_const: table.const_default,
        ..Default::default()
    };
    noted(installed, &(table_id, None), entry, asked)
}

/// The count of a table's default entry, if it counts.
pub fn misses(device: &Device, installed: &Installed, table_id: u32) -> Option<p4rt::CounterData> {
    let table = installed.schema.table(table_id).ok()?;
    let running = device.plane.lock();
    let counter = running.as_ref()?.switch.default_counter_read(table.index);
    counter
        .ok()
        .filter(|_| table.direct_counter)
        .map(counter_data)
}

/// Adds what the client had us keep; `None` when the client asks for another.
pub fn noted(
    installed: &Installed,
    at: &(u32, Option<EntryKey>),
    mut entry: p4rt::TableEntry,
    asked: &p4rt::TableEntry,
) -> Option<p4rt::TableEntry> {
    let note = installed.notes.get(at).cloned().unwrap_or_default();
    #[allow(
        deprecated,
        reason = "older clients use controller_metadata, and it must be read back"
    )]
    {
        if asked.controller_metadata != 0 && asked.controller_metadata != note.controller_metadata {
            return None;
        }
        entry.controller_metadata = note.controller_metadata;
    }
    if !asked.metadata.is_empty() && asked.metadata != note.metadata {
        return None;
    }
    entry.metadata = note.metadata;
    if let Some(table_action::Type::ActionProfileActionSet(set)) =
        entry.action.as_mut().and_then(|it| it.r#type.as_mut())
    {
        [set.action_selection_mode, set.size_semantics] = note.modes;
    }
    Some(entry)
}
