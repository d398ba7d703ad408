//! `Write` (section 12): updates in order, each with its own result.
//!
//! | atomicity | one update fails | packets |
//! |---|---|---|
//! | `CONTINUE_ON_ERROR` | the others are done | see each update |
//! | `ROLLBACK_ON_ERROR`, `DATAPLANE_ATOMIC` | those before it are undone, those behind it not tried | see none or all |
//!
//! An entity's own file does it: `(device, installed, kind, entity)`, with [`on_switch::on_switch`] for what the data plane holds, and leaves
//! everything as it was when it fails. To be undone it must be readable by its key and written as it is read ([`undo`]): a file needs
//! no journal of its own, and must not keep [`crate::dataplane::plane::DataPlane::lock`] while it calls another.

#[cfg(test)]
mod batch_tests;
mod cells;
mod digest;
mod meter;
mod on_switch;
mod profile;
mod replication;
mod table;
#[cfg(test)]
mod test_device;
mod undo;
#[cfg(test)]
mod undo_tests;
mod value_set;

use tonic::{Code, Status};

use crate::fault::{Fault, batch_status};
use crate::p4runtime::access::role_name;
use crate::p4runtime::kek;
use crate::p4runtime::state::{Device, Installed, no_program};
use crate::proto::p4rt::{self, entity::Entity, update::Type, write_request::Atomicity};
use crate::schema::role::Access;

pub use undo::everything_of;
use undo::inverse;

/// # Errors
/// One status for a request that is refused as a whole; else `UNKNOWN` with one `p4.v1.Error` for each update.
pub async fn write(device: &Device, request: p4rt::WriteRequest) -> Result<(), Status> {
    let mut installed = device.installed.write().await;
    #[allow(deprecated, reason = "a client of P4Runtime before 1.4 has it")]
    let role = role_name(request.role, request.role_id);
    let access = device.check_writer(request.device_id, &role, request.election_id)?;
    let mut saved = device.saved.lock();
    let (device, installed) = match saved.as_deref_mut() {
        Some(saved) => (&saved.device, &mut saved.installed),
        None => (device, installed.as_mut().ok_or_else(no_program)?),
    };
    let results = batch(
        device,
        installed,
        &access,
        request.atomicity,
        request.updates,
    )?;
    batch_status("Write", &results)
}

/// The updates of one request, each with its result.
///
/// # Errors
/// `INVALID_ARGUMENT` for an atomicity that is not known; nothing has changed.
pub fn batch(
    device: &Device,
    installed: &mut Installed,
    access: &Access,
    atomicity: i32,
    updates: Vec<p4rt::Update>,
) -> Result<Vec<Result<(), Fault>>, Fault> {
    match Atomicity::try_from(atomicity) {
        Ok(Atomicity::ContinueOnError) => {
            let each = updates.into_iter();
            Ok(each
                .map(|update| apply(device, installed, access, update))
                .collect())
        }
        Ok(Atomicity::RollbackOnError | Atomicity::DataplaneAtomic) => {
            Ok(all_or_none(device, installed, access, updates))
        }
        Err(_) => {
            let text = format!("atomicity {atomicity} is not known");
            Err(Fault::invalid(text))
        }
    }
}

/// Updates that undo what one request has done so far: as many as one request writes entries, or reads cells.
const MAX_JOURNAL: usize = 1 << 18;

fn too_much() -> Fault {
    let text = format!(
        "the batch changes more than {MAX_JOURNAL} entities, which can't be undone: write less at once, or CONTINUE_ON_ERROR"
    );
    Fault::new(Code::ResourceExhausted, text)
}

