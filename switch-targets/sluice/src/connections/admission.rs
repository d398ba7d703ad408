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
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::connections::tls::Caller;

/// A network, for example 192.0.2.0/24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Limits of a [`Crowd`]'s connections.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    pub all: usize,
    /// Connections of each IPv4 address or IPv6 /64.
    pub address: usize,
    /// Connections of each IPv6 /48.
    pub site: usize,
}

/// Connections in the order of arrival. `H` closes its connection when it is dropped.
#[derive(Debug)]
pub struct Crowd<H> {
    limits: ClientLimits,
    members: BTreeMap<u64, Member<H>>,
    arrived: u64,
}

#[derive(Debug)]
struct Member<H> {
    source: IpAddr,
    /// No byte has arrived yet.
    silent: bool,
    handle: H,
}

/// The limit that a new connection reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    Address,
    Site,
    All,
}

impl Prefix {
    pub fn contains(self, address: IpAddr) -> bool {
        network(address, self.length) == Some(self.address)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| "must be an address or a prefix, for example 192.0.2.0/24")?;
        let most = width(address);
        let length = length.map_or(Ok(most), str::parse);
        let length = length.map_err(|_| format!("the length must be 0 to {most}"))?;
        match network(address, length) {
            Some(first) if first == address => Ok(Self { address, length }),
            Some(first) => Err(format!(
                "bits are set behind the prefix: {first}/{length} is meant?"
            )),
            None => Err(format!("the length must be 0 to {most}")),
        }
    }
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The first address of the network; `None` for a length that the family does not have.
fn network(address: IpAddr, length: u8) -> Option<IpAddr> {
    let host = u32::from(width(address).checked_sub(length)?);
    Some(match address {
        IpAddr::V4(address) => {
            IpAddr::V4((address.to_bits() & u32::MAX.checked_shl(host).unwrap_or(0)).into())
        }
        IpAddr::V6(address) => {
            IpAddr::V6((address.to_bits() & u128::MAX.checked_shl(host).unwrap_or(0)).into())
        }
    })
}

impl<H> Crowd<H> {
    pub fn new(limits: ClientLimits) -> Self {
        Self {
            limits,
            members: BTreeMap::new(),
            arrived: 0,
        }
    }

    /// Takes a new connection. Returns its number, and the limit for which an older connection was closed, if any.
    pub fn arrive(&mut self, source: IpAddr, handle: H) -> (u64, Option<Full>) {
        let full = self.make_room(source);
        self.arrived += 1;
        let member = Member {
            source,
            silent: true,
            handle,
        };
        self.members.insert(self.arrived, member);
        (self.arrived, full)
    }

    /// The first byte has arrived.
    pub fn speak(&mut self, number: u64) {
        if let Some(member) = self.members.get_mut(&number) {
            member.silent = false;
        }
    }

    /// `None` when the connection was closed before.
    pub fn leave(&mut self, number: u64) -> Option<(IpAddr, H)> {
        let member = self.members.remove(&number)?;
        Some((member.source, member.handle))
    }

    fn make_room(&mut self, source: IpAddr) -> Option<Full> {
        let limits = self.limits;
        let address = match source {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 64,
        };
        let within = |length| {
            let own = network(source, length);
            move |member| network(member, length) == own
        };
        let (oldest, full) = self
            .oldest(limits.address, within(address))
            .map(|oldest| (oldest, Full::Address))
            .or_else(|| {
                let oldest = self
                    .oldest(limits.site, within(48))
                    .filter(|_| source.is_ipv6());
                oldest.map(|oldest| (oldest, Full::Site))
            })
            .or_else(|| {
                let oldest = self.oldest(limits.all, |_| true);
                oldest.map(|oldest| (oldest, Full::All))
            })?;
        self.members.remove(&oldest);
        Some(full)
    }

