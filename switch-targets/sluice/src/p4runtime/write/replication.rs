//! Writes of multicast groups and clone sessions (section 9.5).

use super::on_switch::on_switch;
use crate::fault::Fault;
use crate::p4runtime::replication::{Replication, canonical, exists};
use crate::p4runtime::state::{Device, Installed};
use crate::proto::p4rt::packet_replication_engine_entry::Type as Engine;
use crate::proto::p4rt::{self, update::Type};

/// Bytes of `MulticastGroupEntry.metadata`.
const MAX_METADATA: usize = 1024;
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
