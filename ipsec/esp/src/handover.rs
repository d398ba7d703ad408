//! The SAs of an engine on their way to another process, and how much each has spent. No key is among it: the other process
//! unwraps the keys anew.
//!
//! ```text
//!   packets run        ─ snapshot ─► restore: unwraps the keys, makes the SAs        takes its time
//!   packets have ended ─ snapshot ─► restore: numbers and windows alone              takes microseconds an SA
//! ```
//! Nothing goes back: a number that is spent in either process is spent.

use std::time::Duration;

use crate::contract::{Suite, WRAPPED_KEY_LEN};
use crate::engine::Engine;
use crate::inbound::InboundSa;
use crate::key::{KeyMaterial, WrappedKey};
use crate::limits::{Limits, Usage};
use crate::outbound::OutboundSa;
use crate::retired::{Resumable, Spent};
use crate::slots::{Identity, Slots};
use crate::window::ReplayWindow;
use crate::wire::Spi;

/// Sequence numbers that an outbound SA leaves out when it changes its process. None of them is used by the process before, which
/// has ended its threads; more than the smallest replay window would make the peer drop packets that overtake each other.
pub const GAP: u64 = 64;

#[derive(Clone, PartialEq, prost::Message)]
pub struct EngineState {
    #[prost(message, repeated, tag = "1")]
    pub outbound: Vec<SaState>,
    #[prost(message, repeated, tag = "2")]
    pub inbound: Vec<SaState>,
    #[prost(message, repeated, tag = "3")]
    pub retired_outbound: Vec<RetiredState>,
    #[prost(message, repeated, tag = "4")]
    pub retired_inbound: Vec<RetiredState>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SaState {
    #[prost(uint32, tag = "1")]
    pub slot: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub wrapped_key: Vec<u8>,
    #[prost(uint32, tag = "3")]
    pub spi: u32,
    #[prost(uint32, tag = "4")]
    pub suite: u32,
    #[prost(bool, tag = "5")]
    pub esn: bool,
    #[prost(message, required, tag = "6")]
    pub spent: SpentState,
    /// An inbound SA's.
    #[prost(message, optional, tag = "7")]
    pub window: Option<WindowState>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RetiredState {
    #[prost(bytes = "vec", tag = "1")]
    pub wrapped_key: Vec<u8>,
    #[prost(message, required, tag = "2")]
    pub spent: SpentState,
}

/// [`Spent`], with the time of the first packet on the clock of the process before.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SpentState {
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    #[prost(uint64, tag = "2")]
    pub packets: u64,
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    #[prost(uint64, optional, tag = "4")]
    pub first_nanos: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct WindowState {
    /// In packets.
    #[prost(uint32, tag = "1")]
    pub size: u32,
    #[prost(fixed64, repeated, tag = "2")]
    pub blocks: Vec<u64>,
}

/// A state that no engine can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadState(&'static str);

impl std::fmt::Display for BadState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the state of an SA has {}", self.0)
    }
}

impl std::error::Error for BadState {}

impl Engine {
    pub fn snapshot(&self) -> EngineState {
        EngineState {
            outbound: states(&self.outbound, |_| None),
            inbound: states(&self.inbound, |sa| Some(WindowState::of(sa.window()))),
            retired_outbound: retired(&self.outbound),
            retired_inbound: retired(&self.inbound),
        }
    }

    /// Goes on where `state` stopped; call it again with a later state of the same engine. An SA whose key does not open any
    /// longer, or whose suite is allowed no longer, is remembered as retired. Returns the number of SAs that go on.
    ///
    /// # Errors
    /// Some SAs may have been taken then: discard the engine.
    pub fn restore(&self, state: &EngineState) -> Result<usize, BadState> {
        let make_out = |it: &Identity, key: &KeyMaterial| {
            OutboundSa::new(it.spi, key, it.esn, Limits::NONE, Limits::NONE).ok()
        };
        let mut taken = 0;
        for sa in &state.outbound {
            let spent = skipping(sa.spent);
            taken += usize::from(self.take(&self.outbound, sa, spent, make_out, |_| {})?);
        }
        for sa in &state.inbound {
            let window = sa.window.as_ref().and_then(|it| it.restore(sa.spent));
            let window = window.ok_or(BadState("no replay window of its size"))?;
            let size = window.size();
            let make = |it: &Identity, key: &KeyMaterial| {
                InboundSa::new(it.spi, key, it.esn, size, Limits::NONE, Limits::NONE).ok()
            };
            let adopt = |sa: &mut InboundSa| sa.adopt_window(window);
            let spent = sa.spent.into();
            taken += usize::from(self.take(&self.inbound, sa, spent, make, adopt)?);
        }
        for it in &state.retired_outbound {
            self.outbound
                .retire(wrapped(&it.wrapped_key)?, skipping(it.spent));
        }
        for it in &state.retired_inbound {
            self.inbound
                .retire(wrapped(&it.wrapped_key)?, it.spent.into());
        }
        Ok(taken)
    }

