//! Super-frames: no header before a frame makes more of it than it is, and what is merged is split into the same packets.
//!
//! Packets of one kind, numbered as a sender does it, are what is merged: their ids may differ where they say nothing
//! (RFC 6864, section 4.1), and checksums that senders of UDP leave out are made.

use offload::{
    Ip, Layers, Link, Malformed, Mergeable, Merger, Segments, Transport, VNET_LEN, Vnet, fold,
    packets, sum,
};

use super::input::Input;

const FRAMES: usize = 80;

pub fn super_frames(input: &[u8]) {
    let mut input = Input::new(input);
    match input.byte() % 4 {
        0 => split_any(&mut input),
        _ => merge_any(&mut input),
    }
}

/// Splits in place and elsewhere, and checks that both agree.
fn split(frame: &[u8], link: Link, vnet: &Vnet) -> Result<Vec<Vec<u8>>, Malformed> {
    let (mut whole, mut found) = (frame.to_vec(), Vec::new());
    let count = packets(&mut whole, link, vnet, |packet| found.push(packet.to_vec()));
    let mut segments = match Segments::new(frame, link, vnet) {
        Ok(segments) => segments,
        Err(cause) => {
            assert_eq!((count, found.len()), (Err(cause), 0));
            return Err(cause);
        }
    };
    assert_eq!(count, Ok(segments.remaining()));
    let mut room = vec![0; frame.len()];
    for packet in &found {
        assert_eq!(segments.write_next(&mut room), Some(packet.len()));
        assert_eq!(&room[..packet.len()], packet);
    }
    assert_eq!(segments.write_next(&mut room), None);
    Ok(found)
}

/// A frame with any header before it.
fn split_any(input: &mut Input) {
    let header: [u8; VNET_LEN] = std::array::from_fn(|_| input.byte());
    let (vnet, longer) = (Vnet::parse(header), usize::from(input.word()));
    let given = input.rest();
    let mut frame = given.to_vec();
    frame.resize(given.len() + longer, 0x5a);
    // The lengths that the headers claim would seldom be right.
    if vnet.hdr_len & 1 == 1
        && let Some(version) = frame.get(14)
        && frame.len() > 60
    {
        let (at, length) = match version >> 4 {
            4 => (16, frame.len() - 14),
            _ => (18, frame.len() - 54),
        };
        put(&mut frame, at, length as u16);
    }
    for link in [Link::Ethernet, Link::None] {
        for packet in split(&frame, link, &vnet).unwrap_or_default() {
            assert!(packet.len() <= frame.len());
        }
    }
}

