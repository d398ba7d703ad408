//! The hash algorithms of v1model.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 1071.
    Csum16,
    Xor16,
    /// CRC-16/ARC.
    Crc16,
    /// CRC-16 with polynomial 0x1021, from 0xffff.
    CrcCcitt,
    /// CRC-32/ISO-HDLC.
    Crc32,
    /// The first eight bytes.
    Identity,
}

impl Algorithm {
    /// Finds an algorithm by the name that bmv2 gives it.
    pub fn named(name: &str) -> Option<Algorithm> {
        Some(match name {
            "csum16" | "cksum16" => Algorithm::Csum16,
            "xor16" => Algorithm::Xor16,
            // The custom ones start with the standard polynomial; bmv2 changes it through its own control plane only.
            "crc16" | "crc16_custom" => Algorithm::Crc16,
            "crcCCITT" => Algorithm::CrcCcitt,
            "crc32" | "crc32_custom" => Algorithm::Crc32,
            "identity" => Algorithm::Identity,
            _ => return None,
        })
    }

    pub fn run(self, bytes: &[u8]) -> u64 {
        match self {
            Algorithm::Csum16 => u64::from(csum16(bytes)),
            Algorithm::Xor16 => u64::from(words(bytes).fold(0, |sum, word| sum ^ word)),
            Algorithm::Crc16 => u64::from(crc16_reflected(bytes)),
            Algorithm::CrcCcitt => u64::from(crc_ccitt(bytes)),
            Algorithm::Crc32 => u64::from(crc32(bytes)),
            Algorithm::Identity => bytes
                .iter()
                .take(8)
                .fold(0, |value, byte| value << 8 | u64::from(*byte)),
        }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes
        .chunks(2)
        .map(|pair| u16::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u16::from(*low)))
}

fn csum16(bytes: &[u8]) -> u16 {
    fold(words_sum(bytes))
}

/// The sum of 16-bit words, for [`fold`]. Words of any even size may be added before folding (RFC 1071 section 2).
pub fn words_sum(bytes: &[u8]) -> u64 {
    let fours = bytes.chunks_exact(4);
    let rest = words(fours.remainder()).map(u64::from).sum::<u64>();
    let sum = fours
        .map(|four| u64::from(u32::from_be_bytes([four[0], four[1], four[2], four[3]])))
        .sum::<u64>();
    sum + rest
}

/// The checksum of words that add up to `sum`.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn crc16_reflected(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xa001
            } else {
                crc >> 1
            }
        })
    })
}

fn crc_ccitt(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xffff, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            if crc & 0x8000 != 0 {
                crc << 1 ^ 0x1021
            } else {
                crc << 1
            }
        })
    })
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values that catalogues of CRCs print for this input.
    const CHECK: &[u8] = b"123456789";

    #[test]
    fn crcs_give_their_check_values() {
        assert_eq!(Algorithm::Crc16.run(CHECK), 0xbb3d);
        assert_eq!(Algorithm::CrcCcitt.run(CHECK), 0x29b1);
        assert_eq!(Algorithm::Crc32.run(CHECK), 0xcbf4_3926);
    }

    #[test]
    fn checksum_of_rfc_1071() {
        assert_eq!(
            Algorithm::Csum16.run(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2 & 0xffff
        );
        assert_eq!(Algorithm::Csum16.run(&[0xff]), 0x00ff);
        assert_eq!(Algorithm::Xor16.run(&[0x12, 0x34, 0x56]), 0x4434);
        assert_eq!(Algorithm::Identity.run(&[1, 2]), 0x0102);
    }
}
