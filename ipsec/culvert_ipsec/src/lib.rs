//! The userspace IPsec datapath: packets from a TUN device leave as ESP in UDP (RFC 3948), and the reverse.
//!
//! ```text
//!            ┌──────────────────────── pump: one thread, no Python ────────────────────────┐
//!  TUN ─────►│ super-frame ─► Segments ─► Tunnels::outbound ─► Trains ─► sendmmsg          │────► UDP 4500
//!  TUN ◄─────│ super-frame ◄─ Merger ◄─── Tunnels::inbound ◄── Arrivals ◄─ recvmmsg        │◄──── UDP 4500
//!            └──────────────────────────────▲──────────────────────────────┬────────────────┘
//!                                           │ apply, counters              │ notices (eventfd)
//!                                        Python                          Python
//! ```
//!
//! `tunnels` decides and does no I/O; `tun` and `udp` do I/O and decide nothing; `pump` is the loop between them.

pub mod address;
pub mod arrivals;
mod cause;
pub mod control;
pub mod counters;
pub mod device;
pub mod fragments;
pub mod pump;
mod running;
pub mod selector;
pub mod trains;
pub mod tun;
pub mod tunnels;
pub mod udp;

#[cfg(feature = "python")]
mod packets;
#[cfg(feature = "python")]
mod python;

#[cfg(feature = "python")]
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::packets::{EspError, Inbound, Outbound};
    #[pymodule_export]
    use crate::python::Datapath;
}
