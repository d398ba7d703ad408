//! What `segment` splits, `merge` puts together, and the other way round.
#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;

use super::checksum::{fold, sum};
use super::layers::{Ip, Layers, Transport, put};
use super::merge::{Mergeable, Train, trains};
use super::segment::{Malformed, packets};
use super::vnet::{GSO_ECN, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, LEN, NEEDS_CSUM, Vnet};

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
const FIN: u8 = 0x01;
const CWR: u8 = 0x80;
const DF: u16 = 0x4000;
const MAY: Mergeable = Mergeable {
    mtu: 1500,
    tcp: true,
    udp: true,
};

#[derive(Clone, Debug)]
struct Packet {
    version: Ip,
    protocol: Transport,
    tagged: bool,
    port: u16,
    id: u16,
    fragment: u16,
    sequence: u32,
    flags: u8,
    options: usize,
    payload: Vec<u8>,
}

fn packet(version: Ip, protocol: Transport, payload: usize) -> Packet {
    Packet {
        version,
        protocol,
        tagged: false,
        port: 80,
        id: 7,
        fragment: 0,
        sequence: 0xffff_ff00,
        flags: ACK,
        options: 12,
        payload: (0..payload).map(|at| (at * 7) as u8).collect(),
    }
}

impl Packet {
    /// With right checksums.
    fn frame(&self) -> Vec<u8> {
        let mut transport = vec![0x13, 0x37];
        transport.extend(self.port.to_be_bytes());
        match self.protocol {
            Transport::Tcp => {
                transport.extend(self.sequence.to_be_bytes());
                let offset = ((20 + self.options) / 4) as u8;
                transport.extend([1, 2, 3, 4, offset << 4, self.flags, 9, 9, 0, 0, 0, 0]);
                transport.resize(20 + self.options, 1);
            }
            Transport::Udp => transport.extend([0; 4]),
        }
        transport.extend(&self.payload);
        let length = transport.len() as u16;
        if self.protocol == Transport::Udp {
            put(&mut transport, 4, length);
        }
        let mut frame = vec![2; 12];
        if self.tagged {
            frame.extend([0x81, 0, 0, 5]);
        }
        let protocol = if self.protocol == Transport::Tcp {
            6
        } else {
            17
        };
        match self.version {
            Ip::V4 => {
                frame.extend([8, 0, 0x45, 0]);
                for word in [20 + length, self.id, self.fragment] {
                    frame.extend(word.to_be_bytes());
                }
                frame.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
                let ip = frame.len() - 20;
                let checksum = !fold(sum(&frame[ip..]));
                put(&mut frame, ip + 10, checksum);
            }
            Ip::V6 => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 1]);
                frame.extend(length.to_be_bytes());
                frame.extend([protocol, 64]);
                frame.extend([0xfd; 32]);
            }
        }
        let at = frame.len();
        frame.extend(transport);
        let layers = Layers::of(&frame).unwrap();
        let all = layers.pseudo_header(&frame) + u32::from(length) + sum(&frame[at..]);
        let checksum = match !fold(all) {
            0 => 0xffff,
            other => other,
        };
        put(&mut frame, at + self.protocol.checksum(), checksum);
        frame
    }

    /// The header of a super-frame of `size` bytes a segment.
    fn vnet(&self, size: u16) -> Vnet {
        let layers = Layers::of(&self.frame()).unwrap();
        Vnet {
            flags: NEEDS_CSUM,
            gso_type: match (self.protocol, self.version) {
                (Transport::Tcp, Ip::V4) => GSO_TCPV4,
                (Transport::Tcp, Ip::V6) => GSO_TCPV6,
                (Transport::Udp, _) => GSO_UDP_L4,
            },
            hdr_len: layers.payload as u16,
            gso_size: size,
            csum_start: layers.transport as u16,
            csum_offset: self.protocol.checksum() as u16,
        }
    }
}

fn split(frame: &[u8], vnet: &Vnet) -> Result<Vec<Vec<u8>>, Malformed> {
    let (mut frame, mut found) = (frame.to_vec(), Vec::new());
    let count = packets(&mut frame, vnet, |packet| found.push(packet.to_vec()))?;
    assert_eq!(count, found.len());
    Ok(found)
}

fn merged(frames: &[Vec<u8>]) -> Vec<Train> {
    let mut found = Vec::new();
    trains(frames, 0, Some(MAY), &mut found);
    found
}

/// What the kernel would be given.
fn message(train: &Train, frames: &[Vec<u8>]) -> (Vnet, Vec<u8>) {
    let (vnet, headers) = train.head().split_first_chunk::<LEN>().unwrap();
    let mut frame = headers.to_vec();
    for part in &frames[train.first..train.first + train.count] {
        frame.extend(&part[train.headers..]);
    }
    (Vnet::parse(*vnet), frame)
}

