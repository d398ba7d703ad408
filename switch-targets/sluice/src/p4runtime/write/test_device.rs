//! A device without ports that runs a program, for tests of writes.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use sluice_pipeline::{ExternRegistry, Program, Switch};
use tokio::sync::mpsc;

use super::*;
use crate::dataplane::cpu_port::PacketIo;
use crate::dataplane::plane::{DataPlane, Running};
use crate::p4runtime::replication::Replication;
use crate::schema::Schema;

pub fn with(program: Program, schema: Schema) -> (Device, Installed) {
    let running = Running {
        switch: Switch::new(program, &ExternRegistry::new()).unwrap(),
        digest_ids: schema.digest_ids.clone(),
        packet_in: None,
    };
    let (io, _) = PacketIo::new(None).unwrap();
    let plane = DataPlane::new(mpsc::channel(1).0, Arc::new(io), 1);
    plane.install(running, |_, _| {});
    let installed = Installed {
        schema,
        config: p4rt::ForwardingPipelineConfig::default(),
        notes: Default::default(),
        replication: Replication::default(),
    };
    let device = Device::new(1, Arc::new(plane), ExternRegistry::new());
    (device, installed)
}
