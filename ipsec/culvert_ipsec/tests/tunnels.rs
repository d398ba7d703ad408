//! The packets that pass between a client's tunnels and a gateway, and the life of their SAs.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use culvert_ipsec::address::Prefix;
use culvert_ipsec::counters::Cause;
use culvert_ipsec::selector::Selector;
use culvert_ipsec::trains::Trains;
use culvert_ipsec::tunnels::{Desired, Keyed, Refusal, Tunnels};
use esp::{AdmittedSuite, InboundSa, KeyMaterial, Limits, OutboundSa, Spi, Suite, TrafficClass};
use offload::{Link, Segments, Vnet};

const NONE: Limits = Limits::NONE;
const NOW: Duration = Duration::ZERO;
const CLIENT: [u8; 4] = [10, 99, 0, 2];
const SERVER: [u8; 4] = [10, 20, 0, 10];

fn key(fill: u8) -> KeyMaterial {
    KeyMaterial::new(AdmittedSuite::AES_GCM_256, &[fill; 36]).unwrap()
}

fn inbound(spi: u32, fill: u8) -> Keyed<InboundSa> {
    let (spi, key) = (Spi::new(spi).unwrap(), key(fill));
    let sa = InboundSa::new(spi, &key, true, 1024, NONE, NONE).unwrap();
    Keyed {
        spi,
        fingerprint: key.fingerprint(),
        suite: Suite::AesGcm256,
        esn: true,
        soft: NONE,
        hard: NONE,
        sa,
    }
}

fn outbound(spi: u32, fill: u8, soft: u64, hard: u64) -> Keyed<OutboundSa> {
    let (spi, key) = (Spi::new(spi).unwrap(), key(fill));
    let [soft, hard] = [soft, hard].map(|packets| Limits { packets, ..NONE });
    let sa = OutboundSa::new(spi, &key, true, soft, hard).unwrap();
    Keyed {
        spi,
        fingerprint: key.fingerprint(),
        suite: Suite::AesGcm256,
        esn: true,
        soft,
        hard,
        sa,
    }
}

fn tunnel(id: &str, prefix: &str, outer_port: u16) -> Desired {
    Desired {
        id: id.into(),
        inner: vec![CLIENT.into()],
        remote: vec![Selector::all(Prefix::parse(prefix).unwrap())],
        inbound_only: Vec::new(),
        outer: SocketAddr::from(([198, 51, 100, 2], outer_port)),
        inbound: vec![],
        outbound: None,
    }
}

fn packet(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x45;
    packet[3] = 40;
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&destination);
    packet
}

fn packet6(source: [u8; 16], destination: [u8; 16]) -> Vec<u8> {
    let mut packet = vec![0; 48];
    packet[0] = 0x60;
    packet[5] = 8;
    packet[6] = 59;
    packet[8..24].copy_from_slice(&source);
    packet[24..40].copy_from_slice(&destination);
    packet
}

/// Seals a packet as the gateway does.
fn from_gateway(sa: &mut OutboundSa, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 200];
    let len = sa.seal(inner, &mut out, NOW).unwrap().len;
    out[..len].to_vec()
}

fn send(tunnels: &mut Tunnels, inner: &[u8]) -> Option<(Vec<u8>, SocketAddr)> {
    let out = depart(tunnels, Vnet::default(), inner);
    let train = out.trains().first()?;
    Some((out.packet(train.bytes.clone()).to_vec(), train.to))
}

fn depart(tunnels: &mut Tunnels, header: Vnet, frame: &[u8]) -> Trains {
    let mut out = Trains::new();
    let mut segments = Segments::new(frame, Link::None, &header).unwrap();
    tunnels.outbound(&mut segments, &mut out, 1.0);
    assert_eq!(segments.next_len(), None);
    out
}

fn receive(tunnels: &mut Tunnels, packet: &[u8]) -> Option<Vec<u8>> {
    let mut packet = packet.to_vec();
    tunnels
        .inbound(&mut packet, TrafficClass(0), 1.0)
        .map(|range| packet[range].to_vec())
}

fn dropped(tunnels: &Tunnels, cause: Cause) -> u64 {
    tunnels.totals().drops.get(cause)
}

