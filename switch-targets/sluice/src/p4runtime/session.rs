//! `StreamChannel`: one task a client, which bids for primary, acknowledges digests and hears what changes.

mod roster;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status, Streaming};
use tracing::{info, warn};

use crate::connections::tls::Caller;
use crate::fault::Fault;
use crate::p4runtime::access::{election_id_of, role_name};
use crate::p4runtime::arbitration::{Bid, Refusal, StreamId};
use crate::p4runtime::packet_io::MAX_ECHO;
use crate::p4runtime::state::{Device, no_program};
use crate::proto::p4rt::{self, stream_error, stream_message_request, stream_message_response};
use crate::schema::role::{Access, RoleConfig};

use roster::{MAX_OPEN, MAX_READERS};
pub use roster::{OUTBOX, Outgoing, Sessions};

/// A client has this time to take the status that its stream ends with.
const REFUSAL: Duration = Duration::from_secs(5);

/// An election id may still be held for this time by a stream whose client has left.
const LEAVING: Duration = Duration::from_secs(1);

/// Serves one stream to its end.
pub async fn serve(
    device: Arc<Device>,
    caller: Caller,
    mut requests: Streaming<p4rt::StreamMessageRequest>,
    messages: mpsc::Sender<Outgoing>,
) {
    let opened = device.sessions.lock().open(messages.clone(), caller);
    let Some((stream, overrun)) = opened else {
        let most = match caller {
            Caller::Controller => MAX_OPEN,
            Caller::Reader => MAX_READERS,
        };
        let text = format!("{most} streams are open already: close one");
        return refuse(requests, &messages, Status::resource_exhausted(text)).await;
    };
    let end = loop {
        let request = tokio::select! {
            request = requests.message() => request,
            () = overrun.notified() => break Some(Status::resource_exhausted("this client reads too slowly")),
            () = messages.closed() => break None,
        };
        let handled = match request {
            Ok(Some(request)) => handle(&device, stream, request),
            Ok(None) => break None,
            Err(status) => break is_refusal(&status).then_some(status),
        };
        tokio::select! {
            handled = handled => if let Err(refusal) = handled { break Some(refusal) },
            // A client that waits, for a write or for room, stops being primary as soon as it closes its stream.
            () = messages.closed() => break None,
        }
    };
    device.close(stream);
    if let Some(status) = end {
        warn!(
            stream = stream.0,
            reason = status.message(),
            "closed a stream"
        );
        refuse(requests, &messages, status).await;
    }
}

/// Returns whether a message was no `StreamMessageRequest`, or too long for one; else the connection is gone.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code(), Code::Internal | Code::OutOfRange)
}

/// Ends a stream with a status. Requests that nobody takes any more reset the stream, maybe before the client has the status: so
/// they are kept until it has.
async fn refuse(
    requests: Streaming<p4rt::StreamMessageRequest>,
    messages: &mpsc::Sender<Outgoing>,
    status: Status,
) {
    if messages.try_send(Err(status)).is_ok() {
        let _ = tokio::time::timeout(REFUSAL, messages.closed()).await;
    }
    drop(requests);
}

async fn handle(
    device: &Device,
    stream: StreamId,
    request: p4rt::StreamMessageRequest,
) -> Result<(), Status> {
    match request.update {
        Some(stream_message_request::Update::Arbitration(update)) => Ok(device
            .bid(stream, update)
            .await
            .map_err(|refusal| status_of(&refusal))?),
        Some(stream_message_request::Update::DigestAck(ack)) => {
            if let Err(fault) = device.acknowledge(stream, ack).await {
                let details = stream_error::Details::DigestListAck(p4rt::DigestListAckError {
                    digest_list_ack: Some(ack),
                });
                device.complain(stream, fault.code, &fault.message, details);
            }
            Ok(())
        }
        Some(stream_message_request::Update::Packet(packet)) => {
            if let Err(fault) = device.packet_out_from(stream, &packet).await {
                let packet_out = (packet.encoded_len() <= MAX_ECHO).then_some(packet);
                let details = stream_error::Details::PacketOut(p4rt::PacketOutError { packet_out });
                device.complain(stream, fault.code, &fault.message, details);
            }
            Ok(())
        }
        other => {
            let (code, text) = match other {
                Some(_) => (
                    Code::Unimplemented,
                    "this stream message is not supported by this switch",
                ),
                None => (Code::InvalidArgument, "the stream message is empty"),
            };
            let details = stream_error::Details::Other(p4rt::StreamOtherError { other: None });
            device.complain(stream, code, text, details);
            Ok(())
        }
    }
}

/// The bid, and the number that the client has for its role. A client that only reads counts as not bidding (section 5.3).
fn bid_of(update: p4rt::MasterArbitrationUpdate, caller: Caller) -> Result<(Bid, u64), Refusal> {
    #[allow(
        deprecated,
        reason = "a client of P4Runtime before 1.4 has a number for its role"
    )]
    let (name, id, config) = update
        .role
        .map(|role| (role.name, role.id, role.config))
        .unwrap_or_default();
    let id = if name.is_empty() { id } else { 0 };
    let config = config.map(RoleConfig::parse).transpose();
    let bid = Bid {
        device_id: update.device_id,
        role: role_name(name, id),
        config: config.map_err(Refusal::BadConfig)?,
        election_id: update
            .election_id
            .filter(|_| caller == Caller::Controller)
            .map(election_id_of),
    };
    Ok((bid, id))
}