    /// The connection to close among those that `belongs` selects, if they are at the limit: the oldest of the silent or of the
    /// speaking ones, whichever are more. So neither kind of flood takes all places from the other kind.
    fn oldest(&self, limit: usize, belongs: impl Fn(IpAddr) -> bool) -> Option<u64> {
        let together = || self.members.iter().filter(|(_, it)| belongs(it.source));
        let (all, silent) = together().fold((0, 0), |(all, silent), (_, member)| {
            (all + 1, silent + usize::from(member.silent))
        });
        let of_silent = silent * 2 >= all;
        let mut numerous = together().filter(|(_, member)| member.silent == of_silent);
        let (first, _) = numerous.next().filter(|_| all >= limit)?;
        Some(*first)
    }
}

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
const STRANGERS: ClientLimits = ClientLimits {
    all: 384,
    address: 48,
    site: 192,
};
/// Connections from known addresses, before the end of their handshake.
const KNOWN: ClientLimits = ClientLimits {
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

    fn v6(site: u16, subnet: u16, host: u16) -> IpAddr {
        IpAddr::V6([0x2001, 0xdb8, site, subnet, 0, 0, 0, host].into())
    }

    #[test]
    fn prefixes_parse_or_say_why_not() {
        let prefix: Prefix = "192.0.2.0/25".parse().unwrap();
        assert!(prefix.contains([192, 0, 2, 127].into()));
        assert!(!prefix.contains([192, 0, 2, 128].into()));
        assert!(!prefix.contains(v6(1, 1, 1)));
        let all: Prefix = "::/0".parse().unwrap();
        assert!(all.contains(v6(1, 1, 1)));
        assert!(!all.contains(v4(1)));
        let one: Prefix = "2001:db8::1".parse().unwrap();
        assert!(one.contains(v6(0, 0, 1)) && !one.contains(v6(0, 0, 2)));
        for (text, reason) in [
            ("berlin", "for example"),
            ("192.0.2.0/33", "0 to 32"),
            ("192.0.2.0/-1", "0 to 32"),
            ("2001:db8::/129", "0 to 128"),
            ("192.0.2.1/24", "192.0.2.0/24 is meant"),
        ] {
            let error = text.parse::<Prefix>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn at_each_limit_the_oldest_of_the_network_goes() {
        let mut crowd = Crowd::new(ClientLimits {
            all: 6,
            address: 2,
            site: 4,
        });
        let mut arrive = |source| crowd.arrive(source, ()).1;
        assert_eq!(
            [arrive(v4(1)), arrive(v4(1)), arrive(v4(1))],
            [None, None, Some(Full::Address)]
        );
        // Hosts of a /64 count as one address, and the /64s of a /48 together.
        assert_eq!(
            [1, 2, 3].map(|host| arrive(v6(1, 1, host))),
            [None, None, Some(Full::Address)]
        );
        assert_eq!([2, 3].map(|subnet| arrive(v6(1, subnet, 1))), [None, None]);
        assert_eq!(arrive(v6(1, 4, 1)), Some(Full::Site));
        assert_eq!(arrive(v4(2)), Some(Full::All));
        let sources: Vec<_> = crowd.members.values().map(|member| member.source).collect();
        assert_eq!(
            sources,
            [
                v4(1),
                v6(1, 1, 3),
                v6(1, 2, 1),
                v6(1, 3, 1),
                v6(1, 4, 1),
                v4(2)
            ]
        );
    }

    #[test]
    fn neither_silent_nor_speaking_connections_crowd_the_others_out() {
        let mut crowd = Crowd::new(ClientLimits {
            all: 4,
            address: 4,
            site: 4,
        });
        let mut arrive = |speaks| {
            let (number, _) = crowd.arrive(v4(1), ());
            if speaks {
                crowd.speak(number);
            }
            number
        };
        let spoken = [arrive(true), arrive(true)];
        for _ in 0..100 {
            arrive(false);
        }
        let silent = arrive(false);
        arrive(true);
        for _ in 0..100 {
            arrive(true);
        }
        assert!(!crowd.members.contains_key(&spoken[0]));
        assert!(crowd.members.contains_key(&silent));
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
        assert_eq!(admission.strangers.members.len(), STRANGERS.all);
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
