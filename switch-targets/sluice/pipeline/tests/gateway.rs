//! The gateway program end to end, as its peers on the wire see it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod gateway_lab;

use gateway_lab::*;
use sluice_pipeline::{
    CounterValue, EntryAction, ExternRegistry, LoadError, Outcome, Program, Switch, TableError,
};

#[track_caller]
fn only(out: &Outcome, port: u16) -> &[u8] {
    assert_eq!(out.sent.len(), 1, "{out:?}");
    assert!(!out.dropped);
    assert_eq!(out.sent[0].port, port);
    &out.sent[0].bytes
}

fn tcp() -> Vec<u8> {
    let mut segment = vec![0; 20];
    segment[..4].copy_from_slice(&[0x1f, 0x90, 0xc0, 0x00]);
    segment.extend_from_slice(b"hello");
    segment
}

#[test]
fn arp_for_its_own_address_is_answered() {
    let mut gateway = gateway();
    let ask = |target: u32| {
        let head = [0, 1, 8, 0, 6, 4, 0, 1];
        let arp = [
            &head[..],
            &mac(0x0a),
            &PEER.to_be_bytes(),
            &[0; 6],
            &target.to_be_bytes(),
            &[0; 18],
        ]
        .concat();
        ethernet(0xffff_ffff_ffff, 0x0a, 0x0806, &arp)
    };
    let out = gateway.process(WAN, &ask(GATEWAY));
    let head = [0, 1, 8, 0, 6, 4, 0, 2];
    let answer = [
        &head[..],
        &mac(WAN_MAC),
        &GATEWAY.to_be_bytes(),
        &mac(0x0a),
        &PEER.to_be_bytes(),
        &[0; 18],
    ]
    .concat();
    assert_eq!(only(&out, WAN), ethernet(0x0a, WAN_MAC, 0x0806, &answer));
    assert!(gateway.process(WAN, &ask(GATEWAY + 1)).dropped);
    assert_eq!(gateway.drops(), [(19, 1)]);
}

