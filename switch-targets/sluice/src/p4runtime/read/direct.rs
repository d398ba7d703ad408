//! Direct counters, and what direct counters and direct meters have in common: they are named by their entry (section 9.1.7).

use super::table::table_entries;
use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed};
use crate::proto::p4rt::{self, entity::Entity};
use crate::schema::Table;

pub fn direct_counters(
    device: &Device,
    installed: &Installed,
    asked: p4rt::DirectCounterEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let asked = p4rt::TableEntry {
        counter_data: Some(p4rt::CounterData::default()),
        ..key_of(asked.table_entry)?
    };
    let counted = ("direct counter", |table: &Table| table.direct_counter);
    for (key, entry) in direct_entries(device, installed, &asked, counted)? {
        found.push(Entity::DirectCounterEntry(p4rt::DirectCounterEntry {
            table_entry: Some(key),
            data: entry.counter_data,
        }));
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

/// The entry's key: its other fields are ignored.
///
/// # Errors
/// `INVALID_ARGUMENT` for a key without its table.
fn key_of(entry: Option<p4rt::TableEntry>) -> Result<p4rt::TableEntry, Fault> {
    let entry = entry.unwrap_or_default();
    if entry.table_id == 0 && (!entry.r#match.is_empty() || entry.priority != 0) {
        let text = "a key is asked for without its table: table_id 0 stands for all tables";
        return Err(Fault::invalid(text));
    }
    Ok(p4rt::TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match,
        priority: entry.priority,
        is_default_action: entry.is_default_action,
        ..Default::default()
    })
}

/// The entries whose direct resource is asked for, each behind the key that names it. `resource`: what it is called, and whether
/// a table has it.
///
/// # Errors
/// `INVALID_ARGUMENT` for a table without it, `NOT_FOUND` when no entry has the key.
fn direct_entries(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::TableEntry,
    (resource, has): (&str, impl Fn(&Table) -> bool),
) -> Result<Vec<(p4rt::TableEntry, p4rt::TableEntry)>, Fault> {
    let schema = &installed.schema;
    let tables: Vec<_> = match asked.table_id {
        0 => {
            let all = schema.tables.iter().filter(|(_, table)| has(table));
            all.map(|(id, table)| (*id, table)).collect()
        }
        id => vec![(id, schema.table(id)?)],
    };
    let mut found = Vec::new();
    for (table_id, table) in tables {
        if !has(table) {
            let text = format!("table '{}' has no {resource}", table.name);
            return Err(Fault::invalid(text));
        }
        let entries = table_entries(device, installed, table_id, table, asked)?;
        if entries.is_empty() && !asked.r#match.is_empty() {
            let text = format!("table '{}' has no such entry", table.name);
            return Err(Fault::not_found(text));
        }
        found.extend(entries.into_iter().map(|entry| {
            let key = p4rt::TableEntry {
                table_id,
                r#match: entry.r#match.clone(),
                priority: entry.priority,
                is_default_action: entry.is_default_action,
                ..Default::default()
            };
            (key, entry)
        }));
    }
    Ok(found)
}
