//! Fields to wire bytes and back: big-endian, most significant bit first, of any width at any bit offset.

/// Bits `at..at + width` of `bytes`, `width` at most 128; `None` when they are not all there.
#[inline]
pub fn read(bytes: &[u8], at: usize, width: u32) -> Option<u128> {
    let (first, skip) = (at / 8, (at % 8) as u32);
    if width > 0
        && skip + width <= 64
        && let Some(eight) = bytes.get(first..).and_then(|rest| rest.first_chunk::<8>())
    {
        let value = u64::from_be_bytes(*eight) >> (64 - skip - width);
        return Some(u128::from(value & u64::MAX >> (64 - width)));
    }
    read_slowly(bytes, at, width)
}

/// Near the end of the bytes, or more than eight of them.
fn read_slowly(bytes: &[u8], at: usize, width: u32) -> Option<u128> {
    let end = at.checked_add(width as usize)?;
    let last = end.div_ceil(8);
    let window = bytes.get(at / 8..last)?;
    let pad = (last * 8 - end) as u32;
    let Some((tail, head)) = window.split_last() else {
        return Some(0);
    };
    let high = head
        .iter()
        .fold(0, |value: u128, byte| value << 8 | u128::from(*byte));
    Some((high << (8 - pad) | u128::from(tail >> pad)) & mask(width))
}

/// `width` bits from bit `at` on, right-aligned into `out`.
pub fn read_bytes(bytes: &[u8], at: usize, width: u32, out: &mut [u8]) {
    let mut at = at;
    let mut left = width;
    for byte in out {
        let take = if left.is_multiple_of(8) {
            8.min(left)
        } else {
            left % 8
        };
        *byte = read(bytes, at, take).unwrap_or(0) as u8;
        at += take as usize;
        left -= take;
    }
}

/// The bits of a value of `width` bits.
#[inline]
pub const fn mask(width: u32) -> u128 {
    if width >= 128 {
        u128::MAX
    } else {
        (1 << width) - 1
    }
}

/// Appends fields to a byte buffer.
pub struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    /// Bits that are not in `bytes` yet, the first one highest.
    pending: u64,
    /// Number of pending bits: fewer than 64.
    count: u32,
}

impl<'a> Writer<'a> {
    /// Appends to `bytes`, from its end.
    pub fn new(bytes: &'a mut Vec<u8>) -> Writer<'a> {
        Writer {
            bytes,
            pending: 0,
            count: 0,
        }
    }

    /// The low `width` bits of `value`, `width` at most 128.
    #[inline]
    pub fn put(&mut self, value: u128, width: u32) {
        match width {
            0 => {}
            1..=64 => self.put_word(value as u64 & u64::MAX >> (64 - width), width),
            _ => {
                self.put_word((value >> 64) as u64 & u64::MAX >> (128 - width), width - 64);
                self.put_word(value as u64, 64);
            }
        }
    }

    /// `value` has `width` bits, 1 to 64.
    #[inline]
    fn put_word(&mut self, value: u64, width: u32) {
        let room = 64 - self.count;
        if width < room {
            self.pending |= value << (room - width);
            self.count += width;
            return;
        }
        let left = width - room;
        let word = self.pending | value >> left;
        self.bytes.extend_from_slice(&word.to_be_bytes());
        self.pending = if left == 0 { 0 } else { value << (64 - left) };
        self.count = left;
    }

    /// A value of `width` bits in big-endian bytes.
    pub fn put_bytes(&mut self, big_endian: &[u8], width: u32) {
        if self.count.is_multiple_of(8) && width as usize == big_endian.len() * 8 {
            return self.put_slice(big_endian);
        }
        let mut left = width;
        for byte in big_endian {
            let take = if left.is_multiple_of(8) {
                8.min(left)
            } else {
                left % 8
            };
            self.put(u128::from(*byte), take);
            left -= take;
        }
    }

    /// Whole bytes.
    pub fn put_slice(&mut self, bytes: &[u8]) {
        if self.count.is_multiple_of(8) {
            self.flush();
            self.bytes.extend_from_slice(bytes);
        } else {
            bytes.iter().for_each(|byte| self.put(u128::from(*byte), 8));
        }
    }

    /// Fills the last byte up with zeros.
    pub fn finish(mut self) {
        self.flush();
    }

    fn flush(&mut self) {
        let bytes = self.pending.to_be_bytes();
        self.bytes
            .extend_from_slice(&bytes[..self.count.div_ceil(8) as usize]);
        (self.pending, self.count) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(fields in prop::collection::vec((any::<u128>(), 0u32..=128), 0..12), tail in 0usize..9) {
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes);
            fields.iter().for_each(|(value, width)| writer.put(*value, *width));
            writer.finish();
            let total = fields.iter().map(|(_, width)| *width as usize).sum::<usize>();
            prop_assert_eq!(bytes.len(), total.div_ceil(8));
            bytes.extend(std::iter::repeat_n(0xff, tail));
            let mut at = 0;
            for (value, width) in fields {
                prop_assert_eq!(read(&bytes, at, width), Some(value & mask(width)));
                at += width as usize;
            }
        }
    }

    #[test]
    fn reading_past_the_end_fails() {
        assert_eq!(read(&[0xab, 0xcd], 4, 8), Some(0xbc));
        assert_eq!(read(&[0xab, 0xcd], 4, 12), Some(0xbcd));
        assert_eq!(read(&[0xab, 0xcd], 4, 13), None);
        assert_eq!(read(&[], usize::MAX, 8), None);
    }

    #[test]
    fn wide_values_keep_their_leading_bits() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.put(1, 4);
        writer.put_bytes(&[0x02, 0xff], 10);
        writer.put(3, 2);
        writer.finish();
        assert_eq!(bytes, [0x1b, 0xff]);
    }
}