    fn take<S: Resumable>(
        &self,
        slots: &Slots<S>,
        state: &SaState,
        spent: Spent,
        make: impl FnOnce(&Identity, &KeyMaterial) -> Option<S>,
        adopt: impl FnOnce(&mut S),
    ) -> Result<bool, BadState> {
        if !self.has_slot(state.slot) {
            return Err(BadState("a slot that the engine does not have"));
        }
        let identity = state.identity()?;
        let wrapped = identity.wrapped;
        let make = |identity: &Identity| make(identity, &self.unwrap(identity)?);
        let taken = slots.adopt(state.slot, identity, make, |sa| {
            adopt(sa);
            sa.resume(spent);
        });
        if !taken {
            slots.retire(wrapped, spent);
        }
        Ok(taken)
    }
}

impl SaState {
    fn identity(&self) -> Result<Identity, BadState> {
        let suite = u8::try_from(self.suite).ok();
        let suite = suite.and_then(|it| Suite::try_from(it).ok());
        Ok(Identity {
            wrapped: wrapped(&self.wrapped_key)?,
            spi: Spi::new(self.spi).map_err(|_| BadState("a reserved SPI"))?,
            suite: suite.ok_or(BadState("an unknown suite"))?,
            esn: self.esn,
        })
    }
}

impl WindowState {
    fn of(window: &ReplayWindow) -> Self {
        Self {
            size: window.size().into(),
            blocks: window.blocks().to_vec(),
        }
    }

    fn restore(&self, spent: SpentState) -> Option<ReplayWindow> {
        let size = u16::try_from(self.size).ok()?;
        ReplayWindow::restore(spent.sequence, size, &self.blocks)
    }
}

impl From<Spent> for SpentState {
    fn from(spent: Spent) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            sequence: spent.sequence,
            packets: spent.used.packets,
            bytes: spent.used.bytes,
            first_nanos: spent.used.first.map(nanos),
        }
    }
}

impl From<SpentState> for Spent {
    fn from(state: SpentState) -> Self {
        Self {
            sequence: state.sequence,
            used: Usage {
                packets: state.packets,
                bytes: state.bytes,
                first: state.first_nanos.map(Duration::from_nanos),
            },
        }
    }
}

fn states<S: Resumable>(
    slots: &Slots<S>,
    window: impl Fn(&S) -> Option<WindowState>,
) -> Vec<SaState> {
    let mut states = Vec::new();
    slots.for_each(|slot, identity, sa| {
        states.push(SaState {
            slot,
            wrapped_key: identity.wrapped.to_vec(),
            spi: identity.spi.get(),
            suite: (identity.suite as u8).into(),
            esn: identity.esn,
            spent: sa.spent().into(),
            window: window(sa),
        });
    });
    states
}

fn retired<S: Resumable>(slots: &Slots<S>) -> Vec<RetiredState> {
    let mut states = Vec::new();
    slots.for_each_retired(|key, spent| {
        states.push(RetiredState {
            wrapped_key: key.to_vec(),
            spent: spent.into(),
        });
    });
    states
}

fn skipping(state: SpentState) -> Spent {
    let sequence = state.sequence.saturating_add(GAP);
    SpentState { sequence, ..state }.into()
}

