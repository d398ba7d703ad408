//! Super-frames: what the kernel hands over as one packet and the network sees as many. Sans-IO.
//!
//! ```text
//!               split                                           merge
//!  super-frame ───────► packet, packet, packet … ─ … ─ packet … ───────► super-frame
//!  one header for 64 KiB      whole, finished                verified, in order, one flow
//! ```
//!
//! Frames are Ethernet's, with up to two VLAN tags, or begin with the IP header, as a TUN device's do. Before each stands a
//! [`Vnet`]. No packet, however malformed, panics, and none allocates once a [`Merger`] has grown.

#![forbid(unsafe_code)]

mod checksum;
mod layers;
mod merge;
mod split;
mod vnet;

pub use checksum::{fold, sum};
pub use layers::{Ip, Layers, Link, Transport, link_header};
pub use merge::{MAX_PACKETS, Mergeable, Merger, Train};
pub use split::{Malformed, Segments, packets};
pub use vnet::{VNET_LEN, Vnet};