#[test]
fn the_longest_prefix_takes_the_packet_and_nothing_leaks() {
    let mut tunnels = Tunnels::new();
    let wide = Desired {
        outbound: Some(outbound(1000, 1, 0, 0)),
        ..tunnel("wide", "10.20.0.0/16", 1)
    };
    let host = Desired {
        outbound: Some(outbound(1001, 2, 0, 0)),
        ..tunnel("host", "10.20.0.10/32", 2)
    };
    let closed = tunnel("closed", "10.30.0.0/16", 3);
    tunnels.apply(vec![wide, host, closed], 0.0).unwrap();
    assert_eq!(
        send(&mut tunnels, &packet(CLIENT, SERVER))
            .unwrap()
            .1
            .port(),
        2
    );
    assert_eq!(
        send(&mut tunnels, &packet(CLIENT, [10, 20, 0, 11]))
            .unwrap()
            .1
            .port(),
        1
    );
    assert_eq!(
        send(&mut tunnels, &packet(CLIENT, [10, 30, 0, 1])),
        None,
        "no outbound SA"
    );
    assert_eq!(
        send(&mut tunnels, &packet(CLIENT, [8, 8, 8, 8])),
        None,
        "no tunnel"
    );
    assert_eq!(dropped(&tunnels, Cause::NoPolicy), 2);
    assert_eq!(
        send(&mut tunnels, &packet([10, 99, 0, 3], SERVER)),
        None,
        "not the tunnel's address"
    );
    assert_eq!(dropped(&tunnels, Cause::Selector), 1);
    assert_eq!(send(&mut tunnels, b""), None);
    assert_eq!(dropped(&tunnels, Cause::Malformed), 1);
}

#[test]
fn of_two_tunnels_to_one_host_each_carries_its_own_ports() {
    let mut tunnels = Tunnels::new();
    let to = |id: &str, outer: u16, protocol, ports| {
        let mut state = tunnel(id, "10.20.0.10/32", outer);
        state.remote[0].protocol = protocol;
        state.remote[0].ports = ports;
        state.inbound = vec![inbound(1000 + u32::from(outer), outer as u8)];
        state.outbound = Some(outbound(2000 + u32::from(outer), 100 + outer as u8, 0, 0));
        state
    };
    let mut wide = to("all", 3, None, (0, 65535));
    wide.remote = vec![Selector::all(Prefix::parse("10.20.0.0/16").unwrap())];
    let https = to("https", 1, Some(6), (443, 443));
    let ssh = to("ssh", 2, Some(6), (22, 23));
    tunnels.apply(vec![https, ssh], 0.0).unwrap();
    let segment = |source, destination, protocol: u8, ports: [u8; 4]| {
        let mut segment = packet(source, destination);
        segment[9] = protocol;
        segment[20..24].copy_from_slice(&ports);
        segment
    };
    let by = |tunnels: &mut Tunnels, protocol, port: u16| {
        let [high, low] = port.to_be_bytes();
        let sent = send(
            tunnels,
            &segment(CLIENT, SERVER, protocol, [200, 0, high, low]),
        );
        sent.map(|(_, outer)| outer.port())
    };
    assert_eq!(
        [443, 22, 23, 80].map(|port| by(&mut tunnels, 6, port)),
        [Some(1), Some(2), Some(2), None]
    );
    assert_eq!(by(&mut tunnels, 17, 443), None);
    assert_eq!(dropped(&tunnels, Cause::NoPolicy), 2);
    for (source, passes) in [(443, true), (22, false)] {
        let [high, low] = u16::to_be_bytes(source);
        let answer = segment(SERVER, CLIENT, 6, [high, low, 200, 0]);
        let mut gateway = outbound(1001, 1, 0, 0).sa;
        let skip = if passes { 0 } else { 1 };
        for _ in 0..skip {
            from_gateway(&mut gateway, &answer);
        }
        let received = receive(&mut tunnels, &from_gateway(&mut gateway, &answer));
        assert_eq!(received, passes.then_some(answer));
    }
    assert_eq!(dropped(&tunnels, Cause::Selector), 1);

    let https = to("https", 1, Some(6), (443, 443));
    tunnels.apply(vec![https, wide], 0.0).unwrap();
    assert_eq!(
        [443, 80].map(|port| by(&mut tunnels, 6, port)),
        [Some(1), Some(3)]
    );
}