#[test]
fn lan_to_peer_is_sealed_and_routed() {
    let mut gateway = gateway();
    let out = gateway.process(LAN, &from_web(INNER, 64, &tcp()));
    let inner = ipv4(WEB, INNER, 6, 63, &tcp());
    let sealed = [&SPI.to_be_bytes()[..], &[0, 0, 0, 1, 0], &inner].concat();
    let mut outer = ipv4(GATEWAY, PEER, 17, 64, &udp(4500, 40000, &sealed));
    // The engine's packets have no id and are not fragmented.
    outer[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
    outer[10..12].fill(0);
    let sum = checksum(&outer[..20]);
    outer[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(
        only(&out, WAN),
        ethernet(0x0200_0000_0102, WAN_MAC, 0x0800, &outer)
    );
    assert!(gateway.drops().is_empty());
    let key = gateway.key("sad_out", &[SA_OUT.into()]);
    assert_eq!(
        gateway.direct("sad_out", &key, 0),
        CounterValue {
            packets: 1,
            bytes: inner.len() as u64
        }
    );
}

#[test]
fn peer_to_lan_is_opened_and_routed() {
    let mut gateway = gateway();
    let inner = ipv4(INNER, WEB, 6, 64, &tcp());
    let expected = ethernet(WEB_MAC, LAN_MAC, 0x0800, &ipv4(INNER, WEB, 6, 63, &tcp()));
    let out = gateway.process(WAN, &esp_in_udp(&esp(SPI, 0, &inner)));
    assert_eq!(only(&out, LAN), expected);
    let plain = ethernet(
        WAN_MAC,
        2,
        0x0800,
        &ipv4(PEER, GATEWAY, 50, 64, &esp(SPI, 0, &inner)),
    );
    let out = gateway.process(WAN, &[plain.as_slice(), &[0; 12]].concat());
    assert_eq!(
        only(&out, LAN),
        expected,
        "link padding must not reach the engine"
    );
    let key = gateway.key("sad_in", &[mapped(GATEWAY), SPI.into()]);
    assert_eq!(gateway.direct("sad_in", &key, 0).packets, 2);
    assert!(gateway.drops().is_empty());
}

#[test]
fn every_drop_is_counted_under_its_cause() {
    let inner = || ipv4(INNER, WEB, 6, 64, &tcp());
    let opened = |verdict: u8, inner: &[u8]| esp_in_udp(&esp(SPI, verdict, inner));
    let mut bad_sum = from_web(INNER, 64, &tcp());
    bad_sum[14 + 10] ^= 1;
    let mut fragment = opened(0, &inner());
    fragment[14 + 6] |= 0x20;
    let sum = |packet: &mut Vec<u8>| {
        packet[24..26].fill(0);
        let sum = checksum(&packet[14..34]);
        packet[24..26].copy_from_slice(&sum.to_be_bytes());
    };
    sum(&mut fragment);
    let cases: Vec<(usize, u16, Vec<u8>)> = vec![
        (1, LAN, bad_sum),
        (1, LAN, from_web(INNER, 64, &tcp())[..30].to_vec()),
        (1, LAN, vec![]),
        (2, 3, from_web(INNER, 64, &tcp())),
        (3, WAN, fragment),
        (4, WAN, esp_in_udp(&[0, 0, 0, 0, 1, 2, 3, 4])),
        (4, WAN, esp_in_udp(&[0xff])),
        (5, WAN, esp_in_udp(&esp(SPI + 1, 0, &inner()))),
        (6, WAN, opened(2, &inner())),
        (6, WAN, opened(0, b"not an IP packet at all")),
        (7, WAN, opened(3, &inner())),
        (8, WAN, opened(4, &inner())),
        (9, WAN, opened(5, &inner())),
        (10, WAN, opened(6, &inner())),
        (11, WAN, opened(7, &inner())),
        (12, WAN, opened(0, &ipv4(INNER + 1, WEB, 6, 64, &tcp()))),
        (12, WAN, opened(0, &ipv4(INNER, WEB + 1, 6, 64, &tcp()))),
        (13, LAN, from_web(INNER + 1, 64, &tcp())),
        // This packet comes in clear from the WAN: a tunnel's policy permits it only out of the tunnel.
        (
            13,
            WAN,
            ethernet(WAN_MAC, WEB_MAC, 0x0800, &ipv4(INNER, WEB, 6, 64, &tcp())),
        ),
        (15, LAN, from_web(INNER, 1, &tcp())),
        (15, WAN, opened(0, &ipv4(INNER, WEB, 6, 1, &tcp()))),
        (18, LAN, ethernet(LAN_MAC, WEB_MAC, 0x88cc, &[0; 40])),
        (20, WAN, from_web(INNER, 64, &tcp())),
    ];
    for (cause, port, packet) in cases {
        let mut gateway = gateway();
        let out = gateway.process(port, &packet);
        assert!(out.dropped && out.sent.is_empty(), "cause {cause}: {out:?}");
        assert_eq!(gateway.drops(), [(cause, 1)]);
    }
}

#[test]
fn digests_carry_what_happened() {
    let mut gateway = gateway();
    let names = |gateway: &Gateway, out: &Outcome| -> Vec<(String, Vec<u128>)> {
        let values = |digest: &sluice_pipeline::Digest| {
            digest.values.iter().map(|value| value.low_u128()).collect()
        };
        let name = |digest: &sluice_pipeline::Digest| {
            gateway.switch.program().digests()[digest.digest.0]
                .name
                .clone()
        };
        out.digests
            .iter()
            .map(|digest| (name(digest), values(digest)))
            .collect()
    };
    let out = gateway.process(WAN, &esp_in_udp(&esp(0xbad, 0, &[0; 40])));
    let bad_spi = vec![mapped(GATEWAY), 0xbad, mapped(PEER)];
    assert_eq!(names(&gateway, &out), [("bad_spi_t".to_owned(), bad_spi)]);

    let out = gateway.process(
        WAN,
        &esp_in_udp(&esp(SPI, 1, &ipv4(INNER, WEB, 6, 64, &tcp()))),
    );
    assert_eq!(
        names(&gateway, &out),
        [("soft_limit_t".to_owned(), vec![SA_IN.into(), 0])]
    );
    assert_eq!(only(&out, LAN).len(), 14 + 20 + tcp().len());

    let key = gateway.key("sad_out", &[SA_OUT.into()]);
    gateway
        .switch
        .delete(gateway.table("sad_out"), &key, 0)
        .unwrap();
    let out = gateway.process(LAN, &from_web(INNER, 64, &tcp()));
    assert_eq!(
        names(&gateway, &out),
        [("acquire_t".to_owned(), vec![SA_OUT.into()])]
    );
    assert!(out.dropped);
    assert_eq!(gateway.drops(), [(5, 1), (14, 1)]);
}

#[test]
fn a_wide_argument_reaches_the_extern_whole() {
    let mut gateway = gateway();
    let key = gateway.key("sad_out", &[SA_OUT.into()]);
    // The toy engine takes its verdict, "key", from the last of 72 bytes.
    let entry = gateway.entry("sad_out", key, 0, "seal", &seal(SPI, PEER, 7));
    gateway
        .switch
        .modify(gateway.table("sad_out"), entry)
        .unwrap();
    assert!(gateway.process(LAN, &from_web(INNER, 64, &tcp())).dropped);
    assert_eq!(gateway.drops(), [(11, 1)]);
}

#[test]
fn the_control_plane_reads_what_it_wrote() {
    let mut gateway = gateway();
    let table = gateway.table("sad_in");
    let entries: Vec<_> = gateway
        .switch
        .entries(table)
        .map(|view| (view.entry.clone(), view.counter))
        .collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].1, Some(CounterValue::default()));
    let entry = entries[0].0.clone();
    assert_eq!(
        gateway.switch.insert(table, entry.clone()),
        Err(TableError::Exists)
    );
    gateway.switch.delete(table, &entry.key, 0).unwrap();
    assert_eq!(
        gateway.switch.delete(table, &entry.key, 0),
        Err(TableError::NotFound)
    );
    assert_eq!(
        gateway.switch.modify(table, entry.clone()),
        Err(TableError::NotFound)
    );
    let EntryAction::Run(foreign) = gateway.entry("route", vec![], 0, "via", &[1]).action else {
        panic!("a plain table");
    };
    let wrong = sluice_pipeline::Entry {
        action: foreign.clone().into(),
        ..entry
    };
    assert!(matches!(
        gateway.switch.insert(table, wrong),
        Err(TableError::BadAction { .. })
    ));
    assert_eq!(
        gateway.switch.set_default(table, foreign),
        Err(TableError::ConstDefault)
    );
    let dummy = gateway
        .switch
        .program()
        .tables()
        .iter()
        .position(|table| table.keys.is_empty())
        .unwrap();
    assert_eq!(
        gateway
            .switch
            .entries(sluice_pipeline::TableId(dummy))
            .count(),
        0
    );
}

