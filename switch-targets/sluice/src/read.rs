//! `Read` (section 13): entries and counters, by key or by wildcard.

mod cells;
mod value_set;

use std::time::Duration;

use sluice_pipeline::{CounterValue, EntryView, MatchValue, Switch};
use tonic::{Code, Status};

use crate::device::{Device, Installed, no_program};
use crate::fault::{Fault, batch_status};
use crate::proto::p4rt::{self, entity::Entity, packet_replication_engine_entry as pre};
use crate::schema::Table;
use crate::sdn::Unknown;
use crate::translate::{EntryKey, action_id, field_matches, key_values, shown_key, table_action};
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
    let installed = device.installed.read().await;
    let installed = installed.as_ref().ok_or_else(no_program)?;
    let mut found = Vec::new();
    let mut results = Vec::new();
    for entity in request.entities {
        results.push(match entity.entity {
            Some(_) if !request.role.is_empty() => Err(Fault::not_found(format!(
                "role '{}' is not known: leave the role unset",
                request.role
            ))),
            Some(entity) => one(device, installed, entity, &mut found),
            None => Err(Fault::invalid("the entity is not set")),
        });
    }
    let mut responses = Vec::new();
    let mut found = found
        .into_iter()
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

fn one(
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
    let action = action_id(asked.action.as_ref());
    let now = device.plane.now();
    let mut entries = Vec::new();
    for EntryView {
        entry,
        counter,
        idle,
    } in candidates(device, table, key.as_ref(), asked.priority)?
    {
        if key.as_ref().is_some_and(|key| *key != entry.key)
            || (asked.priority != 0 && asked.priority != entry.priority)
        {
            continue;
        }
        let shown_action = table_action(table, &entry.action);
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

/// The entry of that key, or all of them. Nothing can be written meanwhile, so that the order holds from one lock to the next.
fn candidates(
    device: &Device,
    table: &Table,
    key: Option<&Vec<MatchValue>>,
    priority: i32,
) -> Result<Vec<EntryView>, Fault> {
    let shown = |mut view: EntryView| {
        view.entry.key = shown_key(table, &view.entry.key);
        view
    };
    if let (Some(key), true) = (key, table.prioritised == (priority > 0)) {
        let running = device.plane.lock();
        let switch: &Switch = &running.as_ref().ok_or_else(no_program)?.switch;
        let found = switch.entry(table.index, key, priority);
        return Ok(found.map(shown).into_iter().collect());
    }
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
        entries.extend(piece.into_iter().map(shown));
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
    Some(entry)
}

fn direct_counters(
    device: &Device,
    installed: &Installed,
    asked: p4rt::DirectCounterEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let asked = asked.table_entry.unwrap_or_default();
    let tables: Vec<_> = match asked.table_id {
        0 => installed
            .schema
            .tables
            .iter()
            .filter(|(_, table)| table.direct_counter)
            .map(|(id, it)| (*id, it))
            .collect(),
        id => vec![(id, installed.schema.table(id)?)],
    };
    for (id, table) in tables {
        if !table.direct_counter {
            return Err(Fault::invalid(format!(
                "table '{}' has no direct counter",
                table.name
            )));
        }
        let asked = p4rt::TableEntry {
            counter_data: Some(p4rt::CounterData::default()),
            action: None,
            ..asked.clone()
        };
        let entries = table_entries(device, installed, id, table, &asked)?;
        if entries.is_empty() && !asked.r#match.is_empty() {
            return Err(Fault::not_found(format!(
                "table '{}' has no such entry",
                table.name
            )));
        }
        for entry in entries {
            let data = entry.counter_data;
            let key = p4rt::TableEntry {
                table_id: id,
                r#match: entry.r#match,
                priority: entry.priority,
                is_default_action: entry.is_default_action,
                ..Default::default()
            };
            found.push(Entity::DirectCounterEntry(p4rt::DirectCounterEntry {
                table_entry: Some(key),
                data,
            }));
        }
    }
    Ok(())
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
        Entity::ActionProfileMember(it) => it.action_profile_id == 0,
        Entity::ActionProfileGroup(it) => it.action_profile_id == 0,
        Entity::MeterEntry(it) => it.meter_id == 0,
        Entity::DirectMeterEntry(it) => it
            .table_entry
            .as_ref()
            .is_none_or(|entry| entry.table_id == 0),
        Entity::PacketReplicationEngineEntry(it) => match &it.r#type {
            Some(pre::Type::MulticastGroupEntry(it)) => it.multicast_group_id == 0,
            Some(pre::Type::CloneSessionEntry(it)) => it.session_id == 0,
            None => true,
        },
        _ => false,
    }
}
