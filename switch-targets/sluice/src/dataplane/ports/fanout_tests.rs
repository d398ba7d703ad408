//! Two threads' ports on one end of a veth pair, in a network namespace of its own.
//!
//! ```text
//!   frames of many flows ─► near ════ far ─┬─► thread 0
//!                                          └─► thread 1
//! ```
#![allow(clippy::unwrap_used, unsafe_code)]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use offload::{fold, sum};

use super::PortArg;
use super::{Outgoing, Port, open};

const FLOWS: u16 = 64;
const ROUNDS: u32 = 20;
/// Datagrams of a row that may go out as a super-frame.
const ROW: u32 = 5;
/// The payload's offset in a frame.
const PAYLOAD: usize = 42;

/// False without the right to.
fn own_namespace() -> bool {
    // SAFETY: no pointers; it concerns this thread alone.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(done.success(), "ip {words}");
}

fn wire() {
    ip("link add near type veth peer name far");
    ip("link set near up");
    ip("link set far up");
}

fn ports(interface: &str, threads: usize, xdp: bool) -> Vec<Port> {
    let port = PortArg {
        number: 1,
        interface: interface.to_owned(),
        xdp,
    };
    let opened = open(&[port], true, threads).unwrap();
    opened.into_iter().flatten().collect()
}

/// An ESP-in-UDP datagram without a checksum: several in a row become a super-frame.
fn datagram(flow: u16, number: u32) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 128, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    let checksum = !fold(sum(&frame[14..]));
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame.extend((1000 + flow).to_be_bytes());
    frame.extend([0x11, 0x94, 0, 108, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(14 + 128, 0);
    frame
}

/// Flow and number of each datagram that has come.
fn received(port: &mut Port) -> Vec<(u16, u32)> {
    let mut came = Vec::new();
    while port.receive(Instant::now(), 64, |frame| {
        // The kernel announces the interface too.
        if frame.len() == 142 {
            let flow = u16::from_be_bytes([frame[34], frame[35]]) - 1000;
            let number = frame[PAYLOAD..].first_chunk().unwrap();
            came.push((flow, u32::from_be_bytes(*number)));
        }
    }) > 0
    {}
    came
}

fn send(port: &mut Port, datagrams: impl Iterator<Item = (u16, u32)>) {
    let mut outgoing = Outgoing::default();
    datagrams.for_each(|(flow, number)| outgoing.push(&mut datagram(flow, number)));
    port.send(&mut outgoing);
}

/// Sends all flows' datagrams. Returns the datagrams' numbers that came to each thread, by flow.
fn dealt(near: &mut Port, far: &mut [Port]) -> Vec<BTreeMap<u16, Vec<u32>>> {
    let mut came = vec![BTreeMap::<u16, Vec<u32>>::new(); far.len()];
    for round in 0..ROUNDS {
        let row = |flow| (round * ROW..(round + 1) * ROW).map(move |number| (flow, number));
        send(near, (0..FLOWS).flat_map(row));
        for (port, came) in far.iter_mut().zip(&mut came) {
            for (flow, number) in received(port) {
                came.entry(flow).or_default().push(number);
            }
        }
    }
    came
}

fn assert_fair(came: &[BTreeMap<u16, Vec<u32>>]) {
    let all: Vec<u32> = (0..ROUNDS * ROW).collect();
    for flow in 0..FLOWS {
        let at: Vec<_> = came.iter().filter_map(|thread| thread.get(&flow)).collect();
        assert_eq!(at, [&all], "flow {flow}");
    }
    assert!(came.iter().all(|thread| thread.len() > FLOWS as usize / 8));
}

#[test]
fn a_flow_stays_with_its_thread_and_many_are_spread() {
    if !own_namespace() {
        return;
    }
    wire();
    let mut near = ports("near", 1, false).remove(0);
    let mut far = ports("far", 2, false);
    assert_fair(&dealt(&mut near, &mut far));
    let stats = far.iter_mut().map(Port::take_stats);
    let [left, right] = stats.collect::<Vec<_>>().try_into().unwrap();
    assert!(left.received_super_frames > 0 && right.received_super_frames > 0);
    assert_eq!((left.missed, right.missed), (0, 0));
    // Another process has the same interface.
    let mut others = ports("far", 2, false);
    assert_fair(&dealt(&mut near, &mut far));
    assert!(others.iter().all(|port| !port.is_empty()));
    others.clear();

    // The frames that a thread sends come back to none.
    send(&mut far[0], [(7, 7)].into_iter());
    assert!(far.iter_mut().all(|port| received(port).is_empty()));
    assert_eq!(received(&mut near), [(7, 7)]);

    ip("link delete near");
    let now = Instant::now();
    let mut all: Vec<_> = [&mut near].into_iter().chain(&mut far).collect();
    all.iter_mut().for_each(|port| port.check(now));
    assert!(all.iter().all(|port| port.fd().is_none()));
    wire();
    for port in &mut all {
        port.refresh(now + Duration::from_secs(1));
        assert!(port.fd().is_some());
    }
    drop(all);
    assert_fair(&dealt(&mut near, &mut far));
}

#[test]
fn every_thread_sends_where_one_receives() {
    if !own_namespace() {
        return;
    }
    wire();
    let mut near = ports("near", 1, false).remove(0);
    let mut far = ports("far", 2, true);
    let came = dealt(&mut near, &mut far);
    assert_eq!([came[0].len(), came[1].len()], [0, FLOWS as usize]);
    for port in &mut far {
        send(port, [(7, 7)].into_iter());
        assert_eq!(port.take_stats().sent.frames, 1);
    }
    assert_eq!(received(&mut near), [(7, 7), (7, 7)]);
}
