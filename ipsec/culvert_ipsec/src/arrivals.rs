//! The messages of one call to the UDP socket, side by side: each is one datagram or several of one length. No I/O.

use std::ops::Range;

use crate::control::Received;

/// Messages taken in one call.
pub const MESSAGES: usize = 16;
/// Room for the longest UDP payload. Not a power of two: messages would meet in the same lines of the cache.
pub const ROOM: usize = 65536 + 1088;

pub struct Arrivals {
    bytes: Vec<u8>,
    messages: Vec<(usize, Received)>,
}

impl Arrivals {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; MESSAGES * ROOM],
            messages: Vec::with_capacity(MESSAGES),
        }
    }

    /// `MESSAGES` rooms of `ROOM` bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub fn clear(&mut self) {
        self.messages.clear();
    }

    /// The next room has been filled with so many bytes.
    pub fn add(&mut self, len: usize, received: Received) {
        self.messages.push((len.min(ROOM), received));
    }

    /// All bytes, and the range of each datagram in them.
    pub fn datagrams(&mut self) -> (&mut [u8], impl Iterator<Item = (Range<usize>, Received)>) {
        let messages = self.messages.iter().enumerate();
        let datagrams = messages.flat_map(|(index, (len, received))| {
            let (start, end) = (index * ROOM, index * ROOM + len);
            let segment = received.segment.unwrap_or(*len).max(1);
            (0..len.div_ceil(segment).max(1)).map(move |number| {
                let at = start + number * segment;
                (at..(at + segment).min(end), *received)
            })
        });
        (&mut self.bytes, datagrams)
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esp::TrafficClass;

    #[test]
    fn a_message_is_cut_at_its_segment_length() {
        let received = |segment| Received {
            class: TrafficClass(0),
            segment,
        };
        let mut arrivals = Arrivals::new();
        arrivals.add(250, received(Some(100)));
        arrivals.add(80, received(None));
        arrivals.add(0, received(None));
        let ranges: Vec<_> = arrivals.datagrams().1.map(|(at, _)| at).collect();
        assert_eq!(
            ranges,
            [
                0..100,
                100..200,
                200..250,
                ROOM..ROOM + 80,
                2 * ROOM..2 * ROOM
            ]
        );
    }
}
