//! The PROXY protocol, versions 1 and 2 (haproxy's doc/proxy-protocol.txt, sections 2.1 and 2.2): a load balancer begins a
//! connection with its client's address. Pure: the caller reads the bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The first bytes of version 2. Version 1 is longer as well, and begins with [`TEXT`].
pub const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
pub const TEXT: &[u8] = b"PROXY ";
/// Bytes of a line of version 1 with its CRLF at most.
pub const LINE_MAX: usize = 107;
/// Bytes that we take behind the 16 bytes that begin version 2; addresses need 36, the rest are extensions.
pub const REST_MAX: usize = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Introduced {
    Client(IpAddr),
    /// The load balancer's own connection, such as a health check, or an address of a family that has no IP address.
    Itself,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Parses a line of version 1, without its CRLF.
///
/// # Errors
/// `Malformed`.
pub fn line(line: &[u8]) -> Result<Introduced, Malformed> {
    let text = std::str::from_utf8(line).map_err(|_| Malformed)?;
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        ["PROXY", "UNKNOWN", ..] => Ok(Introduced::Itself),
        [
            "PROXY",
            family @ ("TCP4" | "TCP6"),
            source,
            target,
            from,
            to,
        ] => {
            let address: IpAddr = source.parse().map_err(|_| Malformed)?;
            let fits = address.is_ipv4() == (*family == "TCP4");
            let whole = target.parse::<IpAddr>().is_ok() && port(from) && port(to);
            match fits && whole {
                true => Ok(Introduced::Client(address.to_canonical())),
                false => Err(Malformed),
            }
        }
        _ => Err(Malformed),
    }
}

fn port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

/// The number of bytes that follow the first 16 of version 2.
///
/// # Errors
/// `Malformed`: another version or command, or more bytes than [`REST_MAX`].
pub fn rest(head: &[u8; 16]) -> Result<usize, Malformed> {
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    match (head.starts_with(&SIGNATURE), head[12]) {
        (true, 0x20 | 0x21) if length <= REST_MAX => Ok(length),
        _ => Err(Malformed),
    }
}

/// Parses version 2: its first 16 bytes, and as many others as [`rest`] says.
///
/// # Errors
/// `Malformed`.
pub fn binary(head: &[u8; 16], rest: &[u8]) -> Result<Introduced, Malformed> {
    // The upper half of byte 13 is the family: 1 for IPv4, 2 for IPv6.
    match (head[12] & 0xf, head[13] >> 4) {
        (0, _) => Ok(Introduced::Itself),
        (1, 1) if rest.len() >= 12 => {
            let source: [u8; 4] = rest[..4].try_into().map_err(|_| Malformed)?;
            Ok(Introduced::Client(Ipv4Addr::from(source).into()))
        }
        (1, 2) if rest.len() >= 36 => {
            let source: [u8; 16] = rest[..16].try_into().map_err(|_| Malformed)?;
            Ok(Introduced::Client(
                IpAddr::from(Ipv6Addr::from(source)).to_canonical(),
            ))
        }
        (1, 0 | 3) => Ok(Introduced::Itself),
        _ => Err(Malformed),
    }
}
