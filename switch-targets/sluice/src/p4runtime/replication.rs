//! Multicast groups and clone sessions as they were written, within their limits (section 9.5).
//!
//! Ids, ports and instances are v1model's: 16, 9 and 16 bits. Port numbers are not translated.

use std::collections::{BTreeMap, BTreeSet};

use sluice_pipeline::{Bits, Replica};
use tonic::Code;

use crate::dataplane::ports::MAX_PORT;
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

/// The groups and sessions as they were written, for reading them back.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    pub groups: BTreeMap<u16, p4rt::MulticastGroupEntry>,
    pub sessions: BTreeMap<u16, p4rt::CloneSessionEntry>,
}

pub fn exists<T>(entries: &BTreeMap<u16, T>, id: u16, kind: Type) -> Result<(), Fault> {
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
    pub fn replicas(&self, given: &[p4rt::Replica], freed: usize) -> Result<Vec<Replica>, Fault> {
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
pub fn canonical(mut replicas: Vec<p4rt::Replica>) -> Vec<p4rt::Replica> {
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
