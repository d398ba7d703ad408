//! `SetForwardingPipelineConfig` and `GetForwardingPipelineConfig` (sections 14 and 15): which program runs.
//!
//! ```text
//!   VERIFY ─► build                                      COMMIT ──────────────┐
//!   VERIFY_AND_SAVE ──────► build ─► saved: Write and Read go to it ──────────┤
//!   VERIFY_AND_COMMIT ────► build ────────────────────────────────────────────┼─► swap between two packets
//!   RECONCILE_AND_COMMIT ─► build ─► the running program's entries ───────────┘
//! ```
//! A program is built and filled beside the running one, so that nothing that is refused has changed anything.

use std::borrow::Cow;
use std::collections::HashMap;

use prost::Message as _;
use sluice_pipeline::{Program, Switch};
use tracing::{info, warn};

use crate::dataplane::plane::Running;
use crate::fault::Fault;
use crate::p4runtime::access::role_name;
use crate::p4runtime::reconcile::carry_entities;
use crate::p4runtime::replication::Replication;
use crate::p4runtime::state::{Device, Installed, Saved, no_program};
use crate::proto::p4rt::get_forwarding_pipeline_config_request::ResponseType;
use crate::proto::p4rt::set_forwarding_pipeline_config_request::Action;
use crate::proto::p4rt::{self, ForwardingPipelineConfig};
use crate::schema::Schema;

/// # Errors
/// As the specification says; a program that does not load is `INVALID_ARGUMENT` with the place in the JSON or P4Info.
pub async fn set(
    device: &Device,
    request: p4rt::SetForwardingPipelineConfigRequest,
) -> Result<(), Fault> {
    let mut installed = device.installed.write().await;
    #[allow(deprecated, reason = "a client of P4Runtime before 1.4 has it")]
    let role = role_name(request.role, request.role_id);
    let access = device.check_writer(request.device_id, &role, request.election_id)?;
    if !access.may_push_pipeline() {
        return Err(Fault::denied(format!(
            "the config of the role '{role}' does not have can_push_pipeline"
        )));
    }
    let config = request.config;
    let action = Action::try_from(request.action)
        .map_err(|_| Fault::invalid(format!("action {} is not known", request.action)))?;
    match action {
        Action::Unspecified => return Err(Fault::invalid("the action is not set")),
        Action::Verify => drop(build(device, config)?),
        Action::VerifyAndSave => *device.saved.lock() = Some(Box::new(build(device, config)?)),
        Action::VerifyAndCommit => commit(device, &mut installed, build(device, config)?, false)?,
        Action::Commit => {
            if config.is_some() {
                let text = "a config can't be given with COMMIT: it commits the saved one";
                return Err(Fault::invalid(text));
            }
            let saved = device.saved.lock().take();
            let saved = saved.ok_or_else(|| {
                Fault::not_found("no config is saved: VERIFY_AND_SAVE one before COMMIT")
            })?;
            commit(device, &mut installed, *saved, false)?;
        }
        Action::ReconcileAndCommit => {
            let mut new = build(device, config)?;
            if let Some(old) = installed.as_ref() {
                carry_entities(device, old, &mut new)?;
            }
            commit(device, &mut installed, new, true)?;
        }
    }
    Ok(())
}

/// Lets packets run through a program from this computer's own files.
///
/// # Errors
/// It holds no program.
pub async fn install(device: &Device, new: Saved) -> Result<(), Fault> {
    commit(device, &mut *device.installed.write().await, new, false)
}

/// Lets packets run through the program that [`carry_entities`] has filled, with the counts of the running one.
///
/// # Errors
/// As [`install`].
pub async fn replace(device: &Device, new: Saved) -> Result<(), Fault> {
    commit(device, &mut *device.installed.write().await, new, true)
}

