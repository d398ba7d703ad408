//! The control plane's state on its way to another process: the program, what clients have written, and who was primary.
//!
//! Entities travel as clients read and write them, so that the next version needs to know nothing of this one's memory.

use prost_types::Any;

use crate::fault::Fault;
use crate::p4runtime::arbitration::ElectionId;
use crate::p4runtime::pipeline_config;
use crate::p4runtime::reconcile::{all_written, write};
use crate::p4runtime::state::{Device, Installed, Saved};
use crate::proto::p4rt;
use crate::schema::role::RoleConfig;
use crate::schema::sdn::NamesState;

#[derive(Clone, PartialEq, prost::Message)]
pub struct ControlState {
    /// None: no program has been pushed.
    #[prost(message, optional, tag = "1")]
    pub config: Option<p4rt::ForwardingPipelineConfig>,
    #[prost(message, repeated, tag = "2")]
    pub entities: Vec<p4rt::Entity>,
    #[prost(message, repeated, tag = "3")]
    pub names: Vec<NamesState>,
    #[prost(message, repeated, tag = "4")]
    pub roles: Vec<RoleState>,
    /// Write requests, by the number of the code that they were answered with.
    #[prost(uint64, repeated, tag = "5")]
    pub requests: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RoleState {
    #[prost(string, tag = "1")]
    pub role: String,
    /// The highest election id, in two halves.
    #[prost(uint64, tag = "2")]
    pub high: u64,
    #[prost(uint64, tag = "3")]
    pub low: u64,
    #[prost(message, optional, tag = "4")]
    pub config: Option<Any>,
}

/// The state while no client can write.
///
/// # Errors
/// The program is gone.
pub fn snapshot(device: &Device, installed: Option<&Installed>) -> Result<ControlState, Fault> {
    let mut state = ControlState {
        requests: device.requests.counts(),
        ..ControlState::default()
    };
    if let Some(installed) = installed {
        let entities = all_written(device, installed)?.into_iter();
        state.entities = entities
            .map(|entity| p4rt::Entity {
                entity: Some(entity),
            })
            .collect();
        state.config = Some(installed.config.clone());
        state.names = installed.schema.types.snapshot();
    }
    let sessions = device.sessions.lock();
    let roles = sessions.arbitration.remembered();
    state.roles = roles
        .map(|(role, ElectionId(id), config)| RoleState {
            role: role.to_owned(),
            high: (id >> 64) as u64,
            low: id as u64,
            config: config.map(|config| config.given.clone()),
        })
        .collect();
    Ok(state)
}

/// The program with its entities, beside a device without clients; `None` when none was pushed. The device remembers the roles.
///
/// # Errors
/// The program does not load in this version, or an entity does not fit.
pub fn restore(device: &Device, state: ControlState) -> Result<Option<Saved>, Fault> {
    device.requests.resume(&state.requests);
    for role in state.roles {
        let config = role.config.map(RoleConfig::parse).transpose();
        let config = config.map_err(Fault::invalid)?;
        let id = ElectionId(u128::from(role.high) << 64 | u128::from(role.low));
        let mut sessions = device.sessions.lock();
        sessions.arbitration.remember(role.role, id, config);
    }
    if state.config.is_none() {
        return Ok(None);
    }
    let mut saved = pipeline_config::build(device, state.config)?;
    saved.installed.schema.types.resume(&state.names);
    for entity in state.entities.into_iter().filter_map(|it| it.entity) {
        write(&mut saved, entity)?;
    }
    Ok(Some(saved))
}
