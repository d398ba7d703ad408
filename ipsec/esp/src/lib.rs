//! ESP in tunnel mode, sans-IO: bytes and the time in, bytes out.
//!
//! ```text
//!           OutboundSa::seal                               InboundSa::open
//!  inner IP ─► limits ─► sequence ─► pad ─► cipher ─► ESP ─► SPI ─► replay check ─► ICV ─► replay mark ─► limits
//!                                                                          padding, next header, trim ─► inner IP
//! ```
//!
//! RFC 4303 with the suites of [`Suite`] and sequence numbers of 32 or 64 bits. No packet allocates, and no packet,
//! however malformed, panics.

#![forbid(unsafe_code)]

mod cipher;
mod contract;
pub mod engine;
pub mod handover;
mod inbound;
mod kek_ring;
mod key;
mod limits;
mod mac;
pub mod nat_t;
mod outbound;
mod random;
mod retired;
mod slots;
mod suite;
mod traffic_class;
#[cfg(test)]
mod vectors;
mod window;
mod wire;

pub use contract::{KEK_LEN, MIN_REPLAY_WINDOW, SUITES, Suite, WRAPPED_KEY_LEN};
pub use inbound::{InboundSa, OpenError, OpenJob, Opened};
pub use kek_ring::{ForgetError, KekRing, MAX_KEKS};
pub use key::{Kek, KeyError, KeyMaterial, WrappedKey};
pub use limits::Limits;
pub use outbound::{MAX_DUMMY_LEN, OutboundSa, SealError, SealJob, Sealed};
pub use retired::{Resumable, Retired, Spent};
pub use suite::{AdmittedSuite, AllowedSuites, UnknownSuite};
pub use traffic_class::{Congested, TrafficClass};
pub use wire::{MAX_OVERHEAD, ReservedSpi, Spi, packet_spi};
