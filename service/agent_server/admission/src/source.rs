//! The source that a connection counts for: an IPv4 address, or an IPv6 /64 and its /48. A host can choose the lower 64
//! bits of its IPv6 address freely, and a site the lower 80.

use std::net::{IpAddr, Ipv6Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    V4(u32),
    /// The upper 64 bits.
    V6(u64),
    /// The upper 48.
    Site(u64),
}

/// The keys of one address: at most two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys([Option<Key>; 2]);

impl Keys {
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.iter().flatten()
    }
}

/// An IPv4-mapped address counts as the IPv4 address.
pub fn keys(address: IpAddr) -> Keys {
    match address.to_canonical() {
        IpAddr::V4(address) => Keys([Some(Key::V4(address.to_bits())), None]),
        IpAddr::V6(address) => {
            let upper = (address.to_bits() >> 64) as u64;
            Keys([Some(Key::V6(upper)), Some(Key::Site(upper >> 16))])
        }
    }
}

/// A network, as "192.0.2.0/24" or "2001:db8::/32".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    network: Ipv6Addr,
    /// The prefix length as of an IPv6 address; IPv4 networks are stored IPv4-mapped.
    bits: u32,
}

impl Prefix {
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let (address, bits): (IpAddr, u32) = (address.parse().ok()?, bits.parse().ok()?);
        let (network, bits) = match address {
            IpAddr::V4(address) if bits <= 32 => (address.to_ipv6_mapped(), bits + 96),
            IpAddr::V6(address) if bits <= 128 => (address, bits),
            _ => return None,
        };
        Some(Self { network, bits })
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let address = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let differing = address.to_bits() ^ self.network.to_bits();
        differing.leading_zeros() >= self.bits
    }
}

/// The proxies whose X-Forwarded-For header is believed.
#[derive(Clone, Debug, Default)]
pub struct Forwarded {
    trusted: Vec<Prefix>,
}

impl Forwarded {
    pub fn by(trusted: Vec<Prefix>) -> Self {
        Self { trusted }
    }

    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.iter().any(|prefix| prefix.contains(peer))
    }

    /// The source address of a request. `said` has the values of its X-Forwarded-For headers, in their order. Each proxy
    /// appends the address of its own client at the right end. So the client's address is the rightmost one that is no
    /// trusted proxy's; the client itself may have written everything left of it. Reading stops at a malformed address.
    pub fn source<'a>(
        &self,
        peer: IpAddr,
        said: impl DoubleEndedIterator<Item = &'a str>,
    ) -> IpAddr {
        let mut source = peer.to_canonical();
        let mut hops = said.rev().flat_map(|value| value.rsplit(','));
        while self.trusts(source) {
            match hops.next().and_then(hop) {
                Some(address) => source = address,
                None => break,
            }
        }
        source
    }
}

/// Parses an address as proxies write it: it may have a port, and IPv6 is then in brackets.
fn hop(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => host,
            _ => text,
        },
    };
    bare.parse::<IpAddr>().ok().map(|it| it.to_canonical())
}
