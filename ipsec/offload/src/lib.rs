//! Super-frames: what the kernel hands over as one packet and the network sees as many. Sans-IO.
//!
//! ```text
//!            VnetHeader                Segments                      Merger            VnetHeader
//!  kernel ─► super-frame ─────────────► packet, packet, packet … ───────────────────► super-frame ─► kernel
//!            one IP header, one TCP or UDP header, up to 64 KiB     verified, in order, one flow
//! ```
//!
//! Packets are IP packets without a link header. No packet, however malformed, panics, and none allocates once a
//! `Merger` has grown.

#![forbid(unsafe_code)]

mod checksum;
mod merge;
mod packet;
mod split;
mod vnet;

pub use merge::{MAX_PARTS, Merger, SuperFrame};
pub use split::{Contradiction, Segments};
pub use vnet::{Segmentation, VNET_HEADER_LEN, VnetHeader};