/// A UDP datagram's fragment: offset in units of 8 bytes.
fn fragment(source: [u8; 4], destination: [u8; 4], id: u8, offset: u8, more: bool) -> Vec<u8> {
    let mut fragment = packet(source, destination);
    fragment[5..10].copy_from_slice(&[id, u8::from(more) << 5, offset, 64, 17]);
    if offset == 0 {
        fragment[20..24].copy_from_slice(&[0, 53, 0, 53]);
    }
    fragment
}

#[test]
fn later_fragments_follow_the_first_of_their_datagram() {
    let mut tunnels = Tunnels::new();
    let mut dns = tunnel("dns", "10.20.0.10/32", 1);
    dns.remote[0].protocol = Some(17);
    dns.remote[0].ports = (53, 53);
    dns.inbound = vec![inbound(1000, 1)];
    dns.outbound = Some(outbound(2000, 2, 0, 0));
    tunnels.apply(vec![dns], 0.0).unwrap();
    let mut gateway = outbound(1000, 1, 0, 0).sa;
    let mut received = |tunnels: &mut Tunnels, inner: &[u8]| {
        receive(tunnels, &from_gateway(&mut gateway, inner)).is_some()
    };

    let to_server = |id, offset, more| fragment(CLIENT, SERVER, id, offset, more);
    let from_server = |id, offset, more| fragment(SERVER, CLIENT, id, offset, more);
    // Before their first, or of another datagram, they have no ports.
    assert!(send(&mut tunnels, &to_server(1, 2, false)).is_none());
    assert!(send(&mut tunnels, &to_server(1, 0, true)).is_some());
    assert!(send(&mut tunnels, &to_server(1, 2, true)).is_some());
    assert!(send(&mut tunnels, &to_server(1, 4, false)).is_some());
    assert!(send(&mut tunnels, &to_server(2, 2, false)).is_none());
    assert!(!received(&mut tunnels, &from_server(1, 2, false)));
    assert!(received(&mut tunnels, &from_server(1, 0, true)));
    assert!(received(&mut tunnels, &from_server(1, 2, false)));
    assert!(!received(&mut tunnels, &from_server(2, 2, false)));

    // A first fragment that is refused lets none follow.
    let mut other_port = to_server(3, 0, true);
    other_port[23] = 54;
    assert!(send(&mut tunnels, &other_port).is_none());
    assert!(send(&mut tunnels, &to_server(3, 2, false)).is_none());
    let mut other_port = from_server(3, 0, true);
    other_port[21] = 54;
    assert!(!received(&mut tunnels, &other_port));
    assert!(!received(&mut tunnels, &from_server(3, 2, false)));
}

#[test]
fn each_family_has_its_own_inner_address() {
    let mut tunnels = Tunnels::new();
    let ours: [u8; 16] = "2001:db8:99::2".parse::<Ipv6Addr>().unwrap().octets();
    let theirs: [u8; 16] = "2001:db8:20::10".parse::<Ipv6Addr>().unwrap().octets();
    let mut state = Desired {
        inbound: vec![inbound(1000, 1)],
        outbound: Some(outbound(1001, 2, 0, 0)),
        ..tunnel("wiki", "10.20.0.10/32", 1)
    };
    state.inner.push(ours.into());
    state
        .remote
        .push(Selector::all(Prefix::parse("2001:db8:20::/64").unwrap()));
    tunnels.apply(vec![state], 0.0).unwrap();
    assert!(send(&mut tunnels, &packet(CLIENT, SERVER)).is_some());
    assert!(send(&mut tunnels, &packet6(ours, theirs)).is_some());
    assert_eq!(send(&mut tunnels, &packet6(theirs, theirs)), None);
    let mut gateway = outbound(1000, 1, 0, 0).sa;
    for (inner, passes) in [
        (packet(SERVER, CLIENT), true),
        (packet6(theirs, ours), true),
        (packet6(theirs, theirs), false),
        (packet6(ours, ours), false),
    ] {
        let received = receive(&mut tunnels, &from_gateway(&mut gateway, &inner));
        assert_eq!(received, passes.then_some(inner));
    }
    assert_eq!(dropped(&tunnels, Cause::Selector), 3);
}

