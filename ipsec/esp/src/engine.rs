//! The engine behind the P4 extern `EspEngine` (p4/gateway/esp_engine.p4): SAs by slot, keys wrapped.
//!
//! ```text
//!  SaEntry ─► the slot holds that key, SPI, suite and ESN?  yes ─► its sequence number and window go on
//!                                                           no  ─► held elsewhere, or retired? ─► goes on after the last number
//!                                                                  never seen?                 ─► unwrap, start at 1
//! ```
//!
//! Threads share an engine: each SA is used by one at a time, several SAs at once.
//!
//! Starting again would reuse IVs and accept replays, so what a key has spent outlives its stay in a slot. Memory of
//! retired keys is bounded by the number of slots; a new engine remembers nothing, so after its restart every SA needs
//! a fresh key (RFC 9061 section 4.2).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::Suite;
pub use crate::contract::Verdict;
use crate::inbound::{InboundSa, OpenError};
use crate::kek_ring::KekRing;
use crate::key::KeyMaterial;
use crate::outbound::{OutboundSa, SealError, Sealed};
pub use crate::slots::SaEntry;
use crate::slots::{Identity, Slots};
use crate::suite::AllowedSuites;
use crate::wire::Spi;

/// The ESP packet stands in the first `len` bytes of the buffer; 0 unless the verdict is `Ok` or `SoftLimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealOutcome {
    pub verdict: Verdict,
    pub len: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOutcome {
    pub verdict: Verdict,
    /// The range of the inner packet; empty unless the verdict is `Ok` or `SoftLimit`.
    pub range: Range<usize>,
    /// Authenticated, and higher than every sequence number before, whatever the verdict.
    pub newest: bool,
}

pub struct Engine {
    keks: Arc<KekRing>,
    allowed: AllowedSuites,
    slots: u32,
    pub(crate) outbound: Slots<OutboundSa>,
    pub(crate) inbound: Slots<InboundSa>,
}

impl Engine {
    /// An engine for slots 0 to `slots - 1` of each direction. Memory grows with the slots that were
    /// ever used: an engine does not hear of a deleted entry, and keeps an SA until its slot is given another.
    pub fn new(keks: Arc<KekRing>, slots: u32, allowed: AllowedSuites) -> Self {
        Self {
            keks,
            allowed,
            slots,
            outbound: Slots::new(slots),
            inbound: Slots::new(slots),
        }
    }

    /// Seals the IP packet at the start of `inner` into `out`. `inner.len() + MAX_OVERHEAD` is room enough; too little
    /// is `Malformed`. Byte limits count inner bytes; seconds count on the clock of `now`, from the SA's first packet.
    pub fn seal(
        &self,
        entry: &SaEntry<'_>,
        inner: &[u8],
        out: &mut [u8],
        now: Duration,
    ) -> SealOutcome {
        self.seal_by(entry, |sa| sa.seal(inner, out, now))
    }

    /// Seals in place the IP packet that stands [`Suite::inner_at`] bytes into `packet`, as long as its own header says,
    /// which is at most `inner_len`. `inner_len + MAX_OVERHEAD` bytes are room enough. Otherwise as [`Engine::seal`].
    pub fn seal_in_place(
        &self,
        entry: &SaEntry<'_>,
        inner_len: usize,
        packet: &mut [u8],
        now: Duration,
    ) -> SealOutcome {
        self.seal_by(entry, |sa| sa.seal_in_place(inner_len, packet, now))
    }

    fn seal_by(
        &self,
        entry: &SaEntry<'_>,
        seal: impl FnOnce(&mut OutboundSa) -> Result<Sealed, SealError>,
    ) -> SealOutcome {
        let failed = |verdict| SealOutcome { verdict, len: 0 };
        let (soft, hard) = (entry.soft, entry.hard);
        let make = || {
            let (identity, key) = self.admit(entry)?;
            let sa = OutboundSa::new(identity.spi, &key, identity.esn, soft, hard).ok()?;
            Some((identity, sa))
        };
        let sealed = self.outbound.with(entry, make, |sa| {
            sa.set_limits(soft, hard);
            seal(sa)
        });
        match sealed {
            Some(Ok(sealed)) => SealOutcome {
                verdict: done(sealed.soft_limit),
                len: sealed.len,
            },
            Some(Err(SealError::Malformed | SealError::BufferTooSmall)) => {
                failed(Verdict::Malformed)
            }
            Some(Err(SealError::HardLimit)) => failed(Verdict::HardLimit),
            Some(Err(SealError::NoRandomness)) | None => failed(Verdict::Key),
        }
    }

    /// Opens in place a packet that starts at its SPI and ends with its ICV. `replay_window` counts when the SA is made.
    pub fn open(
        &self,
        entry: &SaEntry<'_>,
        replay_window: u16,
        packet: &mut [u8],
        now: Duration,
    ) -> OpenOutcome {
        let failed = |verdict, newest| OpenOutcome {
            verdict,
            range: 0..0,
            newest,
        };
        let (soft, hard) = (entry.soft, entry.hard);
        let make = || {
            let (identity, key) = self.admit(entry)?;
            let (spi, esn) = (identity.spi, identity.esn);
            let sa = InboundSa::new(spi, &key, esn, replay_window, soft, hard).ok()?;
            Some((identity, sa))
        };
        let opened = self.inbound.with(entry, make, |sa| {
            sa.set_limits(soft, hard);
            let before = sa.top();
            let result = sa.open(packet, now);
            (result, sa.top() > before)
        });
        let Some((result, newest)) = opened else {
            return failed(Verdict::Key, false);
        };
        match result {
            Ok(opened) => OpenOutcome {
                verdict: done(opened.soft_limit),
                range: opened.range,
                newest,
            },
            Err(OpenError::Malformed | OpenError::WrongSpi) => failed(Verdict::Malformed, newest),
            Err(OpenError::Replay) => failed(Verdict::Replay, newest),
            Err(OpenError::Icv) => failed(Verdict::Icv, newest),
            Err(OpenError::Dummy) => failed(Verdict::Dummy, newest),
            Err(OpenError::HardLimit) => failed(Verdict::HardLimit, newest),
        }
    }

    /// The key of an SA that another process has had, if this one may use it.
    pub(crate) fn unwrap(&self, identity: &Identity) -> Option<KeyMaterial> {
        let suite = self.allowed.admit(identity.suite)?;
        self.keks.unwrap(suite, &identity.wrapped).ok()
    }

    pub(crate) fn has_slot(&self, slot: u32) -> bool {
        slot < self.slots
    }

    /// Makes the parts of this entry's SA, if the SA is allowed.
    fn admit(&self, entry: &SaEntry<'_>) -> Option<(Identity, KeyMaterial)> {
        if entry.slot >= self.slots {
            return None;
        }
        let suite = self.allowed.admit(Suite::try_from(entry.suite).ok()?)?;
        let identity = Identity {
            wrapped: *entry.wrapped_key,
            spi: Spi::new(entry.spi).ok()?,
            suite: suite.suite(),
            esn: entry.esn,
        };
        let key = self.keks.unwrap(suite, entry.wrapped_key).ok()?;
        Some((identity, key))
    }
}

fn done(soft_limit: bool) -> Verdict {
    if soft_limit {
        Verdict::SoftLimit
    } else {
        Verdict::Ok
    }
}