fn all_or_none(
    device: &Device,
    installed: &mut Installed,
    access: &Access,
    updates: Vec<p4rt::Update>,
) -> Vec<Result<(), Fault>> {
    let _packets_wait = device.plane.transaction();
    let count = updates.len();
    let mut journal = Vec::new();
    for (at, update) in updates.into_iter().enumerate() {
        let entity = update.entity.as_ref().and_then(|it| it.entity.as_ref());
        let inverse = entity.map(|it| inverse(device, installed, update.r#type(), it));
        let inverse = match inverse.transpose().map(Option::unwrap_or_default) {
            Ok(inverse) if journal.len() + inverse.len() > MAX_JOURNAL => Err(too_much()),
            inverse => inverse,
        };
        let done = inverse.and_then(|inverse| {
            apply(device, installed, access, update)?;
            Ok(inverse)
        });
        match done {
            Ok(inverse) => journal.extend(inverse.into_iter().rev()),
            Err(fault) => {
                for update in journal.into_iter().rev() {
                    if let Err(fault) = perform(device, installed, update) {
                        tracing::error!(%fault.message, "an update could not be undone");
                    }
                }
                let aborted =
                    |what| Fault::new(Code::Aborted, format!("{what}: update {at} failed"));
                let mut results = vec![Err(aborted("not attempted")); count];
                results[..at].fill(Err(aborted("undone")));
                results[at] = Err(fault);
                return results;
            }
        }
    }
    vec![Ok(()); count]
}

/// An update of a client, if its role allows it.
fn apply(
    device: &Device,
    installed: &mut Installed,
    access: &Access,
    update: p4rt::Update,
) -> Result<(), Fault> {
    let entity = update.entity.as_ref().and_then(|it| it.entity.as_ref());
    if let Some(entity) = entity
        && !access.covers_entity(&installed.schema.owners, entity)
    {
        return Err(Fault::denied(format!(
            "the role may not write this {}",
            entity_name(entity)
        )));
    }
    perform(device, installed, update)
}

/// # Errors
/// With the code and text for the client; nothing has changed.
pub fn perform(
    device: &Device,
    installed: &mut Installed,
    update: p4rt::Update,
) -> Result<(), Fault> {
    let kind = match Type::try_from(update.r#type) {
        Ok(Type::Unspecified) => return Err(Fault::invalid("the update's type is not set")),
        Ok(kind) => kind,
        Err(_) => {
            let text = format!("the update's type {} is not known", update.r#type);
            return Err(Fault::invalid(text));
        }
    };
    let entity = update.entity.and_then(|entity| entity.entity);
    let entity = entity.ok_or_else(|| Fault::invalid("the update's entity is not set"))?;
    match entity {
        Entity::TableEntry(entry) if entry.is_default_action => {
            table::default_entry(device, installed, kind, entry)
        }
        Entity::TableEntry(entry) => table::table_entry(device, installed, kind, entry),
        Entity::CounterEntry(entry) => cells::counter(device, installed, kind, &entry),
        Entity::DirectCounterEntry(entry) => cells::direct_counter(device, installed, kind, &entry),
        Entity::MeterEntry(entry) => meter::meter(device, installed, kind, &entry),
        Entity::ActionProfileMember(entry) => profile::member(device, installed, kind, &entry),
        Entity::ActionProfileGroup(entry) => profile::group(device, installed, kind, &entry),
        Entity::DirectMeterEntry(entry) => meter::direct_meter(device, installed, kind, &entry),
        Entity::DigestEntry(entry) => digest::digest(device, installed, kind, &entry),
        Entity::RegisterEntry(entry) => cells::register(device, installed, kind, &entry),
        Entity::ValueSetEntry(entry) => value_set::value_set(device, installed, kind, &entry),
        Entity::PacketReplicationEngineEntry(entry) => {
            replication::replication(device, installed, kind, entry)
        }
        Entity::ExternEntry(entry) => kek::write(device.keks.as_deref(), kind, &entry),
    }
}

/// The entity's name in the protobuf definition.
pub fn entity_name(entity: &Entity) -> &'static str {
    match entity {
        Entity::ExternEntry(_) => "extern_entry",
        Entity::TableEntry(_) => "table_entry",
        Entity::ActionProfileMember(_) => "action_profile_member",
        Entity::ActionProfileGroup(_) => "action_profile_group",
        Entity::MeterEntry(_) => "meter_entry",
        Entity::DirectMeterEntry(_) => "direct_meter_entry",
        Entity::CounterEntry(_) => "counter_entry",
        Entity::DirectCounterEntry(_) => "direct_counter_entry",
        Entity::PacketReplicationEngineEntry(_) => "packet_replication_engine_entry",
        Entity::ValueSetEntry(_) => "value_set_entry",
        Entity::RegisterEntry(_) => "register_entry",
        Entity::DigestEntry(_) => "digest_entry",
    }
}
