//! P4Runtime: the service, its clients' streams, and the requests that change or read the running program.

mod access;
pub mod arbitration;
#[cfg(test)]
mod arbitration_tests;
pub mod digest;
pub mod digest_pump;
pub mod handover;
pub mod idle_pump;
pub mod intake;
pub mod kek;
pub mod packet_io;
pub mod pipeline_config;
pub mod read;
mod reckon;
pub mod reconcile;
pub mod replication;
pub mod server;
pub mod session;
pub mod state;
pub mod translate;
#[cfg(test)]
mod translate_tests;
pub mod write;