fn counts(frames: &[Vec<u8>]) -> Vec<usize> {
    merged(frames).iter().map(|train| train.count).collect()
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let version = prop_oneof![Just(Ip::V4), Just(Ip::V6)];
    let protocol = prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)];
    let fragment = prop_oneof![Just(0), Just(DF)];
    let rest = (
        any::<bool>(),
        any::<u16>(),
        any::<u32>(),
        0..4_usize,
        vec(any::<u8>(), 1..9000),
    );
    (version, protocol, fragment, rest).prop_map(
        |(version, protocol, fragment, (tagged, id, sequence, options, payload))| Packet {
            tagged,
            id,
            fragment,
            sequence,
            options: options * 4,
            payload,
            ..packet(version, protocol, 0)
        },
    )
}

proptest! {
    #[test]
    fn packets_are_whole_and_add_up(whole in any_packet(), size in 100..1400_u16) {
        let found = split(&whole.frame(), &whole.vnet(size)).unwrap();
        let mut payload: Vec<u8> = Vec::new();
        for (index, frame) in found.iter().enumerate() {
            let layers = Layers::of(frame).unwrap();
            prop_assert!(layers.is_right(frame));
            prop_assert_eq!(layers.end, frame.len());
            let expected = Packet {
                id: whole.id.wrapping_add(index as u16),
                sequence: whole.sequence.wrapping_add(payload.len() as u32),
                payload: frame[layers.payload..].to_vec(),
                ..whole.clone()
            };
            prop_assert_eq!(frame, &expected.frame());
            prop_assert!(frame.len() == layers.payload + usize::from(size) || index + 1 == found.len());
            payload.extend(&frame[layers.payload..]);
        }
        prop_assert_eq!(payload, whole.payload);
    }

    #[test]
    fn what_was_split_is_merged_again(whole in any_packet(), size in 200..1400_u16) {
        let found = split(&whole.frame(), &whole.vnet(size)).unwrap();
        let trains = merged(&found);
        prop_assert_eq!(trains.len(), 1);
        let (vnet, frame) = message(&trains[0], &found);
        prop_assert_eq!(vnet.is_super(), found.len() > 1);
        prop_assert_eq!(split(&frame, &vnet).unwrap(), found);
    }

    /// Whatever leaves in whatever order, the packets on the wire are those that were sent.
    #[test]
    fn trains_stand_for_their_packets(
        steps in vec((0..2_u16, 0..3_usize, 0..12_u8, 0..3_u16), 1..60),
        version in prop_oneof![Just(Ip::V4), Just(Ip::V6)],
        protocol in prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)],
    ) {
        let mut next = packet(version, protocol, 0);
        let frames: Vec<_> = steps.into_iter().map(|(port, size, event, id)| {
            next.port = port;
            next.payload = vec![event; [100, 100, 40][size]];
            next.flags = match event { 0 => ACK | PSH, 1 => ACK | FIN, 2 => ACK | CWR, _ => ACK };
            next.id = next.id.wrapping_add(if id == 2 { 3 } else { 1 });
            let mut frame = next.frame();
            if event == 3 {
                *frame.last_mut().unwrap() ^= 1;
            }
            next.sequence = next.sequence.wrapping_add(if event == 4 { 1 } else { next.payload.len() as u32 });
            frame
        }).collect();
        let mut out = Vec::new();
        for train in merged(&frames) {
            let (vnet, frame) = message(&train, &frames);
            out.extend(split(&frame, &vnet).unwrap());
        }
        prop_assert_eq!(out, frames);
    }

    #[test]
    fn nothing_makes_it_panic(
        mut frame in vec(any::<u8>(), 0..200),
        head in any::<[u8; LEN]>(),
        shape in 0..4_usize,
        whole in any_packet(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut vnet = Vnet::parse(head);
        if shape > 0 {
            frame = whole.frame();
            vnet = if shape > 1 { whole.vnet(vnet.gso_size) } else { vnet };
            for (at, byte) in flips {
                let at = at.index(frame.len().min(80));
                frame[at] = byte;
            }
        }
        let _ = split(&frame, &vnet);
        let _ = merged(&[frame.clone(), frame]);
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
        let found = split(&whole.frame(), &vnet).unwrap();
        found.iter().map(|frame| frame[34 + 13]).collect::<Vec<_>>()
    };
    assert_eq!(
        flags(GSO_TCPV4 | GSO_ECN),
        [ACK | CWR, ACK, ACK | PSH | FIN]
    );
    // Accurate ECN: CWR is a bit of a counter there.
    assert_eq!(
        flags(GSO_TCPV4),
        [ACK | CWR, ACK | CWR, ACK | PSH | FIN | CWR]
    );
}