/// Codes as section 5.3 asks for.
fn status_of(refusal: &Refusal) -> Status {
    let code = match refusal {
        Refusal::UnknownDevice { .. } => Code::NotFound,
        Refusal::DeviceChanged { .. } | Refusal::RoleChanged { .. } => Code::FailedPrecondition,
        Refusal::BadConfig(_)
        | Refusal::ConfigClash { .. }
        | Refusal::DefaultRoleConfig
        | Refusal::NameTooLong
        | Refusal::ElectionIdInUse => Code::InvalidArgument,
        Refusal::TooManyStreams(_) | Refusal::TooManyRoles(_) => Code::ResourceExhausted,
    };
    Status::new(code, refusal.to_string())
}

impl Device {
    /// A new primary hears of it only when the writes of the old one are done (section 5.3). A client that comes back faster than
    /// its old stream is known to be gone gets its election id all the same.
    async fn bid(
        &self,
        stream: StreamId,
        update: p4rt::MasterArbitrationUpdate,
    ) -> Result<(), Refusal> {
        let departures = Arc::clone(&self.sessions.lock().departures);
        let until = Instant::now() + LEAVING;
        let primary = loop {
            let mut departure = pin!(departures.notified());
            departure.as_mut().enable();
            match self.place(stream, &update) {
                Err(Refusal::ElectionIdInUse) if timeout_at(until, departure).await.is_ok() => {}
                placed => break placed?,
            }
        };
        if let Some(primary) = primary {
            drop(self.installed.write().await);
            self.sessions.lock().tell(primary);
        }
        Ok(())
    }

    /// Returns the primary, if it is still to be told.
    fn place(
        &self,
        stream: StreamId,
        update: &p4rt::MasterArbitrationUpdate,
    ) -> Result<Option<StreamId>, Refusal> {
        let mut sessions = self.sessions.lock();
        sessions
            .arbitration
            .check_device(stream, update.device_id)?;
        let caller = sessions.caller(stream);
        let (bid, role_id) = bid_of(update.clone(), caller)?;
        let role = bid.role.clone();
        let before = sessions.arbitration.primary(&role);
        let told = sessions.arbitration.bid(stream, bid)?;
        if let Some(outbox) = sessions.outboxes.get_mut(&stream) {
            outbox.role_id = role_id;
        }
        let primary = sessions.arbitration.primary(&role);
        told.iter()
            .filter(|stream| Some(**stream) != primary)
            .for_each(|stream| sessions.tell(*stream));
        self.primary_was(&role, before, primary);
        Ok(primary.filter(|primary| told.contains(primary)))
    }

    fn close(&self, stream: StreamId) {
        let mut sessions = self.sessions.lock();
        let role = sessions.arbitration.role_of(stream).cloned();
        let role = role.unwrap_or_default();
        let before = sessions.arbitration.primary(&role);
        let told = sessions.arbitration.disconnect(stream);
        sessions.outboxes.remove(&stream);
        sessions.departures.notify_waiters();
        told.iter().for_each(|stream| sessions.tell(*stream));
        self.primary_was(&role, before, sessions.arbitration.primary(&role));
    }

    fn primary_was(&self, role: &str, before: Option<StreamId>, after: Option<StreamId>) {
        if before == after {
            return;
        }
        info!(
            role,
            primary = after.map(|stream| stream.0),
            "the primary has changed"
        );
        self.digests.lock().new_primary();
        self.digests_changed.notify_one();
    }

    /// The access of the stream's role, if the stream is the role's primary.
    fn primary_access(&self, stream: StreamId) -> Option<Access> {
        let sessions = self.sessions.lock();
        let role = sessions.arbitration.role_of(stream)?;
        (sessions.arbitration.primary(role) == Some(stream))
            .then(|| sessions.arbitration.access(role))
    }

    async fn packet_out_from(
        &self,
        stream: StreamId,
        packet: &p4rt::PacketOut,
    ) -> Result<(), Fault> {
        let access = self.primary_access(stream);
        let access =
            access.ok_or_else(|| Fault::denied("only the primary client sends packets"))?;
        self.packet_out(&access, packet).await
    }

    async fn acknowledge(&self, stream: StreamId, ack: p4rt::DigestListAck) -> Result<(), Fault> {
        let access = self.primary_access(stream);
        let denied = || Fault::denied("only the primary client acknowledges digests");
        let access = access.ok_or_else(denied)?;
        let installed = self.installed.read().await;
        let schema = &installed.as_ref().ok_or_else(no_program)?.schema;
        let digest = schema.digest(ack.digest_id);
        digest.map_err(|fault| Fault::invalid(fault.message))?;
        if !access.covers(&schema.owners, ack.digest_id) {
            return Err(Fault::denied("the digest is not the role's"));
        }
        self.digests.lock().acknowledge(ack.digest_id, ack.list_id);
        Ok(())
    }

    fn complain(
        &self,
        stream: StreamId,
        code: Code,
        message: &str,
        details: stream_error::Details,
    ) {
        if let Some(outbox) = self.sessions.lock().outboxes.get(&stream) {
            outbox.send_if_room(stream_message_response::Update::Error(p4rt::StreamError {
                canonical_code: code as i32,
                message: message.into(),
                space: "sluice".into(),
                details: Some(details),
                ..Default::default()
            }));
        }
    }
}
