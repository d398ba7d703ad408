//! Whose a connection is: an IPv4 address, or an IPv6 /64 and the /48 that it is of. Fewer bits of IPv6 are one host's to
//! choose.

use std::net::{IpAddr, Ipv6Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    V4(u32),
    /// The upper 64 bits.
    V6(u64),
    /// The upper 48.
    Site(u64),
}

/// At most two.
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
    /// Of an IPv6 address; IPv4's are mapped.
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

/// Of which peers the word is believed where a request comes from.
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

    /// The one address that a request is from. `said`: the values of its X-Forwarded-For headers, in their order. Each
    /// proxy adds the address that it saw at the right end, so that the first from the right that no trusted proxy has is
    /// the client's; what stands left of it is the client's own word. What is no address ends the reading.
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

/// An address, as proxies spell it: with a port too, IPv6 in brackets then.
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
