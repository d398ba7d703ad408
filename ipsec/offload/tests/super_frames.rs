//! Splitting and merging undo each other, and every packet that comes out is one that a host would take.
#![allow(clippy::unwrap_used)]

mod wire;

use offload::{
    Ip, Link, Malformed, Mergeable, Merger, Segments, Transport, VNET_LEN, Vnet, packets,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use wire::{ACK, CWR, DF, ECE, FIN, PSH, Packet, packet, put};

const MAY: Mergeable = Mergeable {
    link: Link::Ethernet,
    mtu: 1500,
    tcp: true,
    udp: true,
};

/// Splits in place and elsewhere, and checks that both agree.
fn split(link: Link, frame: &[u8], vnet: &Vnet) -> Result<Vec<Vec<u8>>, Malformed> {
    let (mut whole, mut found) = (frame.to_vec(), vec![]);
    let count = packets(&mut whole, link, vnet, |packet| found.push(packet.to_vec()));
    let Ok(mut segments) = Segments::new(frame, link, vnet) else {
        return Err(count.unwrap_err());
    };
    assert_eq!(
        (count, segments.remaining()),
        (Ok(found.len()), found.len())
    );
    for packet in &found {
        assert_eq!(segments.next_len(), Some(packet.len()));
        let mut room = vec![0xaa; packet.len() + 3];
        if let Some(short) = packet.len().checked_sub(1) {
            assert_eq!(
                segments.write_next(&mut room[..short]),
                None,
                "nothing lost"
            );
        }
        assert_eq!(segments.write_next(&mut room), Some(packet.len()));
        assert_eq!(room[..packet.len()], packet[..]);
    }
    assert_eq!(segments.next_len(), None);
    Ok(found)
}

/// The frames that the kernel would be given.
fn merged(link: Link, packets: &[Vec<u8>]) -> Vec<(Vnet, Vec<u8>)> {
    let may = Mergeable { link, ..MAY };
    let mut merger = Merger::default();
    // A batch before it leaves nothing behind.
    let before = vec![packet(Ip::V4, Transport::Tcp, 9).frame(); 2];
    merger.merge(0..2, Some(&MAY), |number| &before[number]);
    merger.merge(0..packets.len(), Some(&may), |number| &packets[number]);
    let trains = merger.trains().iter();
    let frames = trains.map(|train| {
        let (vnet, headers) = train.head().split_first_chunk::<VNET_LEN>().unwrap();
        let mut frame = headers.to_vec();
        for number in train.packets() {
            frame.extend(&packets[*number][train.headers()..]);
        }
        let vnet = Vnet::parse(*vnet);
        assert_eq!(train.protocol().is_some(), vnet.is_super());
        (vnet, frame)
    });
    frames.collect()
}

fn again(link: Link, frames: &[(Vnet, Vec<u8>)]) -> Vec<Vec<u8>> {
    let frames = frames.iter();
    frames
        .flat_map(|(vnet, frame)| split(link, frame, vnet).unwrap())
        .collect()
}

fn counts(packets: &[Vec<u8>]) -> Vec<usize> {
    let frames = merged(Link::Ethernet, packets);
    let frames = frames.iter();
    frames
        .map(|(vnet, frame)| split(Link::Ethernet, frame, vnet).unwrap().len())
        .collect()
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let link = select(vec![Link::None, Link::Ethernet]);
    let version = select(vec![Ip::V4, Ip::V6]);
    let protocol = select(vec![Transport::Tcp, Transport::Udp]);
    let flags = select(vec![ACK, ACK | PSH, ACK | FIN | PSH]);
    let kind = (link, version, protocol, select(vec![0, DF]), flags);
    let rest = (any::<bool>(), any::<u16>(), any::<u32>(), 0..4_usize);
    (kind, rest, vec(any::<u8>(), 1..9000)).prop_map(
        |((link, version, protocol, fragment, flags), (tagged, id, sequence, options), payload)| {
            Packet {
                link,
                tagged,
                id,
                fragment,
                sequence,
                flags,
                options: options * 4,
                payload,
                ..packet(version, protocol, 0)
            }
        },
    )
}

/// The next event of a flow.
#[derive(Clone, Copy, Debug)]
enum Event {
    Data(usize),
    Flags(u8),
    Lost,
    Jump,
    Window,
    Class(u8),
    Damaged(usize),
    Fragment,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => Just(Event::Data(1398)),
        3 => (0..1398_usize).prop_map(Event::Data),
        3 => select(vec![PSH, FIN, PSH | FIN, 0x02, 0x04, 0x20, ECE, CWR]).prop_map(Event::Flags),
        1 => Just(Event::Lost),
        1 => Just(Event::Jump),
        1 => Just(Event::Window),
        1 => (0..4_u8).prop_map(Event::Class),
        1 => (0..1398_usize).prop_map(Event::Damaged),
        1 => Just(Event::Fragment),
    ]
}