#[test]
fn a_lying_header_is_said() {
    let whole = packet(Ip::V4, Transport::Tcp, 3000);
    let good = whole.vnet(1000);
    let why = |vnet| split(&whole.frame(), &vnet).unwrap_err();
    assert_eq!(
        why(Vnet {
            gso_size: 0,
            ..good
        }),
        Malformed::NoSize
    );
    assert_eq!(
        why(Vnet {
            gso_size: 1,
            ..good
        }),
        Malformed::TooMany
    );
    assert_eq!(
        why(Vnet {
            hdr_len: 4000,
            ..good
        }),
        Malformed::Headers
    );
    assert_eq!(
        why(Vnet {
            gso_type: GSO_TCPV6,
            ..good
        }),
        Malformed::Headers
    );
    assert_eq!(
        why(Vnet {
            gso_type: GSO_UDP_L4,
            ..good
        }),
        Malformed::Headers
    );
    assert_eq!(
        why(Vnet {
            gso_type: 3,
            ..good
        }),
        Malformed::Type(3)
    );
    assert_eq!(
        why(Vnet {
            csum_start: 35,
            ..good
        }),
        Malformed::Checksum
    );
    assert_eq!(why(Vnet { flags: 0, ..good }), Malformed::Checksum);
    let mut cut = whole.frame();
    cut.pop();
    assert_eq!(split(&cut, &good), Err(Malformed::Headers));
    let sctp = Vnet {
        gso_type: 0,
        csum_offset: 8,
        ..good
    };
    assert_eq!(why(sctp), Malformed::ForeignChecksum);
}

#[test]
fn only_what_may_be_merged_is() {
    let train = |change: fn(&mut Packet)| {
        let (first, mut next) = (
            packet(Ip::V4, Transport::Tcp, 100),
            packet(Ip::V4, Transport::Tcp, 100),
        );
        (next.id, next.sequence) = (next.id + 1, next.sequence + 100);
        change(&mut next);
        counts(&[first.frame(), next.frame()])
    };
    assert_eq!(train(|_| {}), [2]);
    assert_eq!(train(|next| next.flags |= PSH), [2]);
    assert_eq!(train(|next| next.payload.truncate(9)), [2]);
    let changes: [fn(&mut Packet); 12] = [
        |next| next.flags |= FIN,
        |next| next.flags |= CWR,
        |next| next.flags |= 0x40,
        |next| next.options = 8,
        |next| next.sequence += 1,
        |next| next.port += 1,
        |next| next.id += 1,
        |next| next.id -= 1,
        |next| next.fragment = DF,
        |next| next.tagged = true,
        |next| next.payload.push(1),
        |next| next.payload.clear(),
    ];
    for change in changes {
        assert_eq!(train(change), [1, 1]);
    }
    // After PSH or a shorter one comes another train.
    let mut sequence = packet(Ip::V6, Transport::Tcp, 100);
    let frames: Vec<_> = [
        (100, ACK),
        (100, ACK | PSH),
        (100, ACK),
        (50, ACK),
        (50, ACK),
    ]
    .map(|(size, flags)| {
        sequence.payload.truncate(0);
        sequence.payload.resize(size, 1);
        sequence.flags = flags;
        let frame = sequence.frame();
        sequence.sequence = sequence.sequence.wrapping_add(size as u32);
        frame
    })
    .into();
    assert_eq!(counts(&frames), [2, 2, 1]);
}

#[test]
fn a_packet_beyond_the_mtu_is_left_alone() {
    let long = packet(Ip::V6, Transport::Udp, 1453).frame();
    assert_eq!(counts(&[long.clone(), long]), [1, 1]);
    let fits = packet(Ip::V6, Transport::Udp, 1452).frame();
    assert_eq!(counts(&[fits.clone(), fits]), [2]);
}

#[test]
fn esp_in_udp_may_get_the_checksum_that_was_left_out() {
    let without = |port| {
        let datagram = Packet {
            port,
            id: 0,
            fragment: DF,
            ..packet(Ip::V4, Transport::Udp, 100)
        };
        let mut frame = datagram.frame();
        put(&mut frame, 34 + 6, 0);
        frame
    };
    let (esp, other) = (vec![without(4500); 65], vec![without(53); 2]);
    assert_eq!(counts(&other), [1, 1]);
    let trains = merged(&esp);
    assert_eq!(
        trains.iter().map(|train| train.count).collect::<Vec<_>>(),
        [64, 1]
    );
    let (vnet, frame) = message(&trains[0], &esp);
    for (frame, sent) in split(&frame, &vnet).unwrap().iter().zip(&esp) {
        assert!(Layers::of(frame).unwrap().is_right(frame));
        assert_eq!(frame[42..], sent[42..]);
    }
}

#[test]
fn the_shortest_datagrams_make_a_train() {
    let frame = Packet {
        fragment: DF,
        ..packet(Ip::V4, Transport::Udp, 1)
    }
    .frame();
    let found = merged(&[frame.clone(), frame.clone(), frame]);
    assert_eq!((found.len(), found[0].count), (1, 3));
}
