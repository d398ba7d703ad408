//! The sluice P4 software switch: ports and P4Runtime around sluice-pipeline.
//!
//! ```text
//!   controller ── mTLS ── listener ── admission        connections/   whose connections stay
//!                            └──────► server ─┬─ intake ── reckon     p4runtime/   how much at once
//!                                             ├─ session ── arbitration            who may write
//!                                             ├─ pipeline_config                   which program runs
//!                                             │       └─ reconcile                 what the next one keeps
//!                                             ├─ write, read ── translate          its entries and counters
//!                                             ├─ digest_pump ── digest             what it learned
//!                                             ├─ idle_pump                         unused entries
//!                                             ├─ kek                               key-encryption keys that change
//!                                             └─ packet_io                         packets from and to clients
//!                                                     │ state       schema/   P4Info beside the program, roles
//!   interfaces ── ports ─────────── forwarder ── plane ── sluice-pipeline ── esp_engine, packet_hash   dataplane/
//! ```
//! `process/` is around both: command line, configuration, metrics, supervision, tracing.

#![deny(unsafe_code)]

pub mod condition;
pub mod connections;
pub mod dataplane;
pub mod fault;
pub mod p4runtime;
pub mod process;
pub mod proto;
pub mod schema;
