//! The engine behind the P4 extern `EspEngine` (p4/gateway/esp_engine.p4): SAs by slot, keys wrapped.
//!
//! ```text
//!  (slot, wrapped key, spi) ─► the slot holds that key?  yes ─► its sequence number and window go on
//!                                                        no  ─► held elsewhere, or retired? ─► goes on after the last number
//!                                                               never seen?                 ─► unwrap, start at 1
//! ```
//!
//! Starting again would reuse IVs and accept replays, so what a key has spent outlives its stay in a slot. Memory of
//! retired keys is bounded by the number of slots; a new engine remembers nothing, so after its restart every SA needs
//! a fresh key (RFC 9061 section 4.2).

use std::ops::Range;

use crate::key::Kek;
use crate::limits::Limits;
use crate::sa::{InboundSa, OpenError, OutboundSa, SealError};
use crate::slots::{Slots, WrappedKey};
use crate::wire::Spi;

/// As `Verdict` in p4/gateway/esp_engine.p4.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ok = 0,
    /// Done, and a soft limit is behind.
    SoftLimit = 1,
    Malformed = 2,
    Replay = 3,
    Icv = 4,
    Dummy = 5,
    HardLimit = 6,
    /// No SA can be made: the key does not unwrap, the slot or the SPI is out of range, or the suite or a 32-bit
    /// sequence number is not supported.
    Key = 7,
}

/// As `Suite` in p4/gateway/esp_engine.p4: AES-GCM-256 (RFC 4106).
pub const SUITE_AES_GCM_256: u8 = 1;

pub struct Engine {
    kek: Kek,
    slots: u32,
    outbound: Slots<OutboundSa>,
    inbound: Slots<InboundSa>,
}

impl Engine {
    /// An engine for slots 0 to `slots - 1` of each direction. Memory grows with the slots in use.
    pub fn new(kek: Kek, slots: u32) -> Self {
        Self {
            kek,
            slots,
            outbound: Slots::new(slots),
            inbound: Slots::new(slots),
        }
    }

    /// Seals the IP packet at the start of `inner` into `out`. The length is 0 unless the verdict is `Ok` or `SoftLimit`.
    /// `out` too small for `sealed_len` of the inner packet is `Malformed`. Byte limits count inner bytes.
    #[allow(
        clippy::too_many_arguments,
        reason = "the extern's parameters, one for one"
    )]
    pub fn seal(
        &mut self,
        slot: u32,
        suite: u8,
        wrapped_key: &WrappedKey,
        spi: u32,
        esn: bool,
        soft: Limits,
        hard: Limits,
        inner: &[u8],
        out: &mut [u8],
    ) -> (Verdict, usize) {
        let Some(spi) = self.admissible(slot, suite, spi, esn) else {
            return (Verdict::Key, 0);
        };
        let make = || OutboundSa::new(spi, &self.kek.unwrap(wrapped_key)?, soft, hard);
        let Ok(sa) = self.outbound.sa(slot, wrapped_key, spi, make) else {
            return (Verdict::Key, 0);
        };
        sa.set_limits(soft, hard);
        match sa.seal(inner, out) {
            Ok(sealed) => (done(sealed.soft_limit), sealed.len),
            Err(SealError::Malformed | SealError::BufferTooSmall) => (Verdict::Malformed, 0),
            Err(SealError::HardLimit) => (Verdict::HardLimit, 0),
        }
    }

    /// Opens in place a packet that starts at its SPI and ends with its ICV. The range is empty unless the verdict is
    /// `Ok` or `SoftLimit`. `replay_window` counts when the SA is made.
    #[allow(
        clippy::too_many_arguments,
        reason = "the extern's parameters, one for one"
    )]
    pub fn open(
        &mut self,
        slot: u32,
        suite: u8,
        wrapped_key: &WrappedKey,
        spi: u32,
        esn: bool,
        replay_window: u16,
        soft: Limits,
        hard: Limits,
        packet: &mut [u8],
    ) -> (Verdict, Range<usize>) {
        let Some(spi) = self.admissible(slot, suite, spi, esn) else {
            return (Verdict::Key, 0..0);
        };
        let make = || {
            InboundSa::new(
                spi,
                &self.kek.unwrap(wrapped_key)?,
                replay_window,
                soft,
                hard,
            )
        };
        let Ok(sa) = self.inbound.sa(slot, wrapped_key, spi, make) else {
            return (Verdict::Key, 0..0);
        };
        sa.set_limits(soft, hard);
        match sa.open(packet) {
            Ok(opened) => (done(opened.soft_limit), opened.range),
            Err(OpenError::Malformed | OpenError::WrongSpi) => (Verdict::Malformed, 0..0),
            Err(OpenError::Replay) => (Verdict::Replay, 0..0),
            Err(OpenError::Icv) => (Verdict::Icv, 0..0),
            Err(OpenError::Dummy) => (Verdict::Dummy, 0..0),
            Err(OpenError::HardLimit) => (Verdict::HardLimit, 0..0),
        }
    }

    fn admissible(&self, slot: u32, suite: u8, spi: u32, esn: bool) -> Option<Spi> {
        let supported = slot < self.slots && suite == SUITE_AES_GCM_256 && esn;
        Spi::new(spi).ok().filter(|_| supported)
    }
}

fn done(soft_limit: bool) -> Verdict {
    if soft_limit {
        Verdict::SoftLimit
    } else {
        Verdict::Ok
    }
}
