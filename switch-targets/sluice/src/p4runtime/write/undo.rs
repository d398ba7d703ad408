//! Undoes an update by the update that leads back to the result of `Read` before it (section 7.2, read-write symmetry).
//!
//! ```text
//!   INSERT ◄──► DELETE of the key          DELETE ◄──► INSERT of what was read          MODIFY ◄──► MODIFY to what was read
//! ```
//! An entity that can be read by its key, and written as it is read, needs nothing here.

use tonic::Code;

use crate::fault::Fault;
use crate::p4runtime::read;
use crate::p4runtime::state::{Device, Installed};
use crate::proto::p4rt::{self, entity::Entity, update::Type};

/// The updates that undo `update`, asked for before it is done. None for an update that will be refused.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` for more cells than one read gives, `UNIMPLEMENTED` for an update that cannot be undone.
pub fn inverse(
    device: &Device,
    installed: &Installed,
    kind: Type,
    entity: &Entity,
) -> Result<Vec<p4rt::Update>, Fault> {
    if matches!(entity, Entity::ExternEntry(_)) && kind == Type::Delete {
        return Err(Fault::unsupported(
            "a forgotten key-encryption key does not come back: use CONTINUE_ON_ERROR",
        ));
    }
    let key = key(entity.clone());
    let (kind, entities) = match kind {
        Type::Insert => (Type::Delete, vec![key]),
        Type::Delete => (Type::Insert, before(device, installed, key)?),
        Type::Modify => (Type::Modify, before(device, installed, key)?),
        Type::Unspecified => return Ok(Vec::new()),
    };
    let updates = entities.into_iter().map(|entity| p4rt::Update {
        r#type: kind as i32,
        entity: Some(p4rt::Entity {
            entity: Some(entity),
        }),
    });
    Ok(updates.collect())
}

fn before(device: &Device, installed: &Installed, key: Entity) -> Result<Vec<Entity>, Fault> {
    let mut found = Vec::new();
    if let Entity::TableEntry(key) = key {
        let asked = everything_of(key.clone());
        match read::exactly(device, installed, &asked) {
            Ok(Some(entry)) => found.push(Entity::TableEntry(writable(entry))),
            // A miss did nothing: back to what the program says.
            Ok(None) if key.is_default_action => {
                let counter_data = read::misses(device, installed, key.table_id);
                found.push(Entity::TableEntry(p4rt::TableEntry {
                    counter_data,
                    ..key
                }));
            }
            _ => {}
        }
        return Ok(found);
    }
    match read::one(device, installed, key, &mut found) {
        Err(fault) if fault.code == Code::ResourceExhausted => Err(fault),
        Err(_) => Ok(Vec::new()),
        Ok(()) => Ok(found),
    }
}

/// The fields of an entry that clients may write, although the program fixes the entry.
fn writable(entry: p4rt::TableEntry) -> p4rt::TableEntry {
    p4rt::TableEntry {
        action: entry.action.filter(|_| !entry.is_const),
        is_const: false,
        ..entry
    }
}

/// Asks for what an entry has beside its action.
pub fn everything_of(key: p4rt::TableEntry) -> p4rt::TableEntry {
    p4rt::TableEntry {
        counter_data: Some(p4rt::CounterData::default()),
        meter_config: Some(p4rt::MeterConfig::default()),
        ..key
    }
}

fn key(mut entity: Entity) -> Entity {
    match &mut entity {
        Entity::TableEntry(it) => {
            *it = p4rt::TableEntry {
                table_id: it.table_id,
                r#match: std::mem::take(&mut it.r#match),
                priority: it.priority,
                is_default_action: it.is_default_action,
                ..Default::default()
            };
        }
        Entity::ActionProfileMember(it) => it.action = None,
        Entity::ActionProfileGroup(it) => it.members.clear(),
        Entity::MeterEntry(it) => (it.config, it.counter_data) = (None, None),
        Entity::DirectMeterEntry(it) => (it.config, it.counter_data) = (None, None),
        Entity::CounterEntry(it) => it.data = None,
        Entity::DirectCounterEntry(it) => it.data = None,
        Entity::ValueSetEntry(it) => it.members.clear(),
        Entity::RegisterEntry(it) => it.data = None,
        Entity::DigestEntry(it) => it.config = None,
        // Read looks at their ids alone.
        Entity::PacketReplicationEngineEntry(_) | Entity::ExternEntry(_) => {}
    }
    entity
}
