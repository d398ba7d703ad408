//! The Internet checksum (RFC 1071).

const BLOCK: usize = 32;
const WORD: usize = 4;

/// The ones' complement sum of big-endian 16-bit words, the last one filled up with a zero byte: at most 0xffff.
pub fn sum(bytes: &[u8]) -> u32 {
    // The sum is in the machine's byte order, which RFC 1071 section 2 (B) allows, and in lanes that a compiler makes vectors of.
    let mut lanes = [0u64; BLOCK / WORD];
    let mut blocks = bytes.chunks_exact(BLOCK);
    for block in &mut blocks {
        for (lane, word) in lanes.iter_mut().zip(block.chunks_exact(WORD)) {
            *lane += native(word);
        }
    }
    let mut words = blocks.remainder().chunks_exact(WORD);
    let mut total = lanes.iter().sum::<u64>();
    for word in &mut words {
        total += native(word);
    }
    let mut last = [0; WORD];
    for (to, from) in last.iter_mut().zip(words.remainder()) {
        *to = *from;
    }
    total += native(&last);
    let total = (total >> 32) + (total & 0xffff_ffff);
    let total = (total >> 16) + (total & 0xffff);
    u32::from(u16::from_be(fold(total as u32)))
}

/// Four bytes as they lie in memory.
fn native(word: &[u8]) -> u64 {
    word.first_chunk()
        .map_or(0, |word| u64::from(u32::from_ne_bytes(*word)))
}

/// A sum of sums in 16 bits.
pub const fn fold(total: u32) -> u16 {
    let total = (total >> 16) + (total & 0xffff);
    ((total >> 16) + total) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_the_book(bytes: &[u8]) -> u32 {
        let words = bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
        words.fold(0, |total, word| {
            let total = total + word;
            (total >> 16) + (total & 0xffff)
        })
    }

    proptest! {
        #[test]
        fn agrees_with_rfc_1071(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(sum(&bytes), by_the_book(&bytes));
        }
    }

    #[test]
    fn the_largest_sums_do_not_overflow() {
        assert_eq!(sum(&[0xff; 70_001]), by_the_book(&[0xff; 70_001]));
        assert_eq!(fold(u32::MAX), 0xffff);
    }
}