/// Lets packets run through the program. `reconcile`: with the counts of the old one.
fn commit(
    device: &Device,
    installed: &mut Option<Installed>,
    new: Saved,
    reconcile: bool,
) -> Result<(), Fault> {
    let running = new.device.plane.take().ok_or_else(no_program)?;
    let config = &new.installed.config;
    let absent = new.installed.schema.absent.values();
    let absent: Vec<_> = absent.map(String::as_str).collect();
    if !absent.is_empty() {
        warn!(
            absent = absent.join(", "),
            "the program lacks what its P4Info has"
        );
    }
    info!(tables = new.installed.schema.tables.len(), cookie = ?config.cookie.map(|it| it.cookie), reconcile, "a program was pushed");
    device.plane.install(running, |old, new| {
        if reconcile {
            new.switch.carry_over(&old.switch);
        }
    });
    let mut digests = device.digests.lock();
    if !reconcile {
        digests.new_program();
    }
    digests.adopt(new.device.digests.into_inner());
    device.digests_changed.notify_one();
    drop(digests);
    *installed = Some(new.installed);
    *device.saved.lock() = None;
    Ok(())
}

/// A program that is ready to run, beside the one that runs.
///
/// # Errors
/// With the place in the JSON or P4Info.
pub fn build(device: &Device, config: Option<ForwardingPipelineConfig>) -> Result<Saved, Fault> {
    let config = config.ok_or_else(|| Fault::invalid("the config is not set"))?;
    let p4info = config
        .p4info
        .as_ref()
        .ok_or_else(|| Fault::invalid("the config has no P4Info"))?;
    let json = program_in(&config.p4_device_config);
    let in_json = |error: sluice_pipeline::LoadError| {
        Fault::invalid(error.to_string()).at("p4_device_config")
    };
    let program = Program::load(&json).map_err(in_json)?;
    // Unsupported or wrong: a config that can't be realised is INVALID_ARGUMENT (section 14).
    let schema = Schema::new(p4info, &program)
        .map_err(|fault| Fault::invalid(fault.message).at("p4info"))?;
    let mut switch = Switch::new(program, &device.externs).map_err(in_json)?;
    schema.limit_profiles(&mut switch)?;
    let running = Running {
        switch,
        digest_ids: schema.digest_ids.clone(),
        packet_in: schema.packet_in.clone(),
    };
    Ok(Saved {
        device: device.beside(running),
        installed: Installed {
            schema,
            config,
            notes: HashMap::new(),
            replication: Replication::default(),
        },
    })
}

/// `p4.tmp.P4DeviceConfig`, which p4lang's tutorials and older controllers push: bmv2 takes it too.
#[derive(Clone, PartialEq, prost::Message)]
struct P4DeviceConfig {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// The JSON as it is, or in a `P4DeviceConfig`.
fn program_in(config: &[u8]) -> Cow<'_, [u8]> {
    if config.trim_ascii_start().starts_with(b"{") {
        return config.into();
    }
    match P4DeviceConfig::decode(config) {
        Ok(wrapped) if !wrapped.device_data.is_empty() => wrapped.device_data.into(),
        _ => config.into(),
    }
}

/// `None` before the first program.
///
/// # Errors
/// `NOT_FOUND` for another device, `INVALID_ARGUMENT` for a response type that is not one.
pub async fn get(
    device: &Device,
    request: p4rt::GetForwardingPipelineConfigRequest,
) -> Result<Option<ForwardingPipelineConfig>, Fault> {
    device.check_id(request.device_id)?;
    let kind = ResponseType::try_from(request.response_type).map_err(|_| {
        Fault::invalid(format!(
            "response type {} is not known",
            request.response_type
        ))
    })?;
    let installed = device.installed.read().await;
    let Some(Installed { config, .. }) = installed.as_ref() else {
        return Ok(None);
    };
    let (p4info, device_config) = match kind {
        ResponseType::All => (true, true),
        ResponseType::CookieOnly => (false, false),
        ResponseType::P4infoAndCookie => (true, false),
        ResponseType::DeviceConfigAndCookie => (false, true),
    };
    Ok(Some(ForwardingPipelineConfig {
        p4info: config.p4info.clone().filter(|_| p4info),
        p4_device_config: if device_config {
            config.p4_device_config.clone()
        } else {
            Vec::new()
        },
        cookie: config.cookie,
    }))
}
