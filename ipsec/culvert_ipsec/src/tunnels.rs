//! Finds the tunnel of each packet, and decides whether the packet may pass. No I/O.
//!
//! ```text
//!  inner ─► longest prefix with a selector for it ─► tunnel ─► source is an inner address of it? ─► its outbound SA: seal ─► (ESP, outer address)
//!  inner ◄─ a selector permits it, destination an inner address of it? ◄─ open ◄─ inbound SA by SPI ◄─ UDP payload
//! ```

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use esp::nat_t::{Datagram, demultiplex};
use esp::{InboundSa, OpenError, OutboundSa, Resumable, Retired, SealError, TrafficClass};
use offload::Segments;

use crate::address::Address;
use crate::counters::{Cause, Drops, Totals, Traffic};
use crate::fragments::Fragments;
pub use crate::running::Keyed;
use crate::running::{Live, keep};
use crate::selector::{Flow, Routes, Selector};
use crate::trains::Trains;

/// RFC 3948 section 4: without traffic, one keepalive in so many seconds.
const KEEPALIVE_INTERVAL: f64 = 20.0;
/// Retired keys remembered for each direction, so that none starts again.
const RETIRED_KEYS: usize = 4096;

/// A tunnel as it shall be. Its SAs are new; `apply` prefers those that run already.
pub struct Desired {
    pub id: String,
    /// The device's own, of each family that the tunnel carries.
    pub inner: Vec<IpAddr>,
    pub remote: Vec<Selector>,
    /// Further selectors that packets out of the tunnel may match.
    pub inbound_only: Vec<Selector>,
    pub outer: SocketAddr,
    pub inbound: Vec<Keyed<InboundSa>>,
    pub outbound: Option<Keyed<OutboundSa>>,
}

/// A desired state that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    DuplicateTunnel(String),
    /// A receiver's SPIs are unique (RFC 4301 section 4.1).
    DuplicateSpi(u32),
    /// Two SAs have one key: they would use the same IVs.
    SharedKey,
}

/// An SA reached a soft limit: time to rekey. Said once for an SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftLimit {
    pub tunnel: String,
    pub spi: u32,
    pub inbound: bool,
}

struct Tunnel {
    id: String,
    inner: Vec<Address>,
    remote: Vec<Selector>,
    inbound_only: Vec<Selector>,
    outer: SocketAddr,
    outbound: Option<Live<OutboundSa>>,
    traffic: Traffic,
    /// Datagrams that came out of this tunnel.
    fragments: Fragments,
    last_sent: f64,
}

struct Inbound {
    tunnel: usize,
    live: Live<InboundSa>,
}

pub struct Tunnels {
    tunnels: Vec<Tunnel>,
    routes: Routes,
    /// Datagrams that came from the TUN device.
    fragments: Fragments,
    inbound: HashMap<u32, Inbound>,
    totals: Totals,
    notices: Vec<SoftLimit>,
    retired_inbound: Retired<[u8; 32]>,
    retired_outbound: Retired<[u8; 32]>,
}

impl Tunnels {
    pub fn new() -> Self {
        Self {
            tunnels: Vec::new(),
            routes: Routes::default(),
            fragments: Fragments::default(),
            inbound: HashMap::new(),
            totals: Totals::default(),
            notices: Vec::new(),
            retired_inbound: Retired::new(RETIRED_KEYS),
            retired_outbound: Retired::new(RETIRED_KEYS),
        }
    }

    /// Makes `desired` the whole state at once. SAs that stay keep sequence number and window, tunnels that stay keep
    /// their counters. When selectors of two tunnels match one packet, the first tunnel carries it.
    pub fn apply(&mut self, desired: Vec<Desired>, now: f64) -> Result<(), Refusal> {
        check(&desired)?;
        let mut tunnels: HashMap<String, Tunnel> = HashMap::new();
        let mut outbound = HashMap::new();
        for mut tunnel in self.tunnels.drain(..) {
            outbound.extend(
                tunnel
                    .outbound
                    .take()
                    .map(|live| (live.keyed.fingerprint, live)),
            );
            tunnels.insert(tunnel.id.clone(), tunnel);
        }
        let mut inbound: HashMap<_, _> = self
            .inbound
            .drain()
            .map(|(_, old)| (old.live.keyed.fingerprint, old.live))
            .collect();

        self.routes = Routes::default();
        for (index, new) in desired.into_iter().enumerate() {
            let mut old = tunnels.remove(&new.id);
            for selector in &new.remote {
                self.routes.insert(selector.clone(), index);
            }
            for keyed in new.inbound {
                let live = keep(keyed, &mut inbound, &mut self.retired_inbound);
                self.inbound.insert(
                    live.keyed.spi.get(),
                    Inbound {
                        tunnel: index,
                        live,
                    },
                );
            }
            self.tunnels.push(Tunnel {
                id: new.id,
                inner: new.inner.into_iter().map(Address::from).collect(),
                remote: new.remote,
                inbound_only: new.inbound_only,
                outer: new.outer,
                outbound: new
                    .outbound
                    .map(|keyed| keep(keyed, &mut outbound, &mut self.retired_outbound)),
                traffic: old.as_ref().map(|old| old.traffic).unwrap_or_default(),
                fragments: old
                    .as_mut()
                    .map(|old| std::mem::take(&mut old.fragments))
                    .unwrap_or_default(),
                last_sent: old.map_or(now, |old| old.last_sent),
            });
        }
        for (fingerprint, live) in inbound {
            self.retired_inbound
                .retire(fingerprint, live.keyed.sa.spent());
        }
        for (fingerprint, live) in outbound {
            self.retired_outbound
                .retire(fingerprint, live.keyed.sa.spent());
        }
        Ok(())
    }

