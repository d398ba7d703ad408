//! Fields to wire bytes and back: big-endian, most significant bit first, of any width at any bit offset.

/// Bits `at..at + width` of `bytes`, `width` at most 128; `None` when they are not all there.
#[inline]
pub fn read(bytes: &[u8], at: usize, width: u32) -> Option<u128> {
    if width == 0 {
        return Some(0);
    }
    let first = at / 8;
    let end = at.checked_add(width as usize)?;
    let last = end.div_ceil(8);
    let window = bytes.get(first..last)?;
    let pad = (last * 8 - end) as u32;
    if window.len() <= 8 {
        let value = match bytes
            .get(first..first + 8)
            .and_then(|eight| <[u8; 8]>::try_from(eight).ok())
        {
            Some(eight) => u64::from_be_bytes(eight) >> (64 - 8 * window.len()),
            None => window
                .iter()
                .fold(0, |value, byte| value << 8 | u64::from(*byte)),
        };
        return Some(u128::from(value >> pad) & mask(width));
    }
    let (tail, head) = window.split_last()?;
    let high = head
        .iter()
        .fold(0, |value: u128, byte| value << 8 | u128::from(*byte));
    Some((high << (8 - pad) | u128::from(tail >> pad)) & mask(width))
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
    /// Bits that are not in `bytes` yet, the last ones lowest; fewer than 64 between calls.
    pending: u128,
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
        if width > 64 {
            self.put_word(value >> 64, width - 64);
            self.put_word(value, 64);
        } else {
            self.put_word(value, width);
        }
    }

    #[inline]
    fn put_word(&mut self, value: u128, width: u32) {
        self.pending = self.pending << width | value & mask(width);
        self.count += width;
        if self.count >= 64 {
            self.count -= 64;
            let word = (self.pending >> self.count) as u64;
            self.bytes.extend_from_slice(&word.to_be_bytes());
            self.pending &= mask(self.count);
        }
    }

    /// A value of `width` bits in big-endian bytes.
    pub fn put_bytes(&mut self, big_endian: &[u8], width: u32) {
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
        while self.count > 0 {
            let take = self.count.min(8);
            let byte = self.pending >> (self.count - take) << (8 - take);
            self.bytes.push(byte as u8);
            self.count -= take;
        }
        self.pending = 0;
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