/// Packets of a flow or two, some of them changed.
fn merge_any(input: &mut Input) {
    let kind = input.byte();
    let (size, mut sequence, mut id) = (1 + usize::from(input.word() % 1460), 0, 7);
    let mut frames = Vec::new();
    while !input.is_empty() && frames.len() < FRAMES {
        let (how, count) = (input.byte(), input.byte());
        for _ in 0..1 + count % 24 {
            let mut frame = packet(kind, size, sequence, id);
            sequence += size as u32;
            id += 1;
            for _ in 0..how & 3 {
                let (at, value) = (usize::from(input.byte()), input.byte());
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            match how >> 2 & 7 {
                1 => frame.truncate(frame.len() - usize::from(count).min(frame.len())),
                2 => frame.extend([0; 6]),
                3 => sequence += 1,
                4 => id += 1,
                _ => {}
            }
            if how & 0x80 == 0 {
                right(&mut frame);
            }
            frames.push(frame);
        }
    }
    let may = Mergeable {
        link: Link::Ethernet,
        mtu: 1500,
        tcp: true,
        udp: true,
    };
    let (mut merger, mut seen) = (Merger::default(), vec![false; frames.len()]);
    merger.merge(0..frames.len(), Some(&may), |number| &frames[number]);
    for train in merger.trains() {
        let (header, headers) = train.head().split_first_chunk::<VNET_LEN>().unwrap();
        let mut whole = headers.to_vec();
        let numbers = train.packets();
        for number in numbers {
            assert!(!std::mem::replace(&mut seen[*number], true), "sent twice");
            whole.extend(&frames[*number][train.headers()..]);
        }
        assert!(numbers.is_sorted());
        let found = split(&whole, Link::Ethernet, &Vnet::parse(*header)).unwrap();
        assert_eq!(found.len(), numbers.len());
        for (packet, number) in found.iter().zip(numbers) {
            same(packet, &frames[*number], train.protocol().is_some());
        }
    }
    assert!(seen.into_iter().all(|it| it), "not sent");
}

/// Checks that both are the same, but for the fields that may differ.
fn same(split: &[u8], sent: &[u8], is_merged: bool) {
    let (mut split, mut sent) = (split.to_vec(), sent.to_vec());
    if !is_merged {
        return assert_eq!(split, sent);
    }
    let layers = Layers::of(&split, Link::Ethernet).unwrap();
    let at = layers.transport + layers.protocol.checksum();
    let is_right = layers.is_right(&split);
    if layers.version == Ip::V4 && sent[layers.ip + 6] & 0x40 != 0 {
        for frame in [&mut split, &mut sent] {
            put(frame, layers.ip + 4, 0);
            put(frame, layers.ip + 10, 0);
        }
    }
    // The checksum may be left out of ESP in UDP (RFC 3948, section 2.1).
    let left_out = |frame: &[u8]| layers.protocol == Transport::Udp && frame[at..at + 2] == [0, 0];
    if left_out(&split) || left_out(&sent) {
        put(&mut split, at, 0);
        put(&mut sent, at, 0);
    } else {
        assert!(is_right);
    }
    assert_eq!(split, sent);
}

fn packet(kind: u8, size: usize, sequence: u32, id: u16) -> Vec<u8> {
    let is_tcp = kind & 1 == 0;
    let mut transport = [&[0x13, 0x37][..], &[0x11, 0x94]].concat();
    match is_tcp {
        true => {
            transport.extend(sequence.wrapping_add(0xffff_f000).to_be_bytes());
            transport.extend([1, 2, 3, 4, 0x80, 0x10, 9, 9, 0, 0, 0, 0]);
            transport.resize(32, 1);
        }
        false => transport.extend([((size + 8) >> 8) as u8, (size + 8) as u8, 0, 0]),
    }
    transport.resize(transport.len() + size, sequence as u8);
    let length = transport.len() as u16;
    let mut frame = vec![2; 12];
    if kind & 4 == 4 {
        frame.extend([0x81, 0, 0, 5]);
    }
    let protocol = if is_tcp { 6 } else { 17 };
    match kind & 2 {
        0 => {
            frame.extend([8, 0, 0x45, 0]);
            let flags = if kind & 8 == 0 { 0x4000 } else { 0 };
            for word in [20 + length, id, flags] {
                frame.extend(word.to_be_bytes());
            }
            frame.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        _ => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 1]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([0xfd; 32]);
        }
    }
    frame.extend(transport);
    frame
}

/// Makes its checksums.
fn right(frame: &mut [u8]) {
    let Some(layers) = Layers::of(frame, Link::Ethernet) else {
        return;
    };
    if layers.version == Ip::V4 {
        put(frame, layers.ip + 10, 0);
        let sum = !fold(sum(&frame[layers.ip..layers.transport]));
        put(frame, layers.ip + 10, sum);
    }
    let at = layers.transport + layers.protocol.checksum();
    put(frame, at, 0);
    let length = (layers.end - layers.transport) as u32;
    let all = layers.pseudo_header(frame) + length;
    let all = all + sum(&frame[layers.transport..layers.end]);
    let sum = match !fold(all) {
        0 => 0xffff,
        sum => sum,
    };
    put(frame, at, sum);
}

fn put(frame: &mut [u8], at: usize, word: u16) {
    frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
}
