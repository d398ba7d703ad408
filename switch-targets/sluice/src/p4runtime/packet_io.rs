//! Packets between a controller and the program, by way of the CPU port (section 16.1).
//!
//! ```text
//!   PacketOut ─ header in front ─► inbox ─ wakes ─► data plane: ingress at the CPU port
//!   PacketIn  ◄ header parsed ──── outbox ◄──────── data plane: sent to the CPU port
//! ```
//! Both queues are bounded. A client that sends faster than packets are run waits; a packet to a client that lags is lost, and
//! counted.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::dataplane::cpu_port::Punted;
use crate::fault::Fault;
use crate::p4runtime::state::{Device, no_program};
use crate::proto::p4rt;
use crate::schema::role::Access;

/// Bytes of a packet-out that is shown to its sender again when it is refused.
pub const MAX_ECHO: usize = 4096;
/// Bytes of a packet-out's payload.
pub const MAX_PAYLOAD: usize = 65_535;

/// Moves packet-ins to their clients. Runs until the data plane is gone.
pub async fn run(device: Arc<Device>, mut punted: mpsc::Receiver<Punted>) {
    while let Some(Punted { header, frame }) = punted.recv().await {
        let parsed = match &header {
            Some(header) => header.parse(&frame),
            None => Some((Vec::new(), frame.as_slice())),
        };
        let Some((metadata, payload)) = parsed else {
            device.plane.packet_io.count_lost(1);
            continue;
        };
        let packet = p4rt::PacketIn {
            payload: payload.to_vec(),
            metadata,
        };
        let owner = header.as_ref().and_then(|header| header.owner.as_ref());
        let lost = device.sessions.lock().send_packet_in(&packet, owner);
        device.plane.packet_io.count_lost(lost);
    }
}

impl Device {
    /// Runs a packet of a role's primary through the program.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` without a CPU port, `PERMISSION_DENIED` for a role that sends none, `FAILED_PRECONDITION` before the first program, `INVALID_ARGUMENT` for metadata that is
    /// not the P4Info's, or a packet that is too long.
    pub async fn packet_out(&self, access: &Access, packet: &p4rt::PacketOut) -> Result<(), Fault> {
        let io = &self.plane.packet_io;
        if io.cpu_port.is_none() {
            let text = "this switch has no CPU port: start it with --cpu-port";
            return Err(Fault::unsupported(text));
        }
        if packet.payload.len() > MAX_PAYLOAD {
            let text = format!("the payload is longer than {MAX_PAYLOAD} bytes");
            return Err(Fault::invalid(text));
        }
        let mut frame = {
            let installed = self.installed.read().await;
            let schema = &installed.as_ref().ok_or_else(no_program)?.schema;
            let header = schema.packet_out.as_ref();
            let owner = header.and_then(|header| header.owner.as_ref());
            if !access.may_send_packets(header.map(|header| header.id), owner) {
                return Err(Fault::denied("the client's role sends no packets"));
            }
            match header {
                Some(header) => header.emit(&packet.metadata)?,
                None if packet.metadata.is_empty() => Vec::new(),
                None => {
                    let text = "the program has no packet_out header, hence no metadata";
                    return Err(Fault::invalid(text));
                }
            }
        };
        frame.extend_from_slice(&packet.payload);
        io.inject(frame).await;
        Ok(())
    }
}
