//! `Read` (section 13): entries and counters, by key or by wildcard.

mod cells;
mod direct;
mod profile;
mod table;
mod values;

use tonic::{Code, Status};

use crate::fault::{Fault, batch_status};
use crate::p4runtime::access::unknown_role;
use crate::p4runtime::kek;
use crate::p4runtime::state::{Device, Installed, no_program};
use crate::p4runtime::translate::shown_matches;
use crate::proto::p4rt::{self, entity::Entity};
use crate::schema::role::Access;

use direct::{direct_counters, direct_meters};
pub use table::{exactly, misses, noted};
use table::{is_filtered, table_entries};
use values::nanos;

/// Entities of one response message.
const PER_RESPONSE: usize = 256;

/// The most entities that a batch finds.
const MAX_FOUND: usize = 1 << 20;
/// Bytes in memory for each entity, about.
const ENTITY: usize = 768;

pub type Response = Result<p4rt::ReadResponse, Status>;

/// Returns the entities found, then the status if a request in the batch was invalid.
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
        // The role has no client yet, but it owns objects.
        None if owners.values().any(|owner| *owner == request.role) => Access {
            role: request.role,
            ..Access::default()
        },
        None => return Err(unknown_role(&request.role)),
    };
    let mut found = Vec::new();
    let mut results = Vec::new();
    for entity in request.entities {
        let before = found.len();
        let result = match entity.entity {
            // An element finds no more than the switch holds, but a batch may repeat it any number of times.
            Some(_) if before >= MAX_FOUND => Err(too_much()),
            Some(entity) => one(device, installed, entity, &mut found),
            None => Err(Fault::invalid("the entity is not set")),
        };
        if result.is_err() {
            found.truncate(before);
        }
        results.push(result);
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

fn too_much() -> Fault {
    let text =
        format!("the elements before it found {MAX_FOUND} entities already: read less at once");
    Fault::new(Code::ResourceExhausted, text)
}

/// Bytes that the responses hold, about.
pub fn size(responses: &[Response]) -> usize {
    let entities = responses.iter().flatten().map(|it| it.entities.len());
    ENTITY * entities.sum::<usize>()
}

/// Finds the entities that one element of a request asks for.
///
/// # Errors
/// The specification's, for the element's kind.
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
        Entity::CounterEntry(asked) => cells::counters(device, installed, &asked, found)?,
        Entity::RegisterEntry(asked) => cells::registers(device, installed, &asked, found)?,
        Entity::ValueSetEntry(asked) => value_sets(device, installed, &asked, found)?,
        Entity::ActionProfileMember(asked) => profile::members(device, installed, &asked, found)?,
        Entity::ActionProfileGroup(asked) => profile::groups(device, installed, &asked, found)?,
        Entity::MeterEntry(asked) => cells::meters(device, installed, &asked, found)?,
        Entity::DirectMeterEntry(asked) => {
            direct_meters(device, installed, asked, found)?;
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
        Entity::ExternEntry(asked) => kek::read(device.keks.as_deref(), &asked, found)?,
    }
    Ok(())
}

/// Parser value sets, each with all its members (section 9.6).
fn value_sets(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::ValueSetEntry,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let schema = &installed.schema;
    let sets: Vec<_> = match asked.value_set_id {
        0 => schema.value_sets.iter().map(|(id, it)| (*id, it)).collect(),
        id => vec![(id, schema.value_set(id)?)],
    };
    for (value_set_id, set) in sets {
        let running = device.plane.lock();
        let switch = &running.as_ref().ok_or_else(no_program)?.switch;
        let members = switch.value_set(set.index).to_vec();
        drop(running);
        let shown = |member: &Vec<_>| p4rt::ValueSetMember {
            r#match: shown_matches(&set.fields, member),
        };
        found.push(Entity::ValueSetEntry(p4rt::ValueSetEntry {
            value_set_id,
            members: members.iter().map(shown).collect(),
        }));
    }
    Ok(())
}
