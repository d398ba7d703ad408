//! `SetForwardingPipelineConfig` and `GetForwardingPipelineConfig` (sections 14 and 15): which program runs.
//!
//! A program is built and checked beside the running one and replaces it in one step; its tables start empty.

use std::collections::HashMap;

use sluice_pipeline::{Program, Switch};
use tracing::info;

use crate::dataplane::Running;
use crate::device::{Device, Installed, no_program};
use crate::fault::Fault;
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
    let action = request.action();
    let mut installed = device.installed.write().await;
    device.check_writer(request.device_id, &request.role, request.election_id)?;
    let commit = match action {
        Action::Verify => false,
        Action::VerifyAndCommit => true,
        Action::VerifyAndSave | Action::Commit | Action::ReconcileAndCommit => {
            let text = format!(
                "{} is not supported: use VERIFY_AND_COMMIT",
                action.as_str_name()
            );
            return Err(Fault::unsupported(text));
        }
        Action::Unspecified => return Err(Fault::invalid("the action is not set")),
    };
    let config = request
        .config
        .ok_or_else(|| Fault::invalid("the config is not set"))?;
    let (running, schema) = build(device, &config)?;
    if commit {
        info!(tables = schema.tables.len(), cookie = ?config.cookie.map(|it| it.cookie), "a program was pushed");
        device.plane.install(running);
        device.digests.lock().new_program();
        device.digests_changed.notify_one();
        *installed = Some(Installed {
            schema,
            config,
            notes: HashMap::new(),
        });
    }
    Ok(())
}

/// A program that is ready to run, and its P4Info.
///
/// # Errors
/// With the place in the JSON or P4Info.
pub fn build(
    device: &Device,
    config: &ForwardingPipelineConfig,
) -> Result<(Running, Schema), Fault> {
    let p4info = config
        .p4info
        .as_ref()
        .ok_or_else(|| Fault::invalid("the config has no P4Info"))?;
    let json = &config.p4_device_config;
    let in_json = |error: sluice_pipeline::LoadError| {
        Fault::invalid(error.to_string()).at("p4_device_config")
    };
    let program = Program::load(json).map_err(in_json)?;
    let schema = Schema::new(p4info, &program).map_err(|fault| fault.at("p4info"))?;
    let switch = Switch::new(program, &device.externs).map_err(in_json)?;
    Ok((
        Running {
            switch,
            digest_ids: schema.digest_ids.clone(),
        },
        schema,
    ))
}

/// # Errors
/// `NOT_FOUND` for another device, `FAILED_PRECONDITION` before the first program.
pub async fn get(
    device: &Device,
    request: p4rt::GetForwardingPipelineConfigRequest,
) -> Result<ForwardingPipelineConfig, Fault> {
    device.check_id(request.device_id)?;
    let installed = device.installed.read().await;
    let config = &installed.as_ref().ok_or_else(no_program)?.config;
    let (p4info, device_config) = match request.response_type() {
        ResponseType::All => (true, true),
        ResponseType::CookieOnly => (false, false),
        ResponseType::P4infoAndCookie => (true, false),
        ResponseType::DeviceConfigAndCookie => (false, true),
    };
    Ok(ForwardingPipelineConfig {
        p4info: config.p4info.clone().filter(|_| p4info),
        p4_device_config: if device_config {
            config.p4_device_config.clone()
        } else {
            Vec::new()
        },
        cookie: config.cookie,
    })
}
