//! Splitting and merging undo each other, and every packet that comes out is one that a host would take.
#![allow(clippy::unwrap_used)]

mod wire;

use offload::{Merger, Segmentation, Segments, VnetHeader};
use proptest::prelude::*;
use wire::{ACK, CWR, FIN, Flow, PSH, Tcp, assert_valid, flow_of, tcp, udp_super_frame};

/// Frames of header and bytes, as the kernel would be given them.
fn merged(packets: &[Vec<u8>]) -> Vec<(VnetHeader, Vec<u8>)> {
    let mut buffer = vec![0xee; 7];
    let mut merger = Merger::new();
    merger.clear();
    let mut ranges = vec![];
    for packet in packets {
        ranges.push(buffer.len()..buffer.len() + packet.len());
        buffer.extend(packet);
    }
    for range in ranges {
        merger.push(&buffer, range);
    }
    merger.finish(&mut buffer);
    let bytes = |parts: &[std::ops::Range<usize>]| {
        parts
            .iter()
            .flat_map(|part| buffer[part.clone()].to_vec())
            .collect()
    };
    merger
        .frames()
        .map(|frame| (frame.header, bytes(frame.parts)))
        .collect()
}

fn split(header: VnetHeader, frame: &[u8]) -> Vec<Vec<u8>> {
    let header = VnetHeader::parse(&header.emit()).unwrap();
    let mut segments = Segments::new(header, frame).unwrap();
    let expected = segments.remaining();
    let mut packets = vec![];
    while let Some(len) = segments.next_len() {
        let mut room = vec![0xaa; len + 3];
        assert_eq!(
            segments.write_next(&mut room[..len - 1]),
            None,
            "no room, nothing lost"
        );
        assert_eq!(segments.write_next(&mut room), Some(len));
        room.truncate(len);
        packets.push(room);
    }
    assert_eq!((packets.len(), segments.remaining()), (expected, 0));
    packets
}

/// What happens next to a flow.
#[derive(Clone, Copy, Debug)]
enum Event {
    Data(usize),
    Ending(u8, usize),
    PureAck,
    Flag(u8),
    Lost,
    Jump,
    Window,
    Class(u8),
    Damaged(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => Just(Event::Data(1398)),
        2 => (1..1398usize).prop_map(Event::Data),
        1 => (prop::sample::select(vec![PSH, FIN, PSH | FIN]), 1..1398usize).prop_map(|(flags, len)| Event::Ending(flags, len)),
        1 => Just(Event::PureAck),
        1 => prop::sample::select(vec![0x02, 0x04, 0x20, 0x40, CWR]).prop_map(Event::Flag),
        1 => Just(Event::Lost),
        1 => Just(Event::Jump),
        1 => Just(Event::Window),
        1 => (0..4u8).prop_map(Event::Class),
        1 => any::<prop::sample::Index>().prop_map(|at| Event::Damaged(at.index(1398))),
    ]
}

fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let flows = prop::collection::vec((any::<bool>(), any::<bool>(), 0..=10usize), 1..12);
    let events = prop::collection::vec((any::<prop::sample::Index>(), event()), 0..120);
    (flows, events).prop_map(|(flows, events)| {
        let mut flows: Vec<Flow> = flows
            .into_iter()
            .enumerate()
            .map(|(port, (v6, atomic, words))| Flow::new(v6, atomic, port as u16, words))
            .collect();
        events
            .into_iter()
            .map(|(which, event)| {
                let count = flows.len();
                let flow = &mut flows[which.index(count)];
                match event {
                    Event::Data(len) => flow.next(ACK, len),
                    Event::Ending(flags, len) => flow.next(ACK | flags, len),
                    Event::PureAck => flow.next(ACK, 0),
                    Event::Flag(flag) => flow.next(ACK | flag, 100),
                    Event::Lost => {
                        flow.next(ACK, 500);
                        flow.next(ACK, 500)
                    }
                    Event::Jump => {
                        flow.tcp.id = flow.tcp.id.wrapping_add(7);
                        flow.next(ACK, 1398)
                    }
                    Event::Window => {
                        flow.tcp.window ^= 1;
                        flow.next(ACK, 1398)
                    }
                    Event::Class(class) => {
                        flow.tcp.class = class;
                        flow.next(ACK, 1398)
                    }
                    Event::Damaged(at) => {
                        let mut packet = flow.next(ACK, 1398);
                        packet[60 + at % 1000] ^= 0x10;
                        packet
                    }
                }
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn what_is_merged_splits_into_what_it_was(packets in packets()) {
        let frames = merged(&packets);
        let again: Vec<_> = frames.iter().flat_map(|(header, frame)| split(*header, frame)).collect();
        prop_assert_eq!(again.len(), packets.len());
        for port in 0..12 {
            let of = |all: &[Vec<u8>]| all.iter().filter(|packet| flow_of(packet) == port).cloned().collect::<Vec<_>>();
            prop_assert_eq!(of(&again), of(&packets), "flow {} in order", port);
        }
    }

    #[test]
    fn what_is_split_merges_into_what_it_was(
        v6 in any::<bool>(), atomic in any::<bool>(), options in 0..=10usize, ending in prop::sample::select(vec![0, PSH, FIN | PSH]),
        size in 200..1500u16, payload in 1..60_000usize, sequence in any::<u32>(), id in any::<u16>(),
    ) {
        let whole = Tcp { v6, atomic, options, id, sequence, flags: ACK | ending, ..Tcp::default() };
        let (header, frame) = whole.super_frame(size, payload);
        let packets = split(header, &frame);
        prop_assert_eq!(packets.len(), payload.div_ceil(size.into()));
        for (number, packet) in packets.iter().enumerate() {
            assert_valid(packet);
            let last = number + 1 == packets.len();
            let expected = Tcp {
                id: id.wrapping_add(number as u16),
                sequence: sequence.wrapping_add(number as u32 * u32::from(size)),
                flags: if last { ACK | ending } else { ACK },
                ..whole
            };
            prop_assert_eq!(packet, &tcp(&expected, &frame[whole.header_len() + number * usize::from(size)..][..packet.len() - whole.header_len()]));
        }
        // Up to 127 segments become one again.
        if packets.len() <= offload::MAX_PARTS {
            let expected = if packets.len() > 1 { (header, frame) } else { (VnetHeader::default(), packets[0].clone()) };
            prop_assert_eq!(merged(&packets), vec![expected]);
        }
    }

    #[test]
    fn datagrams_of_a_udp_super_frame_are_whole(v6 in any::<bool>(), size in 1..1400u16, payload in 1..30_000usize) {
        let (header, frame) = udp_super_frame(v6, size, payload);
        let packets = split(header, &frame);
        prop_assert_eq!(packets.len(), payload.div_ceil(size.into()));
        let headers = if v6 { 48 } else { 28 };
        let mut bytes = vec![];
        for packet in &packets {
            assert_valid(packet);
            bytes.extend_from_slice(&packet[headers..]);
        }
        prop_assert_eq!(&bytes, &frame[headers..]);
    }

    #[test]
    fn any_header_and_frame_end_and_stay_in_bounds(header in any::<[u8; 10]>(), frame in prop::collection::vec(any::<u8>(), 0..300)) {
        let Some(header) = VnetHeader::parse(&header) else { return Ok(()) };
        let Ok(mut segments) = Segments::new(header, &frame) else { return Ok(()) };
        let (mut room, expected, mut count) = ([0; 400], segments.remaining(), 0);
        while segments.write_next(&mut room).is_some() {
            count += 1;
        }
        prop_assert_eq!(count, expected);
    }

    #[test]
    fn a_super_frame_header_on_any_bytes_is_refused_or_cut(
        mut frame in prop::collection::vec(any::<u8>(), 40..300), v6 in any::<bool>(), size in 0..50u16, cut in any::<prop::sample::Index>(),
    ) {
        frame[0] = if v6 { 0x60 } else { 0x45 };
        let (kind, start) = if v6 { (Segmentation::Tcp6, 40) } else { (Segmentation::Tcp4, 20) };
        let header = VnetHeader { segmentation: Some((kind, size)), header_len: 0, checksum: Some((start, 16)) };
        frame.truncate(cut.index(frame.len()));
        if Segments::new(header, &frame).is_ok() {
            split(header, &frame);
        }
    }

    #[test]
    fn any_packets_come_out_of_the_merger(mut packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..20)) {
        for (packet, first) in packets.iter_mut().zip([0x45, 0x60, 0x45, 0x00].into_iter().cycle()) {
            if let Some(byte) = packet.first_mut() {
                *byte = first;
            }
        }
        let frames = merged(&packets);
        prop_assert_eq!(frames.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>(), packets);
    }
}

fn lens(packets: &[Vec<u8>]) -> Vec<usize> {
    merged(packets)
        .iter()
        .map(|(_, frame)| frame.len())
        .collect()
}

#[test]
fn flows_that_alternate_merge_side_by_side() {
    let mut flows: Vec<_> = (0..4)
        .map(|port| Flow::new(port % 2 == 0, true, port, 3))
        .collect();
    let packets: Vec<_> = (0..80)
        .map(|turn| flows[turn % 4].next(ACK, 1000))
        .collect();
    let frames = merged(&packets);
    assert_eq!(frames.len(), 4);
    for (port, (header, frame)) in frames.iter().enumerate() {
        let (kind, headers) = if port % 2 == 0 {
            (Segmentation::Tcp6, 72)
        } else {
            (Segmentation::Tcp4, 52)
        };
        assert_eq!(header.segmentation, Some((kind, 1000)));
        assert_eq!(header.header_len, headers);
        assert_eq!(frame.len(), usize::from(headers) + 20_000);
    }
}

#[test]
fn a_frame_is_never_longer_than_ip_can_say() {
    let mut flow = Flow::new(false, true, 1, 0);
    let packets: Vec<_> = (0..100).map(|_| flow.next(ACK, 1000)).collect();
    assert_eq!(lens(&packets), [65 * 1000 + 40, 35 * 1000 + 40]);
}

#[test]
fn a_short_segment_and_a_push_end_a_frame() {
    let mut flow = Flow::new(false, true, 1, 0);
    let packets = [
        (ACK, 900),
        (ACK, 900),
        (ACK, 10),
        (ACK, 900),
        (ACK | PSH, 900),
        (ACK, 900),
    ];
    let packets = packets.map(|(flags, len)| flow.next(flags, len));
    assert_eq!(lens(&packets), [1850, 1840, 940]);
    let flags: Vec<_> = merged(&packets)
        .iter()
        .map(|(_, frame)| frame[33])
        .collect();
    assert_eq!(flags, [ACK, ACK | PSH, ACK]);
}

#[test]
fn a_damaged_packet_goes_as_it_came_and_nothing_overtakes_it() {
    let mut flow = Flow::new(true, false, 1, 0);
    let mut packets: Vec<_> = (0..6).map(|_| flow.next(ACK, 500)).collect();
    packets[3][100] ^= 1;
    let frames = merged(&packets);
    assert_eq!(lens(&packets), [1560, 560, 1060]);
    assert_eq!(frames[1], (VnetHeader::default(), packets[3].clone()));
}

#[test]
fn an_identification_that_means_nothing_need_not_count() {
    for (atomic, frames) in [(true, 1), (false, 3)] {
        let mut flow = Flow::new(false, atomic, 1, 0);
        let packets: Vec<_> = (0..3)
            .map(|_| {
                flow.tcp.id = 0;
                flow.next(ACK, 500)
            })
            .collect();
        assert_eq!(merged(&packets).len(), frames);
    }
}

#[test]
fn congestion_told_once_is_told_once() {
    let whole = Tcp {
        flags: ACK | CWR,
        ..Tcp::default()
    };
    let (header, frame) = whole.super_frame(500, 1500);
    let flags: Vec<_> = split(header, &frame)
        .iter()
        .map(|packet| packet[33])
        .collect();
    assert_eq!(flags, [ACK | CWR, ACK, ACK]);
}

#[test]
fn a_checksum_left_to_do_is_done() {
    let whole = tcp(&Tcp::default(), b"odd");
    let mut frame = whole.clone();
    let partial = wire::pseudo_sum(&frame);
    frame[36..38].copy_from_slice(&partial.to_be_bytes());
    let header = VnetHeader {
        checksum: Some((20, 16)),
        ..VnetHeader::default()
    };
    assert_eq!(split(header, &frame), [whole]);
}