/// Several flows' packets; their ports are their numbers.
fn flows() -> impl Strategy<Value = (Link, Vec<Vec<u8>>)> {
    let link = select(vec![Link::None, Link::Ethernet]);
    let shapes = vec((any::<[bool; 3]>(), 0..=10_usize), 1..12);
    let events = vec((any::<Index>(), event()), 0..120);
    (link, shapes, events).prop_map(|(link, shapes, events)| {
        let shapes = shapes.into_iter().enumerate();
        let mut flows: Vec<Packet> = shapes
            .map(|(port, ([v6, udp, tagged], words))| Packet {
                link,
                tagged,
                port: port as u16,
                options: words * 4,
                ..packet(
                    if v6 { Ip::V6 } else { Ip::V4 },
                    if udp { Transport::Udp } else { Transport::Tcp },
                    0,
                )
            })
            .collect();
        let packets = events.into_iter().map(|(which, event)| {
            let count = flows.len();
            let flow = &mut flows[which.index(count)];
            let len = match event {
                Event::Data(len) => len,
                _ => 1398,
            };
            flow.flags = ACK;
            flow.payload = (0..len)
                .map(|at| (flow.sequence as usize + at * 7) as u8)
                .collect();
            match event {
                Event::Flags(flags) => flow.flags |= flags,
                Event::Lost => drop(flow.step()),
                Event::Jump => flow.id = flow.id.wrapping_add(7),
                Event::Window => flow.window ^= 1,
                Event::Class(class) => flow.class = class,
                Event::Fragment => {
                    let part = Packet {
                        fragment: 0x2000,
                        ..flow.clone()
                    };
                    flow.step();
                    return part.frame();
                }
                Event::Data(_) | Event::Damaged(_) => {}
            }
            let headers = flow.headers();
            let mut packet = flow.step();
            if let Event::Damaged(at) = event {
                packet[headers + at] ^= 0x10;
            }
            packet
        });
        (link, packets.collect())
    })
}