fn wrapped(bytes: &[u8]) -> Result<WrappedKey, BadState> {
    <[u8; WRAPPED_KEY_LEN]>::try_from(bytes)
        .map_err(|_| BadState("a wrapped key of another length"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;
    use crate::engine::{SaEntry, Verdict};
    use crate::{AdmittedSuite, AllowedSuites, Kek, KekRing};

    const NOW: Duration = Duration::from_secs(1);

    fn engine() -> Engine {
        let keks: KekRing = Kek::from_bytes(&[7; 32]).into();
        Engine::new(Arc::new(keks), 8, AllowedSuites::MODERN)
    }

    fn wrapped(key: u8) -> WrappedKey {
        let material = KeyMaterial::new(AdmittedSuite::AES_GCM_256, &[key; 36]).unwrap();
        Kek::from_bytes(&[7; 32]).wrap(&material).unwrap()
    }

    fn entry(wrapped_key: &WrappedKey, slot: u32) -> SaEntry<'_> {
        SaEntry {
            slot,
            suite: Suite::AesGcm256 as u8,
            wrapped_key,
            spi: 0x1234,
            esn: true,
            soft: Limits::NONE,
            hard: Limits::NONE,
        }
    }

    fn seal(engine: &Engine, key: u8, slot: u32) -> (u32, Vec<u8>) {
        let mut inner = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0];
        inner.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let mut out = [0; 200];
        let done = engine.seal(&entry(&wrapped(key), slot), &inner, &mut out, NOW);
        assert_eq!(done.verdict, Verdict::Ok);
        let sequence = u32::from_be_bytes(out[4..8].try_into().unwrap());
        (sequence, out[..done.len].to_vec())
    }

    fn open(engine: &Engine, key: u8, packet: &[u8]) -> Verdict {
        let (wrapped, mut packet) = (wrapped(key), packet.to_vec());
        engine
            .open(&entry(&wrapped, 0), 1024, &mut packet, NOW)
            .verdict
    }

    /// As it crosses to another process.
    fn hand_over(from: &Engine, to: &Engine) -> usize {
        let bytes = from.snapshot().encode_to_vec();
        to.restore(&EngineState::decode(bytes.as_slice()).unwrap())
            .unwrap()
    }

    proptest! {
        #[test]
        fn nothing_is_used_twice_and_nothing_accepted_twice(
            arrivals in prop::collection::vec(0..1500_usize, 1..200), early in 0..200_usize,
        ) {
            let (peer, old, new) = (engine(), engine(), engine());
            let packets: Vec<_> = (0..1500).map(|_| seal(&peer, 1, 0).1).collect();
            let mut seen = Vec::new();
            for (at, packet) in arrivals.iter().enumerate() {
                if at == early {
                    hand_over(&old, &new);
                }
                seen.push((*packet, open(&old, 1, &packets[*packet])));
                seal(&old, 2, 3);
            }
            prop_assert_eq!(hand_over(&old, &new), 2);
            // The new engine says what the old one would say.
            for packet in &packets {
                prop_assert_eq!(open(&new, 1, packet), open(&old, 1, packet));
            }
            let (last, _) = seal(&old, 2, 3);
            prop_assert_eq!(u64::from(seal(&new, 2, 3).0), u64::from(last) + GAP);
        }

        #[test]
        fn a_damaged_state_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
            let old = engine();
            let packet = seal(&old, 1, 0).1;
            open(&old, 1, &packet);
            let mut whole = old.snapshot().encode_to_vec();
            let at = at.index(whole.len());
            whole.splice(at.., bytes);
            if let Ok(state) = EngineState::decode(whole.as_slice()) {
                let _ = engine().restore(&state);
            }
        }
    }

    #[test]
    fn retired_keys_and_keys_that_do_not_open_are_remembered() {
        let (old, new) = (engine(), engine());
        assert_eq!(seal(&old, 1, 3).0, 1);
        assert_eq!(seal(&old, 2, 3).0, 1);
        hand_over(&old, &new);
        assert_eq!(u64::from(seal(&new, 1, 4).0), 2 + GAP);
        let other: KekRing = Kek::from_bytes(&[8; 32]).into();
        let other = Engine::new(Arc::new(other), 8, AllowedSuites::MODERN);
        assert_eq!(hand_over(&old, &other), 0);
        assert_eq!(other.snapshot().retired_outbound.len(), 2);
    }

    #[test]
    fn impossible_states_are_refused() {
        let old = engine();
        let packet = seal(&old, 1, 0).1;
        open(&old, 1, &packet);
        let whole = old.snapshot();
        let changes: [fn(&mut EngineState); 5] = [
            |it| it.outbound[0].slot = 8,
            |it| it.outbound[0].suite = 0,
            |it| it.outbound[0].spi = 0,
            |it| it.inbound[0].wrapped_key.truncate(3),
            |it| it.inbound[0].window = None,
        ];
        for change in changes {
            let mut state = whole.clone();
            change(&mut state);
            assert!(engine().restore(&state).is_err());
        }
    }
}
