//! ESP packets on their way out, side by side: a train is a row of equal length, traffic class and destination that
//! leaves in one call (UDP_SEGMENT, udp(7)). No I/O.
//!
//! ```text
//!  bytes   [ 1472 │ 1472 │ 1472 │ 1472 │ 600 ][ 1472 │ 1472 ][ 88 │ 88 │ 88 ] …
//!          └── train: the last may be shorter ┘└── train ────┘└─────────────┘
//! ```

use std::net::SocketAddr;
use std::ops::Range;

use esp::TrafficClass;

/// The kernel's UDP_MAX_SEGMENTS, in its older form.
const MAX_SEGMENTS: usize = 64;
/// Room for payload behind an IPv4 and a UDP header (IPv6 has more): the kernel builds a train as if it were one packet.
const MAX_BYTES: usize = 65535 - 20 - 8;
const CAPACITY: usize = 4 * 65536;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Train {
    pub bytes: Range<usize>,
    /// Length of each packet but the last, which may be shorter.
    pub segment: usize,
    pub to: SocketAddr,
    pub class: TrafficClass,
}

impl Train {
    pub fn packets(&self) -> usize {
        self.bytes.len().div_ceil(self.segment.max(1))
    }

    /// Splits the train into trains of one packet each.
    pub fn each(&self) -> impl Iterator<Item = Train> {
        let (end, segment) = (self.bytes.end, self.segment.max(1));
        let starts = self.bytes.clone().step_by(segment);
        starts.map(move |start| Train {
            bytes: start..end.min(start + segment),
            ..*self
        })
    }

    fn takes(&self, len: usize, to: SocketAddr, class: TrafficClass) -> bool {
        (self.to, self.class) == (to, class)
            && len <= self.segment
            && self.bytes.len().is_multiple_of(self.segment)
            && self.packets() < MAX_SEGMENTS
            && self.bytes.len() + len <= MAX_BYTES
    }
}

pub struct Trains {
    bytes: Vec<u8>,
    used: usize,
    trains: Vec<Train>,
    coupled: bool,
}

impl Trains {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; CAPACITY],
            used: 0,
            trains: Vec::new(),
            coupled: true,
        }
    }

    /// The room for the next packet, if it has at most `len` bytes. Any packet fits after `clear`.
    pub fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(self.used..self.used + len)
    }

    /// The packet that was written to the start of the room goes there.
    pub fn depart(&mut self, len: usize, to: SocketAddr, class: TrafficClass) {
        let start = self.used;
        self.used = (self.used + len).min(self.bytes.len());
        match self.trains.last_mut() {
            Some(train) if self.coupled && train.takes(len, to, class) => {
                train.bytes.end = self.used
            }
            _ => self.trains.push(Train {
                bytes: start..self.used,
                segment: len.max(1),
                to,
                class,
            }),
        }
    }

    /// Returns whether more than half of the room is taken.
    pub fn is_full(&self) -> bool {
        self.used > CAPACITY / 2
    }

    pub fn trains(&self) -> &[Train] {
        &self.trains
    }

    pub fn packet(&self, at: Range<usize>) -> &[u8] {
        self.bytes.get(at).unwrap_or_default()
    }

    /// Forgets the packets, which have left. From now on packets are `coupled` to trains, or each is one.
    pub fn clear(&mut self, coupled: bool) {
        self.used = 0;
        self.trains.clear();
        self.coupled = coupled;
    }
}

impl Default for Trains {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn packet() -> impl Strategy<Value = (usize, u16, u8)> {
        (
            prop::sample::select(vec![88usize, 600, 1472, 9000]),
            1..3u16,
            0..2u8,
        )
    }

    proptest! {
        #[test]
        fn trains_are_the_packets_in_order_within_the_kernels_limits(packets in prop::collection::vec(packet(), 0..200)) {
            let mut trains = Trains::new();
            let mut departed = vec![];
            for (number, (len, port, class)) in packets.into_iter().enumerate() {
                let Some(room) = trains.room(len) else { break };
                room.fill(number as u8);
                let to = SocketAddr::from(([192, 0, 2, 1], port));
                trains.depart(len, to, TrafficClass(class));
                departed.push((vec![number as u8; len], to, TrafficClass(class)));
            }
            let mut arrived = vec![];
            for train in trains.trains() {
                prop_assert!(train.packets() <= MAX_SEGMENTS && train.bytes.len() <= MAX_BYTES);
                for packet in trains.packet(train.bytes.clone()).chunks(train.segment) {
                    arrived.push((packet.to_vec(), train.to, train.class));
                }
            }
            prop_assert_eq!(arrived, departed);
        }
    }

    #[test]
    fn the_largest_packet_fits_when_all_have_left() {
        let mut trains = Trains::new();
        assert!(trains.room(65535 + esp::MAX_OVERHEAD).is_some());
        while !trains.is_full() {
            trains.depart(
                1472,
                SocketAddr::from(([192, 0, 2, 1], 4500)),
                TrafficClass(0),
            );
        }
        assert!(trains.trains().iter().all(|train| train.packets() <= 44));
        trains.clear(false);
        assert_eq!(trains.trains(), []);
    }
}
