//! A change of the running program for one update, and the code for a refusal.

use sluice_pipeline::{ProfileError, Switch, TableError};
use tonic::Code;

use crate::fault::Fault;
use crate::p4runtime::state::{Device, no_program};

/// The cause of a refused change.
pub enum RefusedChange {
    Table(TableError),
    Fault(Fault),
}

impl From<Fault> for RefusedChange {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<TableError> for RefusedChange {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

pub fn on_switch<E: Into<RefusedChange>>(
    device: &Device,
    change: impl FnOnce(&mut Switch) -> Result<(), E>,
) -> Result<(), Fault> {
    let mut running = device.plane.lock();
    let running = running.as_mut().ok_or_else(no_program)?;
    change(&mut running.switch).map_err(|refused| match refused.into() {
        RefusedChange::Fault(fault) => fault,
        RefusedChange::Table(error) => fault_of(&error),
    })
}

fn fault_of(error: &TableError) -> Fault {
    let code = match error {
        TableError::Exists => Code::AlreadyExists,
        TableError::NotFound | TableError::NoSuchObject => Code::NotFound,
        TableError::Full { .. } => Code::ResourceExhausted,
        TableError::ConstTable | TableError::ConstDefault => Code::PermissionDenied,
        TableError::Profile(error) => profile_code(error),
        TableError::BadIndex { .. } => Code::OutOfRange,
        _ => Code::InvalidArgument,
    };
    Fault::new(code, error.to_string())
}

fn profile_code(error: &ProfileError) -> Code {
    match error {
        ProfileError::MemberExists { .. } | ProfileError::GroupExists { .. } => Code::AlreadyExists,
        ProfileError::NoMember { .. } | ProfileError::NoGroup { .. } => Code::NotFound,
        ProfileError::MemberInUse { .. } | ProfileError::GroupInUse { .. } => {
            Code::FailedPrecondition
        }
        ProfileError::GroupFull { .. } | ProfileError::Full { .. } => Code::ResourceExhausted,
        ProfileError::MemberTwice { .. }
        | ProfileError::BadWeight { .. }
        | ProfileError::BadMaxSize { .. }
        | ProfileError::OtherMaxSize { .. }
        | ProfileError::SetTooLarge { .. }
        | ProfileError::NoSelector
        | ProfileError::Direct
        | ProfileError::OneShots
        | ProfileError::NotOneShots => Code::InvalidArgument,
    }
}
