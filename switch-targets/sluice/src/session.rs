//! `StreamChannel`: one task a client, which bids for primary, acknowledges digests and hears what changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tonic::{Code, Status, Streaming};
use tracing::{info, warn};

use crate::arbitration::{Arbitration, Bid, ElectionId, Refusal, Standing, StreamId};
use crate::device::{Device, election_id_of};
use crate::proto::p4rt::{self, stream_error, stream_message_request, stream_message_response};
use crate::proto::{RpcStatus, p4rt::stream_message_response::Update};

pub type Outgoing = Result<p4rt::StreamMessageResponse, Status>;

/// Messages that wait for one client. A client that lags further behind is cut off.
pub const OUTBOX: usize = 256;

/// The open streams and their standing.
pub struct Sessions {
    device_id: u64,
    arbitration: Arbitration,
    outboxes: BTreeMap<StreamId, Outbox>,
    opened: u64,
}

struct Outbox {
    messages: mpsc::Sender<Outgoing>,
    overrun: Arc<Notify>,
}

impl Sessions {
    pub fn new(device_id: u64) -> Self {
        Self {
            device_id,
            arbitration: Arbitration::new(device_id),
            outboxes: BTreeMap::new(),
            opened: 0,
        }
    }

    pub fn is_primary(&self, election_id: Option<ElectionId>) -> bool {
        self.arbitration.is_primary(election_id)
    }

    pub fn has_primary(&self) -> bool {
        self.arbitration.primary().is_some()
    }

    /// Lost when there is no primary, or it lags behind.
    pub fn send_to_primary(&self, update: Update) {
        if let Some(outbox) = self
            .arbitration
            .primary()
            .and_then(|stream| self.outboxes.get(&stream))
        {
            outbox.send(update);
        }
    }

    /// As [`Sessions::send_to_primary`], but lost already when half of its room is taken: what may be lost cuts nobody off.
    pub fn offer_to_primary(&self, update: Update) {
        let primary = self.arbitration.primary();
        let outbox = primary.and_then(|stream| self.outboxes.get(&stream));
        if let Some(outbox) = outbox.filter(|outbox| outbox.messages.capacity() > OUTBOX / 2) {
            outbox.send(update);
        }
    }

    fn open(&mut self, messages: mpsc::Sender<Outgoing>) -> (StreamId, Arc<Notify>) {
        self.opened += 1;
        let (stream, overrun) = (StreamId(self.opened), Arc::new(Notify::new()));
        self.outboxes.insert(
            stream,
            Outbox {
                messages,
                overrun: Arc::clone(&overrun),
            },
        );
        (stream, overrun)
    }

    fn tell(&self, stream: StreamId) {
        let (Some(outbox), Some(standing)) = (
            self.outboxes.get(&stream),
            self.arbitration.standing(stream),
        ) else {
            return;
        };
        let (code, message) = match standing {
            Standing::Primary => (Code::Ok, "you are primary"),
            Standing::Backup => (Code::AlreadyExists, "another client is primary"),
            Standing::Vacant => (Code::NotFound, "no client is primary"),
        };
        let highest = self.arbitration.highest();
        outbox.send(Update::Arbitration(p4rt::MasterArbitrationUpdate {
            device_id: self.device_id,
            role: None,
            election_id: highest.map(|ElectionId(id)| p4rt::Uint128 {
                high: (id >> 64) as u64,
                low: id as u64,
            }),
            status: Some(RpcStatus {
                code: code as i32,
                message: message.into(),
                details: Vec::new(),
            }),
        }));
    }
}

impl Outbox {
    fn send(&self, update: Update) {
        let message = p4rt::StreamMessageResponse {
            update: Some(update),
        };
        if let Err(mpsc::error::TrySendError::Full(_)) = self.messages.try_send(Ok(message)) {
            self.overrun.notify_one();
        }
    }
}

/// Serves one stream to its end.
pub async fn serve(
    device: Arc<Device>,
    mut requests: Streaming<p4rt::StreamMessageRequest>,
    messages: mpsc::Sender<Outgoing>,
) {
    let (stream, overrun) = device.sessions.lock().open(messages.clone());
    let end = loop {
        let request = tokio::select! {
            request = requests.message() => request,
            () = overrun.notified() => break Some(Status::resource_exhausted("this client reads too slowly")),
            () = messages.closed() => break None,
        };
        match request {
            Ok(Some(request)) => {
                if let Err(refusal) = handle(&device, stream, request).await {
                    break Some(refusal);
                }
            }
            Ok(None) | Err(_) => break None,
        }
    };
    device.close(stream);
    if let Some(status) = end {
        warn!(
            stream = stream.0,
            reason = status.message(),
            "closed a stream"
        );
        let _ = messages.try_send(Err(status));
    }
}

