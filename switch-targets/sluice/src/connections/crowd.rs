//! Connections in the order of arrival, limited in all and for each network; at a limit an old one is closed for the new one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::prefix::network;

/// Limits of a [`Crowd`]'s connections.
#[derive(Clone, Copy, Debug)]
pub struct CrowdLimits {
    pub all: usize,
    /// Connections of each IPv4 address or IPv6 /64.
    pub address: usize,
    /// Connections of each IPv6 /48.
    pub site: usize,
}

/// Connections in the order of arrival. `H` closes its connection when it is dropped.
#[derive(Debug)]
pub struct Crowd<H> {
    limits: CrowdLimits,
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

impl<H> Crowd<H> {
    pub fn new(limits: CrowdLimits) -> Self {
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

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.members.len()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    fn v6(site: u16, subnet: u16, host: u16) -> IpAddr {
        IpAddr::V6([0x2001, 0xdb8, site, subnet, 0, 0, 0, host].into())
    }

    #[test]
    fn at_each_limit_the_oldest_of_the_network_goes() {
        let mut crowd = Crowd::new(CrowdLimits {
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
        let mut crowd = Crowd::new(CrowdLimits {
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
}
