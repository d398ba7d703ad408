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

/// Appends fields to a byte buffer; the last byte is filled up with zeros.
pub struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    /// Bits of the last byte that are still free.
    free: u32,
}

impl<'a> Writer<'a> {
    /// Appends to `bytes`, from its end.
    pub fn new(bytes: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { bytes, free: 0 }
    }

    /// The low `width` bits of `value`, `width` at most 128.
    #[inline]
    pub fn put(&mut self, value: u128, width: u32) {
        if self.free == 0 && width.is_multiple_of(8) {
            let source = value.to_be_bytes();
            self.bytes
                .extend_from_slice(&source[16 - (width / 8) as usize..]);
            return;
        }
        let value = value & mask(width);
        let mut left = width;
        while left > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let take = self.free.min(left);
            let chunk = (value >> (left - take)) as u8 & mask(take) as u8;
            if let Some(last) = self.bytes.last_mut() {
                *last |= chunk << (self.free - take);
            }
            self.free -= take;
            left -= take;
        }
    }

    /// Whole bytes.
    pub fn put_slice(&mut self, bytes: &[u8]) {
        match self.free {
            0 => self.bytes.extend_from_slice(bytes),
            _ => bytes.iter().for_each(|byte| self.put(u128::from(*byte), 8)),
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
        assert_eq!(bytes, [0x1b, 0xff]);
    }
}
