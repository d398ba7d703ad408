//! The state that all requests share: the installed program, the open streams, the digests.

use std::collections::HashMap;

use esp::KekRing;
use parking_lot::Mutex;
use sluice_pipeline::ExternRegistry;
use std::sync::Arc;
use tokio::sync::{Notify, RwLock};

use crate::dataplane::plane::{DataPlane, Running};
use crate::fault::{Fault, Requests};
use crate::p4runtime::digest;
use crate::p4runtime::intake::Budget;
use crate::p4runtime::replication::Replication;
use crate::p4runtime::session::Sessions;
use crate::p4runtime::translate::EntryKey;
use crate::proto::p4rt;
use crate::schema::Schema;

/// The one switch that this process is.
pub struct Device {
    pub id: u64,
    pub plane: Arc<DataPlane>,
    pub externs: ExternRegistry,
    /// The key-encryption keys of its externs; none where the switch has no keys.
    pub keks: Option<Arc<KekRing>>,
    /// Held for the whole of a write request or a push, shared by reads: requests are serialised (section 12.1).
    pub installed: RwLock<Option<Installed>>,
    /// A program that is to be committed: what is written and read meanwhile is its.
    pub saved: Mutex<Option<Box<Saved>>>,
    pub sessions: Mutex<Sessions>,
    pub digests: Mutex<digest::DigestQueue>,
    /// Digests, their configuration or the primary have changed.
    pub digests_changed: Notify,
    pub requests: Requests,
    pub memory: Arc<Budget>,
    /// Reads take turns: one may keep a thread busy for long, and other clients are served meanwhile.
    pub reading: tokio::sync::Mutex<()>,
    /// Clients that only read take turns first among themselves.
    pub readers: tokio::sync::Mutex<()>,
}

/// The program that runs, as the control plane sees it.
pub struct Installed {
    pub schema: Schema,
    pub config: p4rt::ForwardingPipelineConfig,
    /// A client's opaque data beside an entry. Default entries have no key.
    pub notes: HashMap<(u32, Option<EntryKey>), Note>,
    pub replication: Replication,
}

/// A program and its entries before packets run through it.
pub struct Saved {
    /// Has the program, and the digests that are enabled in it.
    pub device: Device,
    pub installed: Installed,
}

/// Opaque to the switch (section 9.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    pub controller_metadata: u64,
    pub metadata: Vec<u8>,
    /// `action_selection_mode` and `size_semantics` of an action set.
    pub modes: [i32; 2],
}

impl Device {
    pub fn new(id: u64, plane: Arc<DataPlane>, externs: ExternRegistry) -> Self {
        Self {
            id,
            plane,
            externs,
            keks: None,
            installed: RwLock::new(None),
            saved: Mutex::new(None),
            sessions: Mutex::new(Sessions::new(id)),
            digests: Mutex::default(),
            digests_changed: Notify::new(),
            requests: Requests::default(),
            memory: Arc::default(),
            reading: tokio::sync::Mutex::default(),
            readers: tokio::sync::Mutex::default(),
        }
    }

    /// A device for a program that no packet runs through yet: it has no clients.
    pub fn beside(&self, running: Running) -> Self {
        let plane = Arc::new(self.plane.beside(running));
        Self {
            keks: self.keks.clone(),
            ..Self::new(self.id, plane, ExternRegistry::new())
        }
    }
}

/// The answer before a program has been pushed.
pub fn no_program() -> Fault {
    Fault::new(
        tonic::Code::FailedPrecondition,
        "No forwarding pipeline config has been set",
    )
}