    /// Seals the packets of a frame from the TUN, as many as `out` has room for.
    pub fn outbound(&mut self, frame: &mut Segments<'_>, out: &mut Trains, now: f64) {
        let flow = Flow::of(frame.headers()).zip(TrafficClass::of(frame.headers()));
        let Some((flow, class)) = flow else {
            return self.discard(Cause::Malformed, frame.skip_rest());
        };
        let flow = self.fragments.complete(flow, now);
        let Some(index) = self.routes.find(&flow) else {
            return self.discard(Cause::NoPolicy, frame.skip_rest());
        };
        let tunnel = &mut self.tunnels[index];
        if !tunnel.inner.contains(&flow.source) {
            return self.discard_in(index, Cause::Selector, frame.skip_rest());
        }
        let Some(live) = &mut tunnel.outbound else {
            return self.discard_in(index, Cause::NoPolicy, frame.skip_rest());
        };
        self.fragments.remember(&flow, now);
        let sa = &mut live.keyed.sa;
        let mut drops = Drops::default();
        while let Some(len) = frame.next_len() {
            let Some(room) = out.room(sa.sealed_len(len)) else {
                break;
            };
            let inner = room.get_mut(sa.inner_at()..).unwrap_or_default();
            frame.write_next(inner);
            match sa.seal_in_place(len, room, clock(now)) {
                Ok(sealed) => {
                    if sealed.soft_limit && !std::mem::replace(&mut live.told, true) {
                        self.notices.push(SoftLimit {
                            tunnel: tunnel.id.clone(),
                            spi: live.keyed.spi.get(),
                            inbound: false,
                        });
                    }
                    tunnel.traffic.outbound.count(len, now);
                    tunnel.last_sent = now;
                    // The outer header copies the class (RFC 6040 section 4.1, RFC 4301 section 5.1.2).
                    out.depart(sealed.len, tunnel.outer, class);
                }
                Err(SealError::HardLimit) => drops.count(Cause::HardLimit, 1),
                Err(SealError::NoRandomness) => drops.count(Cause::SendFailed, 1),
                Err(SealError::Malformed | SealError::BufferTooSmall) => {
                    drops.count(Cause::Malformed, 1);
                }
            }
        }
        tunnel.traffic.drops.add(&drops);
        self.totals.drops.add(&drops);
    }

    /// Counts a read from the TUN that was no frame.
    pub fn malformed(&mut self) {
        self.discard(Cause::Malformed, 1);
    }

    /// Opens the payload of a datagram of traffic class `outer` in place. Returns the range of the inner packet in it.
    pub fn inbound(
        &mut self,
        datagram: &mut [u8],
        outer: TrafficClass,
        now: f64,
    ) -> Option<Range<usize>> {
        let spi = match demultiplex(datagram) {
            Datagram::Esp(spi) => spi.get(),
            Datagram::Keepalive => {
                self.totals.keepalives_in += 1;
                return None;
            }
            Datagram::NonEsp => {
                self.totals.non_esp += 1;
                return None;
            }
            Datagram::Malformed => return self.refuse(Cause::Malformed),
        };
        let Some(Inbound {
            tunnel: index,
            live,
        }) = self.inbound.get_mut(&spi)
        else {
            return self.refuse(Cause::UnknownSpi);
        };
        let index = *index;
        let opened = match live.keyed.sa.open(datagram, clock(now)) {
            Ok(opened) => opened,
            Err(error) => return self.refuse_in(index, cause(error)),
        };
        let tunnel = &mut self.tunnels[index];
        if opened.soft_limit && !std::mem::replace(&mut live.told, true) {
            self.notices.push(SoftLimit {
                tunnel: tunnel.id.clone(),
                spi,
                inbound: true,
            });
        }
        let inner = datagram.get_mut(opened.range.clone())?;
        let flow = Flow::of(inner).map(|flow| tunnel.fragments.complete(flow, now));
        let permitted = flow.filter(|flow| {
            let mut selectors = tunnel.remote.iter().chain(&tunnel.inbound_only);
            tunnel.inner.contains(&flow.destination)
                && selectors.any(|selector| selector.permits(flow))
        });
        let Some(flow) = permitted else {
            return self.refuse_in(index, Cause::Selector);
        };
        tunnel.fragments.remember(&flow, now);
        let own = TrafficClass::of(inner)?;
        let Ok(combined) = own.decapsulate(outer) else {
            return self.refuse_in(index, Cause::Ecn);
        };
        if combined != own {
            combined.write(inner);
        }
        tunnel.traffic.inbound.count(inner.len(), now);
        Some(opened.range)
    }

