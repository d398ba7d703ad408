//! `Write` (section 12): updates in order, each attempted, each with its own result.

mod counter;
mod digest;
mod register;
mod table;
mod value_set;

use sluice_pipeline::{Switch, TableError};
use tonic::{Code, Status};

use crate::device::{Device, Installed, no_program};
use crate::fault::{Fault, batch_status};
use crate::proto::p4rt::{self, entity::Entity, update::Type, write_request::Atomicity};

/// # Errors
/// One status for a request that is refused as a whole; else `UNKNOWN` with one `p4.v1.Error` for each update.
pub async fn write(device: &Device, request: p4rt::WriteRequest) -> Result<(), Status> {
    let mut installed = device.installed.write().await;
    let election_id = request.election_id;
    device.check_writer(request.device_id, &request.role, election_id)?;
    let installed = installed.as_mut().ok_or_else(no_program)?;
    if request.atomicity() != Atomicity::ContinueOnError {
        let text = format!(
            "{} is not supported: use CONTINUE_ON_ERROR",
            request.atomicity().as_str_name()
        );
        return Err(Fault::unsupported(text).into());
    }
    let results: Vec<_> = request
        .updates
        .into_iter()
        .map(|update| apply(device, installed, update))
        .collect();
    batch_status("Write", &results)
}

fn apply(device: &Device, installed: &mut Installed, update: p4rt::Update) -> Result<(), Fault> {
    let kind = update.r#type();
    if kind == Type::Unspecified {
        return Err(Fault::invalid("the update's type is not set"));
    }
    let entity = update.entity.and_then(|entity| entity.entity);
    match entity.ok_or_else(|| Fault::invalid("the update's entity is not set"))? {
        Entity::TableEntry(entry) if entry.is_default_action => {
            table::default_entry(device, installed, kind, entry)
        }
        Entity::TableEntry(entry) => table::table_entry(device, installed, kind, entry),
        Entity::CounterEntry(entry) => counter::counter(device, installed, kind, &entry),
        Entity::DirectCounterEntry(entry) => {
            counter::direct_counter(device, installed, kind, &entry)
        }
        Entity::DigestEntry(entry) => digest::digest(device, installed, kind, &entry),
        Entity::RegisterEntry(entry) => register::register(device, installed, kind, &entry),
        Entity::ValueSetEntry(entry) => value_set::value_set(device, installed, kind, &entry),
        other => Err(Fault::unsupported(format!(
            "{} is not supported by this switch",
            entity_name(&other)
        ))),
    }
}

/// Why the switch did not do it.
enum Refused {
    Table(TableError),
    Fault(Fault),
}

impl From<TableError> for Refused {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

fn on_switch<E: Into<Refused>>(
    device: &Device,
    change: impl FnOnce(&mut Switch) -> Result<(), E>,
) -> Result<(), Fault> {
    let mut running = device.plane.lock();
    let running = running.as_mut().ok_or_else(no_program)?;
    change(&mut running.switch).map_err(|refused| match refused.into() {
        Refused::Fault(fault) => fault,
        Refused::Table(error) => fault_of(&error),
    })
}

fn fault_of(error: &TableError) -> Fault {
    let code = match error {
        TableError::Exists => Code::AlreadyExists,
        TableError::NotFound | TableError::NoSuchObject => Code::NotFound,
        TableError::Full { .. } => Code::ResourceExhausted,
        TableError::ConstTable | TableError::ConstDefault => Code::PermissionDenied,
        TableError::BadIndex { .. } => Code::OutOfRange,
        _ => Code::InvalidArgument,
    };
    Fault::new(code, error.to_string())
}

/// As in the protobuf definition.
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
