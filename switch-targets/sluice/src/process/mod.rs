//! The process around the switch: command line, metrics, supervision, tracing.

pub mod command;
pub mod config;
pub mod dev;
pub mod metrics;
pub mod supervision;
pub mod trace_control;
pub mod trace_offline;
