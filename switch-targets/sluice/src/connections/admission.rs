//! Limits the connections of a port, in all and for each network; at a limit an old one is closed for the new one.
//!
//! ```text
//!            ┌─ Crowd of strangers ───────┐ certificate  ┌─ controllers ─┐
//!  accepted ─┤                            ├─────────────►│               │  at the limit the longest idle is closed,
//!            └─ Crowd of known addresses ─┘              └─ readers ─────┘  never one with a call under way
//!                at a limit the oldest silent, or the oldest speaking, is closed
//! ```
//! Connections without a certificate never cause one with a certificate to be closed. Strangers' connections never cause one from
//! a known address to be closed. An address is known when a controller has shown its certificate from there.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::connections::crowd::{Crowd, CrowdLimits, Full};
use crate::connections::tls::Caller;

/// The calls of one connection.
#[derive(Debug)]
pub struct Calls(Mutex<Activity>);

#[derive(Clone, Copy, Debug)]
struct Activity {
    under_way: usize,
    /// The time at which the last call ended; valid while no call is under way.
    since: Instant,
}

/// A call that is under way until this is dropped.
pub struct OpenCall(Arc<Calls>);

impl Calls {
    fn new(now: Instant) -> Self {
        Self(Mutex::new(Activity {
            under_way: 0,
            since: now,
        }))
    }

    pub fn begin(self: &Arc<Self>) -> OpenCall {
        self.0.lock().under_way += 1;
        OpenCall(Arc::clone(self))
    }

    fn idle_since(&self) -> Option<Instant> {
        let activity = *self.0.lock();
        (activity.under_way == 0).then_some(activity.since)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut activity = self.0.0.lock();
        activity.under_way -= 1;
        activity.since = Instant::now();
    }
}

/// Connections of strangers, before the end of their handshake.
const STRANGERS: CrowdLimits = CrowdLimits {
    all: 384,
    address: 48,
    site: 192,
};
/// Connections from known addresses, before the end of their handshake.
const KNOWN: CrowdLimits = CrowdLimits {
    all: 96,
    address: 48,
    site: 96,
};
/// Addresses that are remembered as known: the latest ones.
const KNOWN_ADDRESSES: usize = 64;
/// Connections of clients at once.
const CONTROLLERS: usize = 224;
const READERS: usize = 32;

/// The crowd of a connection before its handshake, and the connection's number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    known: bool,
    number: u64,
}

/// A connection with a certificate.
#[derive(Clone, Debug)]
pub struct Admitted {
    pub caller: Caller,
    pub calls: Arc<Calls>,
    number: u64,
}

/// The cause for which a connection with a certificate was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection was closed for a newer one while its handshake ended.
    Gone,
    /// Clients with calls under way have all places of this kind of client, so many.
    Busy(usize),
}

/// The connections of the P4Runtime port.
#[derive(Debug)]
pub struct Admission<H> {
    strangers: Crowd<H>,
    known: Crowd<H>,
    /// Known addresses, in the order in which controllers were last seen there.
    addresses: VecDeque<IpAddr>,
    clients: BTreeMap<u64, (Admitted, H)>,
    admitted: u64,
}

impl<H> Default for Admission<H> {
    fn default() -> Self {
        Self {
            strangers: Crowd::new(STRANGERS),
            known: Crowd::new(KNOWN),
            addresses: VecDeque::new(),
            clients: BTreeMap::new(),
            admitted: 0,
        }
    }
}

impl<H> Admission<H> {
    /// Takes a connection before its handshake. Returns also the limit for which an older connection was closed, if any.
    pub fn arrive(&mut self, source: IpAddr, handle: H) -> (Arrived, Option<Full>) {
        let known = self.addresses.contains(&source);
        let (number, full) = self.crowd(known).arrive(source, handle);
        (Arrived { known, number }, full)
    }

    /// A connection's first byte has arrived.
    pub fn speak(&mut self, arrived: Arrived) {
        self.crowd(arrived.known).speak(arrived.number);
    }

    /// The handshake of a connection failed.
    pub fn fail(&mut self, arrived: Arrived) {
        self.crowd(arrived.known).leave(arrived.number);
    }

