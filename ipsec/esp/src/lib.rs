//! ESP in tunnel mode, sans-IO: bytes in, bytes out.
//!
//! ```text
//!              OutboundSa::seal                             InboundSa::open
//!  inner IP ─► limits ─► sequence ─► pad ─► AES-GCM ─► ESP ─► SPI ─► replay check ─► ICV ─► replay mark ─► limits
//!                                                                        padding, next header, trim ─► inner IP
//! ```
//!
//! RFC 4303 with AES-GCM-256 (RFC 4106, 16-byte ICV) and extended sequence numbers. No packet allocates, and no
//! packet, however malformed, panics. Other suites and 32-bit sequence numbers are absent.

#![forbid(unsafe_code)]

pub mod engine;
mod key;
mod limits;
mod retired;
mod sa;
mod slots;
mod window;
mod wire;

pub use key::{KEY_MATERIAL_LEN, Kek, KeyError, KeyMaterial, WRAPPED_KEY_LEN};
pub use limits::Limits;
pub use retired::{Resumable, Retired, Spent};
pub use sa::{InboundSa, OpenError, Opened, OutboundSa, SealError, Sealed};
pub use window::MIN_REPLAY_WINDOW;
pub use wire::{HEADER_LEN, ReservedSpi, Spi, packet_spi, sealed_len};
