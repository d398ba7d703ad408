//! The packet replication engine, written and read: multicast groups and clone sessions (section 9.5).
//!
//! Ids, ports and instances are v1model's: 16, 9 and 16 bits. Port numbers are not translated.

use std::collections::{BTreeMap, BTreeSet};

use sluice_pipeline::{Bits, Replica};
use tonic::Code;

use super::on_switch;
use crate::device::{Device, Installed};
use crate::fault::Fault;
use crate::proto::p4rt::packet_replication_engine_entry::Type as Engine;
use crate::proto::p4rt::replica::PortKind;
use crate::proto::p4rt::{self, entity::Entity, update::Type};

/// Groups, and sessions, at most.
const MAX_ENTRIES: usize = 4096;
/// Replicas of one entry; a packet becomes no more copies than this.
const MAX_REPLICAS: usize = 1024;
/// Replicas of all entries together.
const MAX_ALL_REPLICAS: usize = 65_536;
/// Bytes of `MulticastGroupEntry.metadata`.
const MAX_METADATA: usize = 1024;
/// The highest number of a port: one more means drop in v1model.
const MAX_PORT: u16 = 510;

/// What was written, as it is read back.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    pub groups: BTreeMap<u16, p4rt::MulticastGroupEntry>,
    pub sessions: BTreeMap<u16, p4rt::CloneSessionEntry>,
}

pub fn replication(
    device: &Device,
    installed: &mut Installed,
    kind: Type,
    entry: p4rt::PacketReplicationEngineEntry,
) -> Result<(), Fault> {
    let engine = &mut installed.replication;
    match entry.r#type {
        Some(Engine::MulticastGroupEntry(entry)) => multicast_group(device, engine, kind, entry),
        Some(Engine::CloneSessionEntry(entry)) => clone_session(device, engine, kind, entry),
        None => Err(Fault::invalid(
            "packet replication: neither a multicast group nor a clone session is set",
        )),
    }
}

fn multicast_group(
    device: &Device,
    engine: &mut Replication,
    kind: Type,
    entry: p4rt::MulticastGroupEntry,
) -> Result<(), Fault> {
    let place = |fault: Fault| fault.at(&format!("multicast group {}", entry.multicast_group_id));
    let id = id(entry.multicast_group_id).map_err(place)?;
    exists(&engine.groups, id, kind).map_err(place)?;
    let mut replicas = Vec::new();
    if kind != Type::Delete {
        if entry.metadata.len() > MAX_METADATA {
            let text = format!("metadata is longer than {MAX_METADATA} bytes");
            return Err(place(Fault::invalid(text)));
        }
        let own = engine.groups.get(&id).map_or(0, |it| it.replicas.len());
        replicas = engine.replicas(&entry.replicas, own).map_err(place)?;
    }
    on_switch(device, |switch| {
        switch.set_multicast_group(id, replicas);
        Ok::<_, Fault>(())
    })?;
    match kind {
        Type::Delete => engine.groups.remove(&id),
        _ => {
            let replicas = canonical(entry.replicas);
            let entry = p4rt::MulticastGroupEntry { replicas, ..entry };
            engine.groups.insert(id, entry)
        }
    };
    Ok(())
}

fn clone_session(
    device: &Device,
    engine: &mut Replication,
    kind: Type,
    entry: p4rt::CloneSessionEntry,
) -> Result<(), Fault> {
    let place = |fault: Fault| fault.at(&format!("clone session {}", entry.session_id));
    let id = id(entry.session_id).map_err(place)?;
    exists(&engine.sessions, id, kind).map_err(place)?;
    let (mut replicas, mut packet_length) = (Vec::new(), None);
    if kind != Type::Delete {
        if entry.class_of_service != 0 {
            return Err(place(Fault::unsupported(
                "this switch has one class of service, 0",
            )));
        }
        let length = usize::try_from(entry.packet_length_bytes)
            .map_err(|_| place(Fault::invalid("the packet length is negative")))?;
        packet_length = Some(length).filter(|length| *length > 0);
        let own = engine.sessions.get(&id).map_or(0, |it| it.replicas.len());
        replicas = engine.replicas(&entry.replicas, own).map_err(place)?;
    }
    on_switch(device, |switch| {
        switch.set_clone_session(id, replicas, packet_length);
        Ok::<_, Fault>(())
    })?;
    match kind {
        Type::Delete => engine.sessions.remove(&id),
        _ => {
            let replicas = canonical(entry.replicas);
            let entry = p4rt::CloneSessionEntry { replicas, ..entry };
            engine.sessions.insert(id, entry)
        }
    };
    Ok(())
}

