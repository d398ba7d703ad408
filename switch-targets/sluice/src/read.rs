//! `Read` (section 13): entries and counters, by key or by wildcard.

mod cells;
mod meter;
mod profile;
mod value_set;

use std::time::Duration;

use sluice_pipeline::{CounterValue, EntryView, MatchValue, Switch};
use tonic::{Code, Status};

use crate::device::{Device, Installed, no_program, unknown_role};
use crate::fault::{Fault, batch_status};
use crate::proto::p4rt::{self, entity::Entity, table_action};
use crate::role::Access;
use crate::schema::Table;
use crate::sdn::Unknown;
use crate::translate::{
    EntryKey, action_id, entry_key, field_matches, key_values, shown_key, table_action,
};
use crate::write::entity_name;

/// Entries copied while the data plane waits.
const AT_ONCE: usize = 512;
/// Entities of one response message.
const PER_RESPONSE: usize = 256;

pub type Response = Result<p4rt::ReadResponse, Status>;

/// What was found, then the status if a request in the batch was invalid.
///
/// # Errors
/// `NOT_FOUND` for another device, `FAILED_PRECONDITION` before the first program.
pub async fn read(device: &Device, request: p4rt::ReadRequest) -> Result<Vec<Response>, Fault> {
    device.check_id(request.device_id)?;
    let committed = device.installed.read().await;
    let access = device.sessions.lock().access(&request.role);
    let saved = device.saved.lock();
    let (device, installed) = match saved.as_deref() {
        Some(saved) => (&saved.device, &saved.installed),
        None => (device, committed.as_ref().ok_or_else(no_program)?),
    };
    let owners = &installed.schema.owners;
    let access = match access {
        Some(access) => access,
        // It has no client yet, and objects that are its own.
        None if owners.values().any(|owner| *owner == request.role) => Access {
            role: request.role,
            ..Access::default()
        },
        None => return Err(unknown_role(&request.role)),
    };
    let mut found = Vec::new();
    let mut results = Vec::new();
    for entity in request.entities {
        results.push(match entity.entity {
            Some(entity) => one(device, installed, entity, &mut found),
            None => Err(Fault::invalid("the entity is not set")),
        });
    }
    let mut responses = Vec::new();
    let mut found = found
        .into_iter()
        .filter(|entity| access.covers_entity(owners, entity))
        .map(|entity| p4rt::Entity {
            entity: Some(entity),
        })
        .peekable();
    while found.peek().is_some() {
        responses.push(Ok(p4rt::ReadResponse {
            entities: found.by_ref().take(PER_RESPONSE).collect(),
        }));
    }
    if let Err(status) = batch_status("Read", &results) {
        responses.push(Err(status));
    }
    Ok(responses)
}