#[test]
fn a_full_table_refuses_and_a_freed_place_is_used_again() {
    let mut gateway = empty_gateway();
    let table = gateway.table("port_role");
    let size = gateway.switch.program().tables()[table.0].size;
    for number in 0..size as u128 {
        gateway.add(
            "port_role",
            &[number % 512, number / 512],
            "set_lan",
            &[1, 0],
        );
    }
    assert_eq!(gateway.switch.entries(table).count(), size);
    let key = gateway.key("port_role", &[3, 0]);
    gateway.switch.delete(table, &key, 0).unwrap();
    gateway.add("port_role", &[3, 0], "set_wan", &[1, 0]);
    assert_eq!(gateway.switch.entries(table).count(), size);
}

#[test]
fn externs_that_do_not_fit_are_refused_at_load() {
    let load =
        |registry: &ExternRegistry| Switch::new(Program::load(&json()).unwrap(), registry).err();
    let Some(LoadError { place, cause }) = load(&ExternRegistry::new()) else {
        panic!("loaded without its engine")
    };
    assert!(place.starts_with("extern_instances["), "{place}");
    assert!(cause.contains("is not registered"), "{cause}");
    let mut failing = registry();
    failing.register("EspEngine", |_, _| Err("no key-encryption key".to_owned()));
    assert!(
        load(&failing)
            .unwrap()
            .to_string()
            .contains("no key-encryption key")
    );
}
