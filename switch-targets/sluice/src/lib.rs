//! The sluice P4 software switch: ports and P4Runtime around sluice-pipeline.
//!
//! ```text
//!   controller ── mTLS ── listener ── admission      whose connections stay
//!                            └──────► server ─┬─ intake ── reckon              how much at once
//!                                             ├─ session ── arbitration, role    who may write what
//!                                             ├─ pipeline_config ── schema       which program runs
//!                                             │       └─ reconcile               what the next one keeps
//!                                             ├─ write, read ── translate        its entries and counters
//!                                             ├─ digest_pump ── digest           what it learned
//!                                             ├─ idle_pump                       what nobody uses
//!                                             ├─ kek                             key-encryption keys that change
//!                                             └─ packet_io                       packets from and to clients
//!                                                      │ device
//!   interfaces ── ports ────────────── forwarder ── dataplane ── sluice-pipeline ── esp_engine, packet_hash
//! ```

#![deny(unsafe_code)]

pub mod admission;
pub mod arbitration;
#[cfg(test)]
mod arbitration_tests;
pub mod command;
pub mod condition;
pub mod config;
pub mod dataplane;
pub mod dev;
pub mod device;
pub mod digest;
pub mod digest_pump;
pub mod esp_engine;
pub mod fault;
pub mod forwarder;
pub mod idle_pump;
pub mod intake;
pub mod kek;
pub mod listener;
pub mod metrics;
pub mod packet_hash;
pub mod packet_io;
pub mod payload_tail;
pub mod pipeline_config;
pub mod ports;
pub mod proto;
pub mod read;
mod reckon;
pub mod reconcile;
pub mod role;
pub mod schema;
pub mod sdn;
pub mod server;
pub mod session;
pub mod supervision;
pub mod tls;
pub mod trace;
pub mod translate;
#[cfg(test)]
mod translate_tests;
pub mod write;