async fn handle(
    device: &Device,
    stream: StreamId,
    request: p4rt::StreamMessageRequest,
) -> Result<(), Status> {
    match request.update {
        Some(stream_message_request::Update::Arbitration(update)) => Ok(device
            .bid(stream, &bid_of(update))
            .await
            .map_err(|refusal| status_of(&refusal))?),
        Some(stream_message_request::Update::DigestAck(ack)) => {
            device.acknowledge(stream, ack);
            Ok(())
        }
        Some(stream_message_request::Update::Packet(_)) => {
            let details =
                stream_error::Details::PacketOut(p4rt::PacketOutError { packet_out: None });
            device.complain(
                stream,
                Code::Unimplemented,
                "packet-out is not supported by this switch",
                details,
            );
            Ok(())
        }
        Some(stream_message_request::Update::Other(_)) | None => {
            let details = stream_error::Details::Other(p4rt::StreamOtherError { other: None });
            device.complain(
                stream,
                Code::Unimplemented,
                "this stream message is not supported by this switch",
                details,
            );
            Ok(())
        }
    }
}

fn bid_of(update: p4rt::MasterArbitrationUpdate) -> Bid {
    #[allow(
        deprecated,
        reason = "a client of P4Runtime before 1.4 names its role by number"
    )]
    let name = |role: p4rt::Role| {
        if role.name.is_empty() && role.id != 0 {
            role.id.to_string()
        } else {
            role.name
        }
    };
    Bid {
        device_id: update.device_id,
        role: update.role.map(name).unwrap_or_default(),
        election_id: update.election_id.map(election_id_of),
    }
}

/// Codes as section 5.3 asks for.
fn status_of(refusal: &Refusal) -> Status {
    let code = match refusal {
        Refusal::UnknownDevice { .. } => Code::NotFound,
        Refusal::DeviceChanged { .. } => Code::FailedPrecondition,
        Refusal::UnknownRole(_) | Refusal::ElectionIdInUse => Code::InvalidArgument,
        Refusal::TooManyStreams(_) => Code::ResourceExhausted,
    };
    Status::new(code, refusal.to_string())
}

impl Device {
    /// A new primary hears of it only when the writes of the old one are done (section 5.3).
    async fn bid(&self, stream: StreamId, bid: &Bid) -> Result<(), Refusal> {
        let primary = {
            let mut sessions = self.sessions.lock();
            let before = sessions.arbitration.primary();
            let told = sessions.arbitration.bid(stream, bid)?;
            let primary = sessions.arbitration.primary();
            told.iter()
                .filter(|stream| Some(**stream) != primary)
                .for_each(|stream| sessions.tell(*stream));
            self.primary_was(before, primary);
            primary.filter(|primary| told.contains(primary))
        };
        if let Some(primary) = primary {
            drop(self.installed.write().await);
            self.sessions.lock().tell(primary);
        }
        Ok(())
    }

    fn close(&self, stream: StreamId) {
        let mut sessions = self.sessions.lock();
        let before = sessions.arbitration.primary();
        let told = sessions.arbitration.disconnect(stream);
        sessions.outboxes.remove(&stream);
        told.iter().for_each(|stream| sessions.tell(*stream));
        self.primary_was(before, sessions.arbitration.primary());
    }

    fn primary_was(&self, before: Option<StreamId>, after: Option<StreamId>) {
        if before == after {
            return;
        }
        info!(
            primary = after.map(|stream| stream.0),
            "the primary has changed"
        );
        self.digests.lock().new_primary();
        self.digests_changed.notify_one();
    }

    fn acknowledge(&self, stream: StreamId, ack: p4rt::DigestListAck) {
        if self.sessions.lock().arbitration.primary() == Some(stream) {
            self.digests.lock().acknowledge(ack.digest_id, ack.list_id);
            return;
        }
        let details = stream_error::Details::DigestListAck(p4rt::DigestListAckError {
            digest_list_ack: Some(ack),
        });
        self.complain(
            stream,
            Code::PermissionDenied,
            "only the primary client acknowledges digests",
            details,
        );
    }

    fn complain(
        &self,
        stream: StreamId,
        code: Code,
        message: &str,
        details: stream_error::Details,
    ) {
        if let Some(outbox) = self.sessions.lock().outboxes.get(&stream) {
            outbox.send(stream_message_response::Update::Error(p4rt::StreamError {
                canonical_code: code as i32,
                message: message.into(),
                space: "sluice".into(),
                details: Some(details),
                ..Default::default()
            }));
        }
    }
}
