//! The sluice P4 software switch: ports and P4Runtime around sluice-pipeline.
//!
//! ```text
//!   controller ── mTLS ── listener ─► server ─┬─ session ── arbitration          who may write
//!                                             ├─ pipeline_config ── schema       which program runs
//!                                             ├─ write, read ── translate        its entries and counters
//!                                             ├─ digest_pump ── digest           what it learned
//!                                             └─ idle_pump                       what nobody uses
//!                                                      │ device
//!   interfaces ── ports ────────────────────────── dataplane ── sluice-pipeline ── esp_engine
//! ```

#![deny(unsafe_code)]

pub mod arbitration;
pub mod config;
pub mod dataplane;
pub mod device;
pub mod digest;
pub mod digest_pump;
pub mod esp_engine;
pub mod fault;
pub mod idle_pump;
pub mod listener;
pub mod payload_tail;
pub mod pipeline_config;
pub mod ports;
pub mod proto;
pub mod read;
pub mod schema;
pub mod sdn;
pub mod server;
pub mod session;
pub mod tls;
pub mod translate;
#[cfg(test)]
mod translate_tests;
pub mod write;
