//! Inner addresses, prefixes, and the longest prefix that covers an address.

use std::collections::HashMap;
use std::net::IpAddr;

/// An IPv4 or IPv6 address; IPv4 stands in the upper 32 bits, so that prefix lengths mean the same for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    v6: bool,
    bits: u128,
}

impl Address {
    fn v4(octets: [u8; 4]) -> Self {
        Self {
            v6: false,
            bits: u128::from(u32::from_be_bytes(octets)) << 96,
        }
    }

    fn v6(octets: [u8; 16]) -> Self {
        Self {
            v6: true,
            bits: u128::from_be_bytes(octets),
        }
    }

    fn truncate(self, len: u8) -> Self {
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        Self {
            bits: self.bits & mask,
            ..self
        }
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::v4(v4.octets()),
            IpAddr::V6(v6) => Self::v6(v6.octets()),
        }
    }
}

/// Source and destination of an IP packet.
pub fn ends(packet: &[u8]) -> Option<(Address, Address)> {
    match packet.first()? >> 4 {
        4 => {
            let source = packet.get(12..)?.first_chunk()?;
            let destination = packet.get(16..)?.first_chunk()?;
            Some((Address::v4(*source), Address::v4(*destination)))
        }
        6 => {
            let source = packet.get(8..)?.first_chunk()?;
            let destination = packet.get(24..)?.first_chunk()?;
            Some((Address::v6(*source), Address::v6(*destination)))
        }
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: Address,
    len: u8,
}

impl Prefix {
    /// `None` if `len` exceeds the address or host bits are set.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        let max = if address.is_ipv4() { 32 } else { 128 };
        let prefix = Self {
            address: address.into(),
            len,
        };
        (len <= max && prefix.address.truncate(len) == prefix.address).then_some(prefix)
    }

    /// Parses text as in RFC 4632: `10.20.0.0/16`; an address alone is a host.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address.parse().ok()?, Some(len.parse().ok()?)),
            None => (text.parse().ok()?, None),
        };
        let host: u8 = if IpAddr::is_ipv4(&address) { 32 } else { 128 };
        Self::new(address, len.unwrap_or(host))
    }

    pub fn contains(&self, address: Address) -> bool {
        address.truncate(self.len) == self.address
    }
}

/// Longest prefix match: one hash table for each prefix length in use, longest first.
#[derive(Debug)]
pub struct PrefixMap<T> {
    by_len: Vec<(u8, HashMap<Address, T>)>,
}

impl<T: Copy> PrefixMap<T> {
    pub fn new() -> Self {
        Self { by_len: Vec::new() }
    }

    /// The first value given to a prefix stays.
    pub fn insert(&mut self, prefix: Prefix, value: T) {
        let at = self.by_len.partition_point(|(len, _)| *len > prefix.len);
        if self
            .by_len
            .get(at)
            .is_none_or(|(len, _)| *len != prefix.len)
        {
            self.by_len.insert(at, (prefix.len, HashMap::new()));
        }
        self.by_len[at].1.entry(prefix.address).or_insert(value);
    }

    pub fn get(&self, prefix: Prefix) -> Option<T> {
        let (_, prefixes) = self.by_len.iter().find(|(len, _)| *len == prefix.len)?;
        prefixes.get(&prefix.address).copied()
    }

    /// The values of the prefixes that cover an address, longest first.
    pub fn matches(&self, address: Address) -> impl Iterator<Item = T> {
        self.by_len
            .iter()
            .filter_map(move |(len, prefixes)| prefixes.get(&address.truncate(*len)).copied())
    }
}

impl<T: Copy> Default for PrefixMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn address() -> impl Strategy<Value = IpAddr> {
        // Few distinct bits, so that prefixes nest and meet.
        let bits = prop::sample::select(vec![0u8, 1, 2, 128, 192, 255]);
        prop_oneof![
            prop::array::uniform4(bits.clone()).prop_map(IpAddr::from),
            prop::array::uniform16(bits).prop_map(IpAddr::from),
        ]
    }

    fn prefix() -> impl Strategy<Value = Prefix> {
        (address(), 0..=128u8).prop_map(|(address, len)| {
            let len = if address.is_ipv4() { len % 33 } else { len };
            Prefix {
                address: Address::from(address).truncate(len),
                len,
            }
        })
    }

    proptest! {
        #[test]
        fn agrees_with_a_linear_search(prefixes in prop::collection::vec(prefix(), 0..40), wanted in address()) {
            let mut map = PrefixMap::new();
            for (index, prefix) in prefixes.iter().enumerate() {
                map.insert(*prefix, index);
            }
            let wanted = Address::from(wanted);
            let covering = prefixes.iter().enumerate().filter(|(_, prefix)| prefix.contains(wanted));
            let mut naive: Vec<_> = covering.collect();
            naive.sort_by_key(|(index, prefix)| (std::cmp::Reverse(prefix.len), *index));
            naive.dedup_by_key(|(_, prefix)| **prefix);
            let naive: Vec<_> = naive.into_iter().map(|(index, _)| index).collect();
            prop_assert_eq!(map.matches(wanted).collect::<Vec<_>>(), naive);
        }
    }

    #[test]
    fn text_is_strict() {
        for good in [
            "10.20.0.0/16",
            "0.0.0.0/0",
            "10.20.0.10",
            "10.20.0.10/32",
            "fd00::/8",
            "::/0",
            "::1",
        ] {
            assert!(Prefix::parse(good).is_some(), "{good}");
        }
        for bad in [
            "10.20.0.1/16",
            "10.0.0.0/33",
            "10.0.0.0/",
            "",
            "fd00::/129",
            "wiki",
        ] {
            assert!(Prefix::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_ipv4_mapped_ipv6_address_is_not_the_ipv4_address() {
        let v4 = Prefix::parse("10.20.0.10").unwrap();
        let mapped: IpAddr = "::ffff:10.20.0.10".parse().unwrap();
        assert!(!v4.contains(mapped.into()));
        assert!(!Prefix::parse("0.0.0.0/0").unwrap().contains(mapped.into()));
    }
}