    /// The peers that are due a keepalive now; the keepalives count as sent.
    pub fn due_keepalives(&mut self, now: f64) -> Vec<SocketAddr> {
        let silent = |tunnel: &&mut Tunnel| {
            tunnel.outbound.is_some() && now - tunnel.last_sent >= KEEPALIVE_INTERVAL
        };
        let mut due = Vec::new();
        for tunnel in self.tunnels.iter_mut().filter(silent) {
            tunnel.last_sent = now;
            if !due.contains(&tunnel.outer) {
                due.push(tunnel.outer);
            }
        }
        self.totals.keepalives_out += due.len() as u64;
        due
    }

    /// The time of the next keepalive, if nothing is sent until then.
    pub fn deadline(&self) -> Option<f64> {
        let sending = self
            .tunnels
            .iter()
            .filter(|tunnel| tunnel.outbound.is_some());
        sending
            .map(|tunnel| tunnel.last_sent + KEEPALIVE_INTERVAL)
            .min_by(f64::total_cmp)
    }

    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    pub fn take_notices(&mut self) -> Vec<SoftLimit> {
        std::mem::take(&mut self.notices)
    }

    pub fn traffic(&self) -> impl Iterator<Item = (&str, &Traffic)> {
        self.tunnels
            .iter()
            .map(|tunnel| (tunnel.id.as_str(), &tunnel.traffic))
    }

    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The operating system refused so many packets.
    pub fn send_failed(&mut self, packets: usize) {
        self.totals.drops.count(Cause::SendFailed, packets);
    }

    fn discard(&mut self, cause: Cause, packets: usize) {
        self.totals.drops.count(cause, packets);
    }

    fn discard_in(&mut self, tunnel: usize, cause: Cause, packets: usize) {
        self.tunnels[tunnel].traffic.drops.count(cause, packets);
        self.discard(cause, packets);
    }

    fn refuse<T>(&mut self, cause: Cause) -> Option<T> {
        self.discard(cause, 1);
        None
    }

    fn refuse_in<T>(&mut self, tunnel: usize, cause: Cause) -> Option<T> {
        self.discard_in(tunnel, cause, 1);
        None
    }
}

impl Default for Tunnels {
    fn default() -> Self {
        Self::new()
    }
}

fn check(desired: &[Desired]) -> Result<(), Refusal> {
    let (mut ids, mut spis, mut keys) = (HashSet::new(), HashSet::new(), HashSet::new());
    for tunnel in desired {
        if !ids.insert(&tunnel.id) {
            return Err(Refusal::DuplicateTunnel(tunnel.id.clone()));
        }
        if let Some(twice) = tunnel.inbound.iter().find(|keyed| !spis.insert(keyed.spi)) {
            return Err(Refusal::DuplicateSpi(twice.spi.get()));
        }
        let inbound = tunnel.inbound.iter().map(|keyed| keyed.fingerprint);
        let outbound = tunnel.outbound.iter().map(|keyed| keyed.fingerprint);
        if inbound.chain(outbound).any(|key| !keys.insert(key)) {
            return Err(Refusal::SharedKey);
        }
    }
    Ok(())
}

/// Seconds of the monotonic clock, as the SAs count them.
fn clock(now: f64) -> Duration {
    Duration::try_from_secs_f64(now).unwrap_or_default()
}

fn cause(error: OpenError) -> Cause {
    match error {
        OpenError::Malformed | OpenError::WrongSpi => Cause::Malformed,
        OpenError::Replay => Cause::Replay,
        OpenError::Icv => Cause::Icv,
        OpenError::Dummy => Cause::Dummy,
        OpenError::HardLimit => Cause::HardLimit,
    }
}