/// The port of its flow.
fn flow_of(link: Link, frame: &[u8]) -> u16 {
    let mut ip = 0;
    if link == Link::Ethernet {
        ip = if frame[12] == 0x81 { 18 } else { 14 };
    }
    let at = ip + if frame[ip] >> 4 == 4 { 22 } else { 42 };
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

proptest! {
    #[test]
    fn packets_are_whole_and_add_up(mut whole in any_packet(), size in 100..1400_u16, extension in 0..3_usize) {
        whole.extension = if whole.version == Ip::V6 { extension * 8 } else { 0 };
        let found = split(whole.link, &whole.unfinished(), &whole.vnet(size)).unwrap();
        let mut payload: Vec<u8> = vec![];
        for (index, frame) in found.iter().enumerate() {
            let last = index + 1 == found.len();
            let expected = Packet {
                id: whole.id.wrapping_add(index as u16),
                sequence: whole.sequence.wrapping_add(payload.len() as u32),
                flags: if last { whole.flags } else { ACK },
                payload: frame[whole.headers()..].to_vec(),
                ..whole.clone()
            };
            prop_assert_eq!(frame, &expected.frame());
            prop_assert!(last || frame.len() == whole.headers() + usize::from(size));
            payload.extend(&frame[whole.headers()..]);
        }
        prop_assert_eq!(payload, whole.payload);
    }

    #[test]
    fn what_was_split_is_merged_again(whole in any_packet(), size in 200..1400_u16) {
        let (frame, vnet) = (whole.unfinished(), whole.vnet(size));
        let found = split(whole.link, &frame, &vnet).unwrap();
        let alone = (Vnet::default(), found[0].clone());
        let expected = if found.len() > 1 { (vnet, frame) } else { alone };
        prop_assert_eq!(merged(whole.link, &found), [expected]);
    }

    /// The packets of each flow come out as they were sent, whatever other flows do.
    #[test]
    fn what_is_merged_splits_into_what_it_was((link, packets) in flows()) {
        let again = again(link, &merged(link, &packets));
        prop_assert_eq!(again.len(), packets.len());
        for port in 0..12 {
            let of = |all: &[Vec<u8>]| all.iter().filter(|packet| flow_of(link, packet) == port).cloned().collect::<Vec<_>>();
            prop_assert_eq!(of(&again), of(&packets), "flow {} in order", port);
        }
    }

    #[test]
    fn nothing_makes_it_panic(
        mut frame in vec(any::<u8>(), 0..200),
        head in any::<[u8; VNET_LEN]>(),
        shape in 0..4_usize,
        whole in any_packet(),
        flips in vec((any::<Index>(), any::<u8>()), 0..4),
    ) {
        let mut vnet = Vnet::parse(head);
        prop_assert_eq!(vnet.emit(), head);
        if shape > 0 {
            frame = whole.frame();
            vnet = if shape > 1 { whole.vnet(vnet.gso_size) } else { vnet };
            for (at, byte) in flips {
                let at = at.index(frame.len().min(80));
                frame[at] = byte;
            }
        }
        for link in [Link::None, Link::Ethernet] {
            let _ = split(link, &frame, &vnet);
            let frames = [frame.clone(), frame.clone()];
            prop_assert!(merged(link, &frames).len() <= 2);
        }
    }
}

#[test]
fn flags_are_where_they_belong() {
    let whole = Packet {
        flags: ACK | PSH | FIN | CWR,
        ..packet(Ip::V4, Transport::Tcp, 300)
    };
    let flags = |gso_type| {
        let vnet = Vnet {
            gso_type,
            ..whole.vnet(100)
        };
        let found = split(Link::Ethernet, &whole.unfinished(), &vnet).unwrap();
        found.iter().map(|frame| frame[34 + 13]).collect::<Vec<_>>()
    };
    assert_eq!(
        flags(Vnet::GSO_TCPV4 | Vnet::GSO_ECN),
        [ACK | CWR, ACK, ACK | PSH | FIN]
    );
    // Accurate ECN: CWR is a bit of a counter there.
    assert_eq!(
        flags(Vnet::GSO_TCPV4),
        [ACK | CWR, ACK | CWR, ACK | PSH | FIN | CWR]
    );
}

#[test]
fn a_lying_header_is_said() {
    let whole = packet(Ip::V4, Transport::Tcp, 3000);
    let good = whole.vnet(1000);
    let why = |change: fn(&mut Vnet)| {
        let mut vnet = good;
        change(&mut vnet);
        split(Link::Ethernet, &whole.unfinished(), &vnet).unwrap_err()
    };
    assert_eq!(why(|vnet| vnet.gso_size = 0), Malformed::NoSize);
    assert_eq!(why(|vnet| vnet.gso_size = 1), Malformed::TooMany);
    assert_eq!(why(|vnet| vnet.hdr_len = 4000), Malformed::Headers);
    assert_eq!(
        why(|vnet| vnet.gso_type = Vnet::GSO_TCPV6),
        Malformed::Headers
    );
    assert_eq!(
        why(|vnet| vnet.gso_type = Vnet::GSO_UDP_L4),
        Malformed::Headers
    );
    assert_eq!(why(|vnet| vnet.gso_type = 3), Malformed::Type(3));
    assert_eq!(why(|vnet| vnet.csum_start = 35), Malformed::Checksum);
    assert_eq!(why(|vnet| vnet.flags = 0), Malformed::Checksum);
    let sctp = why(|vnet| (vnet.gso_type, vnet.csum_offset) = (0, 8));
    assert_eq!(sctp, Malformed::ForeignChecksum);
    let mut cut = whole.unfinished();
    cut.pop();
    assert_eq!(split(Link::Ethernet, &cut, &good), Err(Malformed::Headers));
    assert_eq!(
        split(Link::None, &whole.frame(), &good),
        Err(Malformed::Headers)
    );
}

#[test]
fn a_checksum_left_to_do_is_done() {
    for link in [Link::None, Link::Ethernet] {
        let whole = Packet {
            link,
            ..packet(Ip::V6, Transport::Udp, 3)
        };
        let vnet = Vnet {
            gso_type: Vnet::GSO_NONE,
            ..whole.vnet(0)
        };
        assert_eq!(
            split(link, &whole.unfinished(), &vnet),
            Ok(vec![whole.frame()])
        );
    }
}

#[test]
fn only_what_may_be_merged_is() {
    let train = |change: fn(&mut Packet)| {
        let mut flow = packet(Ip::V4, Transport::Tcp, 100);
        let first = flow.step();
        change(&mut flow);
        counts(&[first, flow.frame()])
    };
    assert_eq!(train(|_| {}), [2]);
    assert_eq!(train(|next| next.flags |= PSH), [2]);
    assert_eq!(train(|next| next.flags |= FIN), [2]);
    assert_eq!(train(|next| next.payload.truncate(9)), [2]);
    let changes: [fn(&mut Packet); 14] = [
        |next| next.flags |= CWR,
        |next| next.flags |= ECE,
        |next| next.options = 8,
        |next| next.sequence += 1,
        |next| next.port += 1,
        |next| next.id = next.id.wrapping_add(1),
        |next| next.id = next.id.wrapping_sub(1),
        |next| next.fragment = DF,
        |next| next.tagged = true,
        |next| next.class = 1,
        |next| next.window = 1,
        |next| next.payload.push(1),
        |next| next.payload.clear(),
        |next| next.payload.resize(1461, 1),
    ];
    for change in changes {
        assert_eq!(train(change), [1, 1]);
    }
}

#[test]
fn a_short_segment_and_a_push_end_a_train() {
    let mut flow = packet(Ip::V6, Transport::Tcp, 0);
    let sizes = [
        (100, ACK),
        (100, ACK | PSH),
        (100, ACK),
        (50, ACK),
        (50, ACK),
    ];
    let frames = sizes.map(|(size, flags)| {
        flow.payload.resize(size, 1);
        flow.flags = flags;
        flow.step()
    });
    assert_eq!(counts(&frames), [2, 2, 1]);
}

#[test]
fn flows_that_alternate_merge_side_by_side() {
    let mut flows: Vec<_> = (0..4)
        .map(|port| Packet {
            port,
            ..packet(
                if port % 2 == 0 { Ip::V6 } else { Ip::V4 },
                Transport::Tcp,
                1000,
            )
        })
        .collect();
    let packets: Vec<_> = (0..80).map(|turn| flows[turn % 4].step()).collect();
    assert_eq!(counts(&packets), [20; 4]);
}

#[test]
fn a_train_is_never_longer_than_ip_can_say() {
    let mut flow = Packet {
        link: Link::None,
        options: 0,
        ..packet(Ip::V4, Transport::Tcp, 1000)
    };
    let packets: Vec<_> = (0..100).map(|_| flow.step()).collect();
    let lens: Vec<_> = merged(Link::None, &packets)
        .iter()
        .map(|(_, frame)| frame.len())
        .collect();
    assert_eq!(lens, [65 * 1000 + 40, 35 * 1000 + 40]);
}

#[test]
fn a_damaged_packet_goes_as_it_came_and_nothing_overtakes_it() {
    let mut flow = packet(Ip::V6, Transport::Tcp, 500);
    let mut packets: Vec<_> = (0..6).map(|_| flow.step()).collect();
    packets[3][100] ^= 1;
    assert_eq!(counts(&packets), [3, 1, 2]);
    assert_eq!(
        merged(Link::Ethernet, &packets)[1],
        (Vnet::default(), packets[3].clone())
    );
}

#[test]
fn an_identification_that_means_nothing_need_not_count() {
    for (fragment, expected) in [(DF, vec![3]), (0, vec![1; 3])] {
        let mut flow = Packet {
            fragment,
            ..packet(Ip::V4, Transport::Tcp, 500)
        };
        let packets = [0; 3].map(|id| {
            flow.id = id;
            flow.step()
        });
        assert_eq!(counts(&packets), expected);
    }
}

#[test]
fn esp_in_udp_needs_no_checksum() {
    let datagram = |port| Packet {
        port,
        id: 0,
        fragment: DF,
        ..packet(Ip::V4, Transport::Udp, 100)
    };
    let without = |port| {
        let mut frame = datagram(port).frame();
        put(&mut frame, 34 + 6, 0);
        frame
    };
    let (esp, other) = (vec![without(4500); 65], vec![without(53); 2]);
    assert_eq!(counts(&other), [1, 1]);
    assert_eq!(counts(&esp), [64, 1]);
    let (vnet, frame) = &merged(Link::Ethernet, &esp)[0];
    for (index, packet) in split(Link::Ethernet, frame, vnet)
        .unwrap()
        .iter()
        .enumerate()
    {
        let sent = Packet {
            id: index as u16,
            ..datagram(4500)
        };
        let mut sent = sent.frame();
        put(&mut sent, 34 + 6, 0);
        assert_eq!(packet, &sent);
    }
    let v6 = Packet {
        version: Ip::V6,
        ..datagram(4500)
    };
    let found = split(Link::Ethernet, &v6.unfinished(), &v6.vnet(50)).unwrap();
    assert!(found.iter().all(|packet| packet[54 + 6..54 + 8] != [0, 0]));
}

#[test]
fn the_shortest_datagrams_make_a_train() {
    let frame = Packet {
        fragment: DF,
        ..packet(Ip::V4, Transport::Udp, 1)
    };
    assert_eq!(counts(&vec![frame.frame(); 3]), [3]);
}