#[test]
fn what_an_sa_may_not_carry_is_dropped_after_decryption() {
    let mut tunnels = Tunnels::new();
    let state = Desired {
        inbound: vec![inbound(1000, 1)],
        ..tunnel("wiki", "10.20.0.10/32", 1)
    };
    tunnels.apply(vec![state], 0.0).unwrap();
    let mut gateway = outbound(1000, 1, 0, 0).sa;
    let good = packet(SERVER, CLIENT);
    assert_eq!(
        receive(&mut tunnels, &from_gateway(&mut gateway, &good)),
        Some(good)
    );
    for inner in [
        packet([10, 20, 0, 11], CLIENT),
        packet(SERVER, [10, 99, 0, 3]),
        packet(SERVER, SERVER),
    ] {
        assert_eq!(
            receive(&mut tunnels, &from_gateway(&mut gateway, &inner)),
            None
        );
    }
    assert_eq!(dropped(&tunnels, Cause::Selector), 3);
    let (_, traffic) = tunnels.traffic().next().unwrap();
    assert_eq!(
        (
            traffic.inbound.packets,
            traffic.inbound.bytes,
            traffic.inbound.last
        ),
        (1, 40, Some(1.0))
    );
    assert_eq!(traffic.drops.get(Cause::Selector), 3);
}

#[test]
fn congestion_is_told_to_who_can_hear_it() {
    let mut tunnels = Tunnels::new();
    let state = Desired {
        inbound: vec![inbound(1000, 1)],
        outbound: Some(outbound(2000, 2, 0, 0)),
        ..tunnel("wiki", "10.20.0.10/32", 1)
    };
    tunnels.apply(vec![state], 0.0).unwrap();
    let mut gateway = outbound(1000, 1, 0, 0).sa;
    let congested = TrafficClass(0b11);
    let mut arrive = |inner_class: u8| {
        let mut inner = packet(SERVER, CLIENT);
        inner[1] = inner_class;
        let mut datagram = from_gateway(&mut gateway, &inner);
        let range = tunnels.inbound(&mut datagram, congested, 1.0)?;
        Some(datagram[range][1])
    };
    assert_eq!(arrive(46 << 2 | 0b10), Some(46 << 2 | 0b11));
    assert_eq!(arrive(46 << 2), None);
    assert_eq!(dropped(&tunnels, Cause::Ecn), 1);

    let mut inner = packet(CLIENT, SERVER);
    inner[1] = 0b1010_0110;
    let sent = depart(&mut tunnels, Vnet::default(), &inner);
    assert_eq!(sent.trains()[0].class, TrafficClass(0b1010_0110));
}

#[test]
fn what_is_not_esp_is_counted_and_ignored() {
    let mut tunnels = Tunnels::new();
    tunnels
        .apply(
            vec![Desired {
                inbound: vec![inbound(1000, 1)],
                ..tunnel("a", "10.20.0.0/16", 1)
            }],
            0.0,
        )
        .unwrap();
    for datagram in [
        &[0xff][..],
        &[0, 0, 0, 0, 1, 2, 3],
        &[],
        &[0xff, 0xff],
        &[0, 0, 3, 0xe8],
        &[0, 0, 3, 0xe9, 0],
    ] {
        assert_eq!(receive(&mut tunnels, datagram), None);
    }
    let totals = tunnels.totals();
    assert_eq!((totals.keepalives_in, totals.non_esp), (1, 1));
    assert_eq!(
        (
            dropped(&tunnels, Cause::Malformed),
            dropped(&tunnels, Cause::UnknownSpi)
        ),
        (3, 1)
    );
}

