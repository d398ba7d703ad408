//! The PROXY protocol's two versions, as load balancers send them, and malformed ones.

#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use culvert_admission::proxy_protocol::{
    Introduced, Malformed, REST_MAX, SIGNATURE, binary, line, rest,
};

fn client(text: &str) -> Result<Introduced, Malformed> {
    Ok(Introduced::Client(text.parse::<IpAddr>().unwrap()))
}

#[test]
fn a_line_tells_the_client() {
    assert_eq!(
        line(b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443"),
        client("192.0.2.7")
    );
    assert_eq!(
        line(b"PROXY TCP6 2001:db8::7 2001:db8::1 56324 443"),
        client("2001:db8::7")
    );
    assert_eq!(
        line(b"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2"),
        client("192.0.2.7")
    );
    assert_eq!(line(b"PROXY UNKNOWN"), Ok(Introduced::Itself));
    assert_eq!(line(b"PROXY UNKNOWN ff:: ff:: 1 2"), Ok(Introduced::Itself));
}

#[test]
fn a_malformed_line_is_refused() {
    for wrong in [
        &b""[..],
        b"PROXY",
        b"PROXY TCP4 192.0.2.7",
        b"PROXY TCP4 2001:db8::7 2001:db8::1 1 2",
        b"PROXY TCP6 192.0.2.7 192.0.2.1 1 2",
        b"PROXY TCP4 192.0.2.7 192.0.2.1 1 65536",
        b"PROXY TCP4  192.0.2.7 192.0.2.1 1 2",
        b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2 3",
        b"PROXY UDP4 192.0.2.7 192.0.2.1 1 2",
        b"\xff\xfe",
    ] {
        assert_eq!(line(wrong), Err(Malformed), "{wrong:?}");
    }
}

fn head(command: u8, family: u8, length: u16) -> [u8; 16] {
    let mut head = [0; 16];
    head[..12].copy_from_slice(&SIGNATURE);
    head[12] = command;
    head[13] = family;
    head[14..].copy_from_slice(&length.to_be_bytes());
    head
}

#[test]
fn version_2_tells_the_client_and_may_have_extensions() {
    let ipv4 = [192, 0, 2, 7, 198, 51, 100, 1, 1, 2, 3, 4, 0x20, 0, 0];
    assert_eq!(rest(&head(0x21, 0x11, 15)), Ok(15));
    assert_eq!(binary(&head(0x21, 0x11, 15), &ipv4), client("192.0.2.7"));
    let mut ipv6 = [0; 36];
    ipv6[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    ipv6[15] = 7;
    assert_eq!(binary(&head(0x21, 0x21, 36), &ipv6), client("2001:db8::7"));
    assert_eq!(binary(&head(0x20, 0, 0), &[]), Ok(Introduced::Itself));
    assert_eq!(
        binary(&head(0x21, 0x31, 216), &[0; 216]),
        Ok(Introduced::Itself)
    );
}

#[test]
fn malformed_version_2_is_refused() {
    assert_eq!(rest(&head(0x11, 0x11, 12)), Err(Malformed));
    assert_eq!(rest(&head(0x22, 0x11, 12)), Err(Malformed));
    assert_eq!(rest(&head(0x21, 0x11, REST_MAX as u16 + 1)), Err(Malformed));
    assert_eq!(rest(&[0; 16]), Err(Malformed));
    assert_eq!(binary(&head(0x21, 0x11, 11), &[0; 11]), Err(Malformed));
    assert_eq!(binary(&head(0x21, 0x21, 35), &[0; 35]), Err(Malformed));
    assert_eq!(binary(&head(0x21, 0x41, 0), &[]), Err(Malformed));
}
