//! The open streams: their standing, and the messages for each.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tonic::{Code, Status};

use crate::connections::tls::Caller;
use crate::p4runtime::arbitration::{Arbitration, ElectionId, Standing, StreamId};
use crate::proto::RpcStatus;
use crate::proto::p4rt::{self, stream_message_response::Update};
use crate::schema::role::{Access, Owners};

pub type Outgoing = Result<p4rt::StreamMessageResponse, Status>;

/// Messages that wait for one client. A client that lags further behind is cut off.
pub const OUTBOX: usize = 256;

/// Streams that are open at once, whatever they have asked for.
pub const MAX_OPEN: usize = 64;

/// Streams of clients that only read, of [`MAX_OPEN`]: they take nobody else's place.
pub const MAX_READERS: usize = 8;

/// The open streams and their standing.
pub struct Sessions {
    device_id: u64,
    pub arbitration: Arbitration,
    pub outboxes: BTreeMap<StreamId, Outbox>,
    /// A stream has ended.
    pub departures: Arc<Notify>,
    opened: u64,
}

pub struct Outbox {
    messages: mpsc::Sender<Outgoing>,
    overrun: Arc<Notify>,
    caller: Caller,
    /// The number that the client has for its role, if it does not name it.
    pub role_id: u64,
}

impl Sessions {
    pub fn new(device_id: u64) -> Self {
        Self {
            device_id,
            arbitration: Arbitration::new(device_id),
            outboxes: BTreeMap::new(),
            departures: Arc::default(),
            opened: 0,
        }
    }

    pub fn is_primary(&self, role: &str, election_id: Option<ElectionId>) -> bool {
        self.arbitration.is_primary(role, election_id)
    }

    /// The election id of the role's primary, if there is one.
    pub fn primary_id(&self, role: &str) -> Option<ElectionId> {
        self.arbitration.primary(role)?;
        self.arbitration.highest(role)
    }

    /// The number of open streams.
    pub fn streams(&self) -> usize {
        self.outboxes.len()
    }

    /// Returns whether any role has a primary.
    pub fn has_primary(&self) -> bool {
        self.arbitration.primaries().next().is_some()
    }

    /// `None` for a role that no client has taken.
    pub fn access(&self, role: &str) -> Option<Access> {
        self.arbitration
            .knows(role)
            .then(|| self.arbitration.access(role))
    }

    /// Tells the primaries that may hear of the object of the P4Info. Lost without any, or to one that lags behind.
    pub fn notify(&self, owners: &Owners, id: u32, update: Update) {
        for outbox in self.hearers(owners, id) {
            outbox.send(update.clone());
        }
    }

    /// Does as [`Sessions::notify`], but a client that lags loses the message instead of its stream.
    pub fn offer(&self, owners: &Owners, id: u32, update: Update) {
        for outbox in self.hearers(owners, id) {
            outbox.send_if_room(update.clone());
        }
    }

    /// Returns whether a primary may hear of the object of the P4Info.
    pub fn is_heard(&self, owners: &Owners, id: u32) -> bool {
        self.hearers(owners, id).next().is_some()
    }

    /// Lost for a client that lags: what it must hear has the rest of its outbox. `owner` is the role that the packet_in header is
    /// annotated with. Returns how many clients should have got it and did not.
    pub fn send_packet_in(&self, packet: &p4rt::PacketIn, owner: Option<&String>) -> u64 {
        let mut lost = 0;
        for (role, stream) in self.arbitration.primaries() {
            if let Some(outbox) = self.outboxes.get(&stream)
                && self.arbitration.access(role).hears_packet(packet, owner)
            {
                let sent = outbox.send_if_room(Update::Packet(packet.clone()));
                lost += u64::from(!sent);
            }
        }
        lost
    }

    fn hearers(&self, owners: &Owners, id: u32) -> impl Iterator<Item = &Outbox> {
        self.arbitration
            .primaries()
            .filter(move |(role, _)| self.arbitration.access(role).covers(owners, id))
            .filter_map(|(_, stream)| self.outboxes.get(&stream))
    }

    /// `None`: too many are open.
    pub fn open(
        &mut self,
        messages: mpsc::Sender<Outgoing>,
        caller: Caller,
    ) -> Option<(StreamId, Arc<Notify>)> {
        let read = self
            .outboxes
            .values()
            .filter(|it| it.caller == Caller::Reader);
        if self.outboxes.len() >= MAX_OPEN
            || (caller == Caller::Reader && read.count() >= MAX_READERS)
        {
            return None;
        }
        self.opened += 1;
        let (stream, overrun) = (StreamId(self.opened), Arc::new(Notify::new()));
        self.outboxes.insert(
            stream,
            Outbox {
                messages,
                overrun: Arc::clone(&overrun),
                caller,
                role_id: 0,
            },
        );
        Some((stream, overrun))
    }

    pub fn caller(&self, stream: StreamId) -> Caller {
        let outbox = self.outboxes.get(&stream);
        outbox.map_or(Caller::Reader, |outbox| outbox.caller)
    }

    pub fn tell(&self, stream: StreamId) {
        let (Some(outbox), Some(role), Some(standing)) = (
            self.outboxes.get(&stream),
            self.arbitration.role_of(stream),
            self.arbitration.standing(stream),
        ) else {
            return;
        };
        let (code, message) = match standing {
            Standing::Primary => (Code::Ok, "you are primary"),
            Standing::Backup => (Code::AlreadyExists, "another client is primary"),
            Standing::Vacant => (Code::NotFound, "no client is primary"),
        };
        let highest = self.arbitration.highest(role);
        outbox.send(Update::Arbitration(p4rt::MasterArbitrationUpdate {
            device_id: self.device_id,
            role: self.role_message(role, outbox.role_id),
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

    /// A role as clients are told of it: none for the default one (section 5.4).
    #[allow(
        deprecated,
        reason = "a client that has a number for its role gets it back"
    )]
    fn role_message(&self, role: &str, id: u64) -> Option<p4rt::Role> {
        if role.is_empty() {
            return None;
        }
        let name = match id {
            0 => role.to_owned(),
            _ => String::new(),
        };
        let config = self
            .arbitration
            .access(role)
            .config
            .map(|config| config.given);
        Some(p4rt::Role { id, name, config })
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

    /// Sends a message that may be lost. Returns false when it is.
    pub fn send_if_room(&self, update: Update) -> bool {
        let room = self.messages.capacity() > OUTBOX / 4;
        if room {
            self.send(update);
        }
        room
    }
}
