//! The Internet checksum (RFC 1071).

/// The sum of 16-bit words in network order; an odd last byte counts as the first of a word.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    // The sum does not depend on the byte order that it is formed in (RFC 1071, section 2 (B)), nor on the width of the words.
    let words = bytes.chunks_exact(4);
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    let mut total = u64::from(u32::from_ne_bytes(last));
    for word in words {
        total += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    u32::from(u16::from_be(total as u16))
}

/// A sum of sums in 16 bits.
pub(super) fn fold(mut total: u32) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_sum_of_its_words(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let words = bytes.chunks(2).map(|word| {
                u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low))
            });
            prop_assert_eq!(fold(sum(&bytes)), fold(words.sum()));
        }
    }

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(
            fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])),
            0xddf2
        );
    }
}
