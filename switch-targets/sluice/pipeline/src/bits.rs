//! An unsigned value of known width, as a table key, an action argument or a digest field carries it.

use std::fmt;

/// An unsigned integer of `width` bits, big-endian in the fewest whole bytes that hold the width.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bits {
    width: u32,
    bytes: Bytes,
}

/// Most values are short: they stand at the start of an array, zeros behind them, and cost no allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Bytes {
    Short([u8; SHORT]),
    Long(Box<[u8]>),
}

const SHORT: usize = 16;

impl Bytes {
    fn zeros(len: usize) -> Bytes {
        match len {
            ..=SHORT => Bytes::Short([0; SHORT]),
            _ => Bytes::Long(vec![0; len].into()),
        }
    }

    fn get(&self, len: usize) -> &[u8] {
        match self {
            Bytes::Short(bytes) => &bytes[..len.min(SHORT)],
            Bytes::Long(bytes) => bytes,
        }
    }

    fn get_mut(&mut self, len: usize) -> &mut [u8] {
        match self {
            Bytes::Short(bytes) => &mut bytes[..len.min(SHORT)],
            Bytes::Long(bytes) => bytes,
        }
    }
}

/// The value does not fit its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("value does not fit {width} bits")]
pub struct TooWide {
    pub width: u32,
}

/// Bytes that hold `width` bits.
pub(crate) const fn byte_len(width: u32) -> usize {
    (width as usize).div_ceil(8)
}

impl Bits {
    /// Makes a value from big-endian bytes of any length; leading zeros may be absent or superfluous, as P4Runtime allows.
    pub fn new(width: u32, big_endian: &[u8]) -> Result<Bits, TooWide> {
        let zeros = big_endian.iter().take_while(|b| **b == 0).count();
        let significant = &big_endian[zeros..];
        let len = byte_len(width);
        let top = significant.first().filter(|_| significant.len() == len);
        if significant.len() > len || top.is_some_and(|top| top & !first_byte_mask(width) != 0) {
            return Err(TooWide { width });
        }
        Ok(Bits::made(width, |bytes| copy_low(significant, bytes)))
    }

    /// The low bits of `value`.
    pub fn from_u128(width: u32, value: u128) -> Bits {
        Bits::made(width, |bytes| write_low(bytes, value))
    }

    /// Makes a value from the low bits of big-endian bytes; bits that do not fit are cut off.
    pub(crate) fn cut(width: u32, big_endian: &[u8]) -> Bits {
        Bits::made(width, |bytes| copy_low(big_endian, bytes))
    }

    pub fn zero(width: u32) -> Bits {
        Bits::made(width, |_| ())
    }

    /// Makes a value with all bits set.
    pub fn ones(width: u32) -> Bits {
        Bits::made(width, |bytes| bytes.fill(0xff))
    }

    fn made(width: u32, write: impl FnOnce(&mut [u8])) -> Bits {
        let len = byte_len(width);
        let mut own = Bytes::zeros(len);
        let bytes = own.get_mut(len);
        write(bytes);
        if let Some(first) = bytes.first_mut() {
            *first &= first_byte_mask(width);
        }
        Bits { width, bytes: own }
    }

    /// Width in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Big-endian, `width` rounded up to whole bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(byte_len(self.width))
    }

    /// Big-endian without leading zeros, one byte at least: P4Runtime's canonical form.
    pub fn canonical(&self) -> &[u8] {
        let bytes = self.bytes();
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        &bytes[zeros.min(bytes.len().saturating_sub(1))..]
    }

    /// The low 128 bits.
    pub fn low_u128(&self) -> u128 {
        read_low(self.bytes())
    }

    /// The value, if it fits 64 bits.
    pub fn to_u64(&self) -> Option<u64> {
        let canonical = self.canonical();
        (canonical.len() <= 8).then(|| {
            canonical
                .iter()
                .fold(0, |value, byte| value << 8 | u64::from(*byte))
        })
    }
}

/// The bits of the first byte that belong to a value of `width` bits.
pub(crate) const fn first_byte_mask(width: u32) -> u8 {
    match width % 8 {
        0 => 0xff,
        rest => (1 << rest) - 1,
    }
}

/// Big-endian bytes, the last 16 of them, as a number.
#[inline]
pub(crate) fn read_low(bytes: &[u8]) -> u128 {
    // The sizes that fields have.
    match *bytes {
        [byte] => return u128::from(byte),
        [a, b] => return u128::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => return u128::from(u32::from_be_bytes([a, b, c, d])),
        _ => {}
    }
    if let Ok(eight) = <[u8; 8]>::try_from(bytes) {
        return u128::from(u64::from_be_bytes(eight));
    }
    if let Some(sixteen) = bytes.last_chunk::<16>() {
        return u128::from_be_bytes(*sixteen);
    }
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u128::from(*byte))
}

/// `value` big-endian at the end of `bytes`, zeros before it; what does not fit is cut off.
#[inline]
pub(crate) fn write_low(bytes: &mut [u8], value: u128) {
    // The sizes that fields have: without calls into the C library.
    match bytes.len() {
        1 => bytes[0] = value as u8,
        2 => bytes.copy_from_slice(&(value as u16).to_be_bytes()),
        4 => bytes.copy_from_slice(&(value as u32).to_be_bytes()),
        8 => bytes.copy_from_slice(&(value as u64).to_be_bytes()),
        16 => bytes.copy_from_slice(&value.to_be_bytes()),
        _ => {
            let mut left = value;
            for byte in bytes.iter_mut().rev() {
                *byte = left as u8;
                left >>= 8;
            }
        }
    }
}

/// Copies the low bytes; zeros go before them.
pub(crate) fn copy_low(from: &[u8], to: &mut [u8]) {
    let take = from.len().min(to.len());
    let (zeros, low) = to.split_at_mut(to.len() - take);
    zeros.fill(0);
    low.copy_from_slice(&from[from.len() - take..]);
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}w0x", self.width)?;
        self.bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn leading_zeros_are_free_and_overflow_is_refused() {
        assert_eq!(Bits::new(9, &[0, 0, 1, 0xff]).unwrap().bytes(), [1, 0xff]);
        assert_eq!(Bits::new(9, &[5]).unwrap().bytes(), [0, 5]);
        assert_eq!(Bits::new(9, &[2, 0]), Err(TooWide { width: 9 }));
        assert_eq!(Bits::new(16, &[]).unwrap(), Bits::zero(16));
    }

    #[test]
    fn canonical_form_keeps_one_byte() {
        assert_eq!(Bits::zero(32).canonical(), [0]);
        assert_eq!(Bits::from_u128(32, 0x1234).canonical(), [0x12, 0x34]);
        assert_eq!(Bits::ones(12).to_u64(), Some(0xfff));
        assert_eq!(Bits::ones(384).to_u64(), None);
        assert_eq!(Bits::ones(384).low_u128(), u128::MAX);
    }
}
