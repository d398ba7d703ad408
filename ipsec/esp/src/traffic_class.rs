//! DSCP and ECN between inner and outer header: RFC 6040 in its normal mode, RFC 2983's pipe of one class.
//!
//! ```text
//!  arriving outer:    Not-ECT   ECT(0)   ECT(1)   CE
//!  inner Not-ECT      Not-ECT   Not-ECT  Not-ECT  drop
//!        ECT(0)       ECT(0)    ECT(0)   ECT(1)   CE
//!        ECT(1)       ECT(1)    ECT(1)   ECT(1)   CE
//!        CE           CE        CE       CE       CE
//! ```

/// An IPv4 TOS byte or IPv6 traffic class: DSCP in the upper six bits, ECN in the lower two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficClass(pub u8);

const ECN: u8 = 0b11;
const NOT_ECT: u8 = 0b00;
const ECT_1: u8 = 0b01;
const CE: u8 = 0b11;

/// The network marked congestion on a packet whose sender can't hear of it (RFC 6040 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congested;

impl TrafficClass {
    /// The inner header's, on decapsulation: its own DSCP, and the combined ECN (RFC 6040 section 4.2).
    pub const fn decapsulate(self, outer: Self) -> Result<Self, Congested> {
        let ecn = match (self.0 & ECN, outer.0 & ECN) {
            (NOT_ECT, CE) => return Err(Congested),
            (NOT_ECT, _) => NOT_ECT,
            (_, CE) => CE,
            (CE, _) => CE,
            (_, ECT_1) => ECT_1,
            (inner, _) => inner,
        };
        Ok(Self(self.0 & !ECN | ecn))
    }

    /// Reads the traffic class of an IPv4 or IPv6 packet.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let [first, second, ..] = *packet else {
            return None;
        };
        match first >> 4 {
            4 => Some(Self(second)),
            6 => Some(Self(first << 4 | second >> 4)),
            _ => None,
        }
    }

    /// Into an IPv4 packet, whose header checksum follows (RFC 1624), or an IPv6 packet; nothing else is changed.
    pub fn write(self, packet: &mut [u8]) {
        let Some((header, rest)) = packet.split_first_chunk_mut::<2>() else {
            return;
        };
        match header[0] >> 4 {
            4 => {
                let before = u16::from_be_bytes(*header);
                header[1] = self.0;
                let after = u16::from_be_bytes(*header);
                if let Some([high, low]) = rest.get_mut(8..10) {
                    let sum = u16::from_be_bytes([*high, *low]);
                    [*high, *low] = updated_checksum(sum, before, after).to_be_bytes();
                }
            }
            6 => {
                *header = [
                    header[0] & 0xf0 | self.0 >> 4,
                    self.0 << 4 | header[1] & 0x0f,
                ]
            }
            _ => {}
        }
    }
}

/// RFC 1624 equation 3.
fn updated_checksum(sum: u16, before: u16, after: u16) -> u16 {
    let total = u32::from(!sum) + u32::from(!before) + u32::from(after);
    let folded = (total & 0xffff) + (total >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(header: &[u8]) -> u16 {
        let words = header
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum: u32 = words.sum();
        !((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn ecn_combines_as_rfc_6040_figure_4_says() {
        const ECT_0: u8 = 0b10;
        let drop = Err(Congested);
        #[rustfmt::skip]
        let figure = [
            (NOT_ECT, [Ok(NOT_ECT), Ok(NOT_ECT), Ok(NOT_ECT), drop]),
            (ECT_0,   [Ok(ECT_0),   Ok(ECT_0),   Ok(ECT_1),   Ok(CE)]),
            (ECT_1,   [Ok(ECT_1),   Ok(ECT_1),   Ok(ECT_1),   Ok(CE)]),
            (CE,      [Ok(CE),      Ok(CE),      Ok(CE),      Ok(CE)]),
        ];
        for (inner, row) in figure {
            for (outer, expected) in [NOT_ECT, ECT_0, ECT_1, CE].into_iter().zip(row) {
                let (inner, outer) = (TrafficClass(46 << 2 | inner), TrafficClass(8 << 2 | outer));
                let expected = expected.map(|ecn| TrafficClass(46 << 2 | ecn));
                assert_eq!(inner.decapsulate(outer), expected, "{inner:?} in {outer:?}");
            }
        }
    }

    #[test]
    fn headers_are_read_and_written() {
        let mut v4 = [
            0x45, 0x02, 0, 40, 1, 2, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        let sum = checksum(&v4);
        v4[10..12].copy_from_slice(&sum.to_be_bytes());
        for bits in (0..=255).chain([2]) {
            TrafficClass(bits).write(&mut v4);
            assert_eq!(TrafficClass::of(&v4), Some(TrafficClass(bits)));
            assert_eq!(checksum(&v4), 0);
        }
        let mut v6 = [0x6a, 0xbc, 0xde, 0xf0];
        assert_eq!(TrafficClass::of(&v6), Some(TrafficClass(0xab)));
        TrafficClass(0x12).write(&mut v6);
        assert_eq!(v6, [0x61, 0x2c, 0xde, 0xf0]);
        for other in [&mut [][..], &mut [0x45], &mut [0x45, 0], &mut [0, 0, 0]] {
            TrafficClass(3).write(other);
        }
        assert_eq!(TrafficClass::of(&[0x45]), None);
    }
}
