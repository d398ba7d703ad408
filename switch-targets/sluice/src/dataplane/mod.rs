//! The threads that move packets, the ports, and the externs that programs call.

pub mod cpu_port;
pub mod esp_engine;
pub mod forwarder;
pub mod packet_hash;
pub mod payload_tail;
pub mod plane;
pub mod ports;
pub mod trace;
pub mod traffic;
