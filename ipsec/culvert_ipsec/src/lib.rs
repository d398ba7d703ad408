//! The userspace IPsec datapath: packets from a TUN device leave as ESP in UDP (RFC 3948), and the reverse.
//!
//! ```text
//!            ┌──────────────────────── pump: one thread, no Python ────────────────────────┐
//!  TUN ─────►│ read until EAGAIN ──► Tunnels::outbound ──► sendmmsg                        │────► UDP 4500
//!  TUN ◄─────│ write            ◄── Tunnels::inbound  ◄── recvmmsg                         │◄──── UDP 4500
//!            └──────────────────────────────▲──────────────────────────────┬────────────────┘
//!                                           │ apply, counters              │ notices (eventfd)
//!                                        Python                          Python
//! ```
//!
//! `tunnels` decides and does no I/O; `device` does I/O and decides nothing; `pump` is the loop between them.

pub mod address;
mod control;
pub mod counters;
pub mod device;
pub mod pump;
mod running;
pub mod tunnels;

#[cfg(feature = "python")]
mod packets;
#[cfg(feature = "python")]
mod python;
