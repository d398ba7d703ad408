//! The process around the switch: command line, start and end, hand-over, metrics, supervision, tracing.

pub mod command;
pub mod config;
pub mod dev;
pub mod handover;
pub mod metrics;
pub mod serve;
pub mod sockets;
pub mod supervision;
pub mod trace_control;
pub mod trace_offline;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