#[test]
fn rekey_keeps_the_old_inbound_sa_and_what_it_has_seen() {
    let mut tunnels = Tunnels::new();
    let state = |inbound, out| Desired {
        inbound,
        outbound: Some(out),
        ..tunnel("a", "10.20.0.0/16", 1)
    };
    tunnels
        .apply(
            vec![state(vec![inbound(1000, 1)], outbound(2000, 2, 0, 0))],
            0.0,
        )
        .unwrap();
    let (mut old, mut new) = (outbound(1000, 1, 0, 0).sa, outbound(1001, 3, 0, 0).sa);
    let reply = packet(SERVER, CLIENT);
    let first = from_gateway(&mut old, &reply);
    assert!(receive(&mut tunnels, &first).is_some());
    assert!(send(&mut tunnels, &packet(CLIENT, SERVER)).is_some());

    let both = vec![inbound(1000, 1), inbound(1001, 3)];
    tunnels
        .apply(vec![state(both, outbound(2001, 4, 0, 0))], 0.0)
        .unwrap();
    assert!(receive(&mut tunnels, &from_gateway(&mut old, &reply)).is_some());
    assert!(receive(&mut tunnels, &from_gateway(&mut new, &reply)).is_some());
    assert_eq!(receive(&mut tunnels, &first), None);
    assert_eq!(dropped(&tunnels, Cause::Replay), 1);
    let (sent, _) = send(&mut tunnels, &packet(CLIENT, SERVER)).unwrap();
    assert_eq!(
        (&sent[..4], &sent[4..8]),
        (&2001u32.to_be_bytes()[..], &1u32.to_be_bytes()[..])
    );

    tunnels
        .apply(
            vec![state(vec![inbound(1001, 3)], outbound(2001, 4, 0, 0))],
            0.0,
        )
        .unwrap();
    assert_eq!(receive(&mut tunnels, &from_gateway(&mut old, &reply)), None);
    assert_eq!(dropped(&tunnels, Cause::UnknownSpi), 1);
    assert_eq!(tunnels.traffic().next().unwrap().1.inbound.packets, 3);

    tunnels
        .apply(
            vec![state(vec![inbound(1000, 1)], outbound(2000, 2, 0, 0))],
            0.0,
        )
        .unwrap();
    let (sent, _) = send(&mut tunnels, &packet(CLIENT, SERVER)).unwrap();
    assert_eq!(
        sent[4..8],
        2u32.to_be_bytes(),
        "the first key goes on, it does not start again"
    );
    assert_eq!(receive(&mut tunnels, &first), None);
    assert_eq!(dropped(&tunnels, Cause::Replay), 2);
}

#[test]
fn a_soft_limit_is_told_once_and_a_hard_one_ends_the_sa() {
    let mut tunnels = Tunnels::new();
    let state = || Desired {
        outbound: Some(outbound(1000, 1, 2, 600)),
        ..tunnel("a", "10.20.0.0/16", 1)
    };
    tunnels.apply(vec![state()], 0.0).unwrap();
    let mut told = vec![];
    for _ in 0..610 {
        send(&mut tunnels, &packet(CLIENT, SERVER));
        tunnels.apply(vec![state()], 0.0).unwrap();
        told.extend(tunnels.take_notices());
    }
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].tunnel.as_str(), told[0].spi, told[0].inbound),
        ("a", 1000, false)
    );
    assert_eq!(dropped(&tunnels, Cause::HardLimit), 10);
}

#[test]
fn a_silent_tunnel_sends_a_keepalive() {
    let mut tunnels = Tunnels::new();
    assert_eq!(tunnels.deadline(), None);
    tunnels
        .apply(
            vec![Desired {
                outbound: Some(outbound(1000, 1, 0, 0)),
                ..tunnel("a", "10.20.0.0/16", 1)
            }],
            5.0,
        )
        .unwrap();
    assert_eq!(tunnels.deadline(), Some(25.0));
    assert_eq!(tunnels.due_keepalives(24.0), []);
    assert_eq!(tunnels.due_keepalives(25.0).len(), 1);
    assert_eq!(tunnels.due_keepalives(26.0), []);
    assert_eq!(tunnels.deadline(), Some(45.0));
}

#[test]
fn a_refused_state_changes_nothing() {
    let mut tunnels = Tunnels::new();
    let good = || Desired {
        outbound: Some(outbound(1000, 1, 0, 0)),
        ..tunnel("a", "10.20.0.0/16", 1)
    };
    tunnels.apply(vec![good()], 0.0).unwrap();
    let refusals = [
        (vec![good(), good()], Refusal::DuplicateTunnel("a".into())),
        (
            vec![Desired {
                inbound: vec![inbound(1000, 1), inbound(1000, 2)],
                ..good()
            }],
            Refusal::DuplicateSpi(1000),
        ),
        (
            vec![Desired {
                inbound: vec![inbound(1000, 1)],
                ..good()
            }],
            Refusal::SharedKey,
        ),
    ];
    for (desired, refusal) in refusals {
        assert_eq!(tunnels.apply(desired, 0.0), Err(refusal));
    }
    assert!(send(&mut tunnels, &packet(CLIENT, SERVER)).is_some());
}

