//! Networks of addresses.

use std::net::IpAddr;
use std::str::FromStr;

/// A network, for example 192.0.2.0/24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
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
pub(super) fn network(address: IpAddr, length: u8) -> Option<IpAddr> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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
}