    /// The connection has shown a certificate. At the limit the client that has had no call for the longest time is closed.
    ///
    /// # Errors
    /// The new connection is refused, and closed.
    pub fn admit(
        &mut self,
        arrived: Arrived,
        caller: Caller,
        now: Instant,
    ) -> Result<Admitted, Refused> {
        let left = self.crowd(arrived.known).leave(arrived.number);
        let (source, handle) = left.ok_or(Refused::Gone)?;
        if caller == Caller::Controller {
            self.remember(source);
        }
        let limit = match caller {
            Caller::Controller => CONTROLLERS,
            Caller::Reader => READERS,
        };
        let same = || {
            self.clients
                .iter()
                .filter(|(_, (client, _))| client.caller == caller)
        };
        if same().count() >= limit {
            let idle = same()
                .filter_map(|(number, (client, _))| Some((client.calls.idle_since()?, *number)));
            let (_, longest) = idle.min().ok_or(Refused::Busy(limit))?;
            self.clients.remove(&longest);
        }
        self.admitted += 1;
        let client = Admitted {
            caller,
            calls: Arc::new(Calls::new(now)),
            number: self.admitted,
        };
        self.clients.insert(client.number, (client.clone(), handle));
        Ok(client)
    }

    pub fn leave(&mut self, client: &Admitted) {
        self.clients.remove(&client.number);
    }

    fn crowd(&mut self, known: bool) -> &mut Crowd<H> {
        match known {
            true => &mut self.known,
            false => &mut self.strangers,
        }
    }

    fn remember(&mut self, source: IpAddr) {
        self.addresses.retain(|address| *address != source);
        self.addresses.push_back(source);
        if self.addresses.len() > KNOWN_ADDRESSES {
            self.addresses.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    fn v4(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn strangers_never_push_out_a_known_address() {
        let mut admission = Admission::default();
        let now = Instant::now();
        let (first, _) = admission.arrive(v4(1), ());
        let controller = admission.admit(first, Caller::Controller, now).unwrap();
        let (again, _) = admission.arrive(v4(1), ());
        for stranger in 0..1000 {
            admission.arrive(v4(1000 + stranger), ());
        }
        assert_eq!(admission.strangers.len(), STRANGERS.all);
        assert_eq!(
            admission
                .admit(again, Caller::Controller, now)
                .unwrap()
                .caller,
            Caller::Controller
        );
        assert!(admission.clients.contains_key(&controller.number));
        for other in 0..KNOWN_ADDRESSES as u32 {
            let (other, _) = admission.arrive(v4(2000 + other), ());
            admission.admit(other, Caller::Controller, now).unwrap();
        }
        assert!(
            !admission.addresses.contains(&v4(1)),
            "the oldest known address is forgotten"
        );
    }

    #[test]
    fn a_reader_makes_no_address_known() {
        let mut admission = Admission::default();
        let (reader, _) = admission.arrive(v4(1), ());
        admission
            .admit(reader, Caller::Reader, Instant::now())
            .unwrap();
        assert!(!admission.arrive(v4(1), ()).0.known);
    }

    #[test]
    fn the_longest_idle_client_goes_and_none_with_a_call() {
        let mut admission = Admission::default();
        let now = Instant::now();
        let mut admit = |seconds| {
            let (arrived, _) = admission.arrive(v4(1), ());
            admission.admit(arrived, Caller::Reader, now + Duration::from_secs(seconds))
        };
        let clients: Vec<_> = (0..READERS as u64).map(|it| admit(it).unwrap()).collect();
        let mut calls: Vec<_> = vec![clients[0].calls.begin()];
        let newest = admit(100).unwrap();
        calls.extend(clients[2..].iter().map(|client| client.calls.begin()));
        calls.push(newest.calls.begin());
        assert_eq!(admit(101).unwrap_err(), Refused::Busy(READERS));
        drop(calls.pop());
        assert!(admit(102).is_ok());
        let left: Vec<_> = admission.clients.keys().copied().collect();
        assert!(left.contains(&clients[0].number) && !left.contains(&clients[1].number));
        assert!(!left.contains(&newest.number));
    }
}
