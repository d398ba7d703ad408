//! Copies of a packet: clone sessions that cut it, multicast groups.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use sluice_pipeline::{
    ActionCall, Bits, Entry, ExternRegistry, MatchValue, Outcome, Program, Replica, Switch,
};

const JSON: &[u8] = include_bytes!("../../tests/programs/exchange.json");
const CPU_PORT: u16 = 510;
/// Bytes of the packet_in header, which egress puts in front of what goes to the CPU port.
const PACKET_IN: usize = 2;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

fn switch(action: &str, args: &[(u32, u128)]) -> Switch {
    let program = Program::load(JSON).unwrap();
    let table = program.table("Forward.forward").unwrap();
    let action = program.action(table, action).unwrap();
    let mut switch = Switch::new(program, &ExternRegistry::new()).unwrap();
    let args = args
        .iter()
        .map(|(width, value)| Bits::from_u128(*width, *value));
    let action = ActionCall {
        action,
        args: args.collect(),
    };
    let key = vec![MatchValue::Exact(Bits::from_u128(48, 1))];
    let entry = Entry {
        key,
        priority: 0,
        action: action.into(),
    };
    switch.insert(table, entry).unwrap();
    switch
}

/// The packets that are sent for a frame of 100 bytes, in order.
fn sent(switch: &mut Switch) -> Vec<(u16, Vec<u8>)> {
    let mut frame: Vec<u8> = (0..100).collect();
    frame[..6].copy_from_slice(&[0, 0, 0, 0, 0, 1]);
    let mut outcome = Outcome::new();
    switch.process(1, &frame, Duration::ZERO, &mut outcome);
    let sent = outcome.sent.iter();
    sent.map(|sent| (sent.port, sent.bytes.clone())).collect()
}

#[test]
fn a_clone_is_cut_before_egress_adds_to_it() {
    let replica = Replica {
        port: CPU_PORT,
        instance: 0,
    };
    for (limit, length) in [
        (None, PACKET_IN + 100),
        (Some(1000), PACKET_IN + 100),
        (Some(40), PACKET_IN + 40),
        (Some(ETHERNET), PACKET_IN + ETHERNET),
        (Some(5), 5),
    ] {
        let mut switch = switch("Forward.mirror", &[(9, 2), (32, 7)]);
        switch.set_clone_session(7, vec![replica], limit);
        let sent = sent(&mut switch);
        assert_eq!(
            (sent[0].0, sent[0].1.len()),
            (2, 100),
            "the original is whole"
        );
        assert_eq!(
            (sent[1].0, sent[1].1.len()),
            (CPU_PORT, length),
            "{limit:?}"
        );
    }
}

#[test]
fn a_group_copies_and_one_that_does_not_exist_drops() {
    let mut switch = switch("Forward.to_group", &[(16, 3)]);
    assert_eq!(sent(&mut switch), []);
    let replica = |port| Replica { port, instance: 1 };
    switch.set_multicast_group(3, vec![replica(1), replica(2)]);
    let ports: Vec<u16> = sent(&mut switch).iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, [1, 2]);
    switch.set_multicast_group(3, Vec::new());
    assert_eq!(sent(&mut switch), []);
}
