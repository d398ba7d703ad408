//! The hand-over of a running switch to another process of it, most often a newer version: no packet is lost, and no SA.
//!
//! ```text
//!   old process                                            new process
//!   starts it ────────────────────────────────────────────► checks its command line
//!                 ◄──────────────────────────────── HELLO
//!   clients' writes wait
//!   program, entries, sockets, KEKs ── OFFER ─────────────► builds the switch, unwraps the keys      packets run in the old one
//!                 ◄───────────────────────────── PREPARED
//!   ends its threads: frames wait in the sockets
//!   ports, counters, numbers, windows ─ STATE ────────────► takes them
//!                 ◄──────────────────────────────── TAKEN   starts its threads
//!   names it to systemd, ends
//! ```
//! TAKEN decides, and is one system call: before it the old process can go on, after it the new one has. If TAKEN does not come in
//! time, the old process first shuts the socket, so that it can't come any more, then starts its threads again. So no two
//! processes ever send, and no sequence number is used twice. Any fault before TAKEN leaves the old process at work.

pub mod channel;
pub mod giver;
pub mod successor;

use crate::dataplane::esp_engine::GivenEngine;
use crate::dataplane::ports::given::GivenPort;
use crate::dataplane::traffic::TrafficState;
use crate::p4runtime::digest::DigestState;
use crate::p4runtime::handover::ControlState;
use sluice_pipeline::SwitchState;

/// The first word of the new process's command line. A version without hand-over refuses it, and ends before it opens anything.
pub const COMMAND: &str = "take-over";

/// Beside it, in this order: the sealed memory with the key-encryption keys, and the listening sockets of P4Runtime, metrics, and
/// control, each if there is one.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Offer {
    #[prost(message, required, tag = "1")]
    pub control: ControlState,
    #[prost(message, repeated, tag = "2")]
    pub engines: Vec<GivenEngine>,
    /// The start of the switch on the monotonic clock, in nanoseconds.
    #[prost(uint64, tag = "3")]
    pub started: u64,
    /// Bytes of the key-encryption keys; 0: a switch without.
    #[prost(uint64, tag = "4")]
    pub keks: u64,
    #[prost(bool, tag = "5")]
    pub grpc: bool,
    #[prost(bool, tag = "6")]
    pub metrics: bool,
    #[prost(bool, tag = "7")]
    pub control_socket: bool,
    /// The program that is to take the place of the old one.
    #[prost(message, optional, tag = "8")]
    pub next: Option<NextProgram>,
}

/// Files, and what a controller is told.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NextProgram {
    #[prost(string, tag = "1")]
    pub json: String,
    #[prost(string, tag = "2")]
    pub p4info: String,
    #[prost(uint64, optional, tag = "3")]
    pub cookie: Option<u64>,
}

/// Beside it, the descriptors of the open ports.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FinalState {
    #[prost(message, repeated, tag = "1")]
    pub ports: Vec<GivenPort>,
    /// None: no program has been pushed.
    #[prost(message, optional, tag = "2")]
    pub switch: Option<SwitchState>,
    #[prost(message, repeated, tag = "3")]
    pub engines: Vec<GivenEngine>,
    #[prost(message, required, tag = "4")]
    pub traffic: TrafficState,
    #[prost(message, required, tag = "5")]
    pub digests: DigestState,
    /// Packets of clients that have not run yet.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub packet_outs: Vec<Vec<u8>>,
    #[prost(uint64, tag = "7")]
    pub packet_ins_lost: u64,
    #[prost(uint64, tag = "8")]
    pub hash_keys_refused: u64,
}