#[test]
fn a_key_under_another_algorithm_is_another_sa_and_goes_on() {
    let mut tunnels = Tunnels::new();
    let with = |esn: bool| {
        let mut keyed = outbound(1000, 1, 0, 0);
        keyed.esn = esn;
        keyed.sa = OutboundSa::new(keyed.spi, &key(1), esn, NONE, NONE).unwrap();
        Desired {
            outbound: Some(keyed),
            ..tunnel("a", "10.20.0.0/16", 1)
        }
    };
    let mut sent = Vec::new();
    for esn in [true, false, true] {
        tunnels.apply(vec![with(esn)], 0.0).unwrap();
        sent.push(send(&mut tunnels, &packet(CLIENT, SERVER)).unwrap().0);
    }
    let numbers: Vec<u8> = sent.iter().map(|datagram| datagram[7]).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let mut reader =
        InboundSa::new(Spi::new(1000).unwrap(), &key(1), false, 1024, NONE, NONE).unwrap();
    assert!(reader.open(&mut sent[1].clone(), Duration::ZERO).is_ok());
    assert!(reader.open(&mut sent[2].clone(), Duration::ZERO).is_err());
}

/// A TCP super-frame of `payload` bytes, to be cut at `size`.
fn super_frame(source: [u8; 4], size: u16, payload: usize) -> (Vnet, Vec<u8>) {
    let mut frame = packet(source, SERVER);
    frame.extend(vec![7; payload]);
    let len = frame.len() as u16;
    frame[2..4].copy_from_slice(&len.to_be_bytes());
    frame[9] = 6;
    frame[32] = 5 << 4;
    let header = Vnet {
        flags: Vnet::NEEDS_CSUM,
        gso_type: Vnet::GSO_TCPV4,
        hdr_len: 40,
        gso_size: size,
        csum_start: 20,
        csum_offset: 16,
    };
    (header, frame)
}

#[test]
fn a_super_frame_leaves_as_trains_of_packets_that_count_each() {
    let mut tunnels = Tunnels::new();
    let state = Desired {
        outbound: Some(outbound(1000, 1, 0, 0)),
        ..tunnel("a", "10.20.0.0/16", 1)
    };
    tunnels.apply(vec![state], 0.0).unwrap();
    let (header, frame) = super_frame(CLIENT, 1398, 46 * 1398 + 100);
    let out = depart(&mut tunnels, header, &frame);
    let packets: Vec<_> = out.trains().iter().map(|train| train.packets()).collect();
    // 65,507 bytes hold 44 ESP packets of 1,472.
    assert_eq!(packets, [44, 3]);

    let mut reader = inbound(1000, 1).sa;
    let mut payload = 0;
    for packet in out.trains().iter().flat_map(|train| train.each()) {
        let mut datagram = out.packet(packet.bytes).to_vec();
        payload += reader.open(&mut datagram, NOW).unwrap().range.len() - 40;
    }
    assert_eq!(payload, 46 * 1398 + 100);
    let (_, traffic) = tunnels.traffic().next().unwrap();
    assert_eq!(traffic.outbound.packets, 47);
    assert_eq!(traffic.outbound.bytes as usize, payload + 47 * 40);
}

#[test]
fn what_a_super_frame_loses_is_counted_in_packets() {
    let mut tunnels = Tunnels::new();
    let state = Desired {
        outbound: Some(outbound(1000, 1, 0, 4)),
        ..tunnel("a", "10.20.0.0/16", 1)
    };
    tunnels.apply(vec![state], 0.0).unwrap();
    let (header, stray) = super_frame([10, 99, 0, 3], 1000, 2500);
    assert!(depart(&mut tunnels, header, &stray).trains().is_empty());
    assert_eq!(dropped(&tunnels, Cause::Selector), 3);
    let (header, frame) = super_frame(CLIENT, 1000, 10_000);
    let out = depart(&mut tunnels, header, &frame);
    assert_eq!(out.trains()[0].packets(), 4);
    assert_eq!(dropped(&tunnels, Cause::HardLimit), 6);
}