/// What one element of a request asks for.
///
/// # Errors
/// As the specification says of its kind.
pub fn one(
    device: &Device,
    installed: &Installed,
    entity: Entity,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let schema = &installed.schema;
    match entity {
        Entity::TableEntry(asked) => {
            if asked.table_id == 0 && is_filtered(&asked) {
                return Err(Fault::invalid(
                    "table_id 0 asks for all entries of all tables: nothing else can be asked with it",
                ));
            }
            let tables: Vec<_> = match asked.table_id {
                0 => schema
                    .tables
                    .iter()
                    .map(|(id, table)| (*id, table))
                    .collect(),
                id => vec![(id, schema.table(id)?)],
            };
            for (id, table) in tables {
                for entry in table_entries(device, installed, id, table, &asked)? {
                    found.push(Entity::TableEntry(entry));
                }
            }
        }
        Entity::DirectCounterEntry(asked) => direct_counters(device, installed, asked, found)?,
        Entity::CounterEntry(asked) => {
            let counters: Vec<_> = match asked.counter_id {
                0 => schema
                    .counters
                    .iter()
                    .map(|(id, counter)| (*id, counter))
                    .collect(),
                id => vec![(id, schema.counter(id)?)],
            };
            for (counter_id, counter) in counters {
                let cells = counter.cells(asked.index.as_ref())?;
                cells::in_pieces(device, cells, found, |switch, cell| {
                    let value = switch.counter_read(counter.index, cell).ok()?;
                    Some(Entity::CounterEntry(p4rt::CounterEntry {
                        counter_id,
                        index: Some(cells::index(cell)),
                        data: Some(counter_data(value)),
                    }))
                })
                .map_err(|fault| fault.at(&format!("counter '{}'", counter.name)))?;
            }
        }
        Entity::RegisterEntry(asked) => cells::registers(device, installed, &asked, found)?,
        Entity::ValueSetEntry(asked) => value_set::value_sets(device, installed, &asked, found)?,
        Entity::ActionProfileMember(asked) => profile::members(device, installed, &asked, found)?,
        Entity::ActionProfileGroup(asked) => profile::groups(device, installed, &asked, found)?,
        Entity::MeterEntry(asked) => meter::meters(device, installed, &asked, found)?,
        Entity::DirectMeterEntry(asked) => {
            meter::direct_meters(device, installed, asked, found)?;
        }
        Entity::DigestEntry(asked) => {
            let ids: Vec<u32> = match asked.digest_id {
                0 => schema.digests.keys().copied().collect(),
                id => schema.digest(id).map(|_| vec![id])?,
            };
            for digest_id in ids {
                let Some(config) = device.digests.lock().config(digest_id) else {
                    continue;
                };
                let config = Some(p4rt::digest_entry::Config {
                    max_timeout_ns: nanos(config.max_timeout),
                    max_list_size: i32::try_from(config.max_list_size).unwrap_or(i32::MAX),
                    ack_timeout_ns: nanos(config.ack_timeout),
                });
                found.push(Entity::DigestEntry(p4rt::DigestEntry { digest_id, config }));
            }
        }
        Entity::PacketReplicationEngineEntry(asked) => installed.replication.read(&asked, found),
        // There are none, which answers a question after all of them.
        other if is_wildcard(&other) => {}
        other => {
            return Err(Fault::unsupported(format!(
                "{} is not supported by this switch",
                entity_name(&other)
            )));
        }
    }
    Ok(())
}

/// Whether a request asks for some entries only (section 9.1.6).
fn is_filtered(asked: &p4rt::TableEntry) -> bool {
    #[allow(deprecated, reason = "older clients use controller_metadata")]
    let cookie = asked.controller_metadata;
    asked.is_default_action
        || asked.priority != 0
        || cookie != 0
        || !asked.r#match.is_empty()
        || !asked.metadata.is_empty()
        || asked.action.is_some()
}

fn table_entries(
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
                .and_then(meter::config),
            meter_counter_data: (meter.as_ref())
                .filter(|_| asked.meter_counter_data.is_some())
                .map(|meter| meter::counts(meter.counts)),
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

/// Nothing can be written meanwhile, so that the order holds from one lock to the next.
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

/// What a table's default entry has counted, if it counts.
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
pub(crate) fn noted(
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

fn direct_counters(
    device: &Device,
    installed: &Installed,
    asked: p4rt::DirectCounterEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let asked = p4rt::TableEntry {
        counter_data: Some(p4rt::CounterData::default()),
        ..asked.table_entry.unwrap_or_default()
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
    let asked = p4rt::TableEntry {
        action: None,
        ..asked.clone()
    };
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
        let entries = table_entries(device, installed, table_id, table, &asked)?;
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

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

fn counter_data(value: CounterValue) -> p4rt::CounterData {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    p4rt::CounterData {
        byte_count: signed(value.bytes),
        packet_count: signed(value.packets),
    }
}

/// Whether it asks for all objects of a kind that this switch does not have.
fn is_wildcard(entity: &Entity) -> bool {
    match entity {
        Entity::ExternEntry(it) => it.extern_type_id == 0,
        _ => false,
    }
}