/// The id of an entry in the data plane.
fn id(given: u32) -> Result<u16, Fault> {
    match u16::try_from(given) {
        Ok(id) if id > 0 => Ok(id),
        _ => Err(Fault::invalid("the id must be 1 to 65535")),
    }
}

fn exists<T>(entries: &BTreeMap<u16, T>, id: u16, kind: Type) -> Result<(), Fault> {
    match (kind, entries.contains_key(&id)) {
        (Type::Insert, true) => Err(Fault::new(Code::AlreadyExists, "it exists already")),
        (Type::Insert, false) if entries.len() >= MAX_ENTRIES => Err(Fault::new(
            Code::ResourceExhausted,
            format!("there are {MAX_ENTRIES} already"),
        )),
        (Type::Modify | Type::Delete, false) => Err(Fault::not_found("it does not exist")),
        _ => Ok(()),
    }
}

impl Replication {
    /// Groups and sessions by id, or all of them.
    pub fn read(&self, asked: &p4rt::PacketReplicationEngineEntry, found: &mut Vec<Entity>) {
        let (group, session) = match &asked.r#type {
            Some(Engine::MulticastGroupEntry(it)) => (Some(it.multicast_group_id), None),
            Some(Engine::CloneSessionEntry(it)) => (None, Some(it.session_id)),
            None => (Some(0), Some(0)),
        };
        let is =
            |asked: Option<u32>, id: u16| asked.is_some_and(|it| it == 0 || it == u32::from(id));
        let groups = self.groups.iter().filter(|(id, _)| is(group, **id));
        let groups = groups.map(|(_, entry)| Engine::MulticastGroupEntry(entry.clone()));
        let sessions = self.sessions.iter().filter(|(id, _)| is(session, **id));
        let sessions = sessions.map(|(_, entry)| Engine::CloneSessionEntry(entry.clone()));
        found.extend(groups.chain(sessions).map(|entry| {
            let r#type = Some(entry);
            Entity::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry { r#type })
        }));
    }

    /// `freed` is how many replicas these take the place of.
    fn replicas(&self, given: &[p4rt::Replica], freed: usize) -> Result<Vec<Replica>, Fault> {
        let groups = self.groups.values().map(|entry| entry.replicas.len());
        let sessions = self.sessions.values().map(|entry| entry.replicas.len());
        let others = groups.chain(sessions).sum::<usize>() - freed;
        for (limit, count, what) in [
            (MAX_REPLICAS, given.len(), "an entry has"),
            (
                MAX_ALL_REPLICAS,
                given.len() + others,
                "all entries together have",
            ),
        ] {
            if count > limit {
                return Err(Fault::new(
                    Code::ResourceExhausted,
                    format!("{what} {limit} replicas at most"),
                ));
            }
        }
        let mut seen = BTreeSet::new();
        let mut replicas = Vec::new();
        for (at, given) in given.iter().enumerate() {
            let place = |fault: Fault| fault.at(&format!("replica {at}"));
            let replica = replica(given).map_err(place)?;
            if !seen.insert((replica.port, replica.instance)) {
                return Err(place(Fault::invalid(
                    "another one has the same port and instance",
                )));
            }
            replicas.push(replica);
        }
        Ok(replicas)
    }
}

/// Ports in their shortest form (section 8.4).
fn canonical(mut replicas: Vec<p4rt::Replica>) -> Vec<p4rt::Replica> {
    for replica in &mut replicas {
        if let Some(PortKind::Port(bytes)) = &mut replica.port_kind {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            drop(bytes.drain(..zeros.min(bytes.len().saturating_sub(1))));
        }
    }
    replicas
}

fn replica(given: &p4rt::Replica) -> Result<Replica, Fault> {
    if !given.backup_replicas.is_empty() {
        return Err(Fault::unsupported(
            "backup replicas are not supported by this switch",
        ));
    }
    #[allow(
        deprecated,
        reason = "a client of P4Runtime before 1.4 has no other field"
    )]
    let port = match &given.port_kind {
        Some(PortKind::EgressPort(port)) => u16::try_from(*port).ok(),
        Some(PortKind::Port(bytes)) if bytes.is_empty() => {
            return Err(Fault::invalid("the port is empty: zero is one byte 00"));
        }
        Some(PortKind::Port(bytes)) => Bits::new(16, bytes).ok().map(|it| it.low_u128() as u16),
        None => return Err(Fault::invalid("the port is not set")),
    };
    let port = port.filter(|port| *port <= MAX_PORT);
    let instance = u16::try_from(given.instance);
    Ok(Replica {
        port: port.ok_or_else(|| Fault::invalid(format!("the port must be {MAX_PORT} at most")))?,
        instance: instance.map_err(|_| Fault::invalid("the instance must be 65535 at most"))?,
    })
}
