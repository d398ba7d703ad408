//! An entry's key, checked and packed.

use crate::bits::{Bits, byte_len};
use crate::entry::MatchValue;
use crate::error::TableError;
use crate::spec::{KeySpec, MatchKind};
use crate::tuple_space::{Pattern, RangeCheck, Rule};

/// The identity of an entry: its pattern and its rank among those that match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub pattern: Pattern,
    pub priority: i32,
}

/// The key and priority of an entry of a table with these key fields.
pub fn identify(
    specs: &[KeySpec],
    key: &[MatchValue],
    priority: i32,
) -> Result<Identity, TableError> {
    let (pattern, prefix) = pack(specs, key)?;
    let prioritised = specs.iter().any(|spec| {
        matches!(
            spec.kind,
            MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
        )
    });
    let bad = |cause| {
        Err(TableError::BadPriority {
            got: priority,
            cause,
        })
    };
    let priority = match (prioritised, priority) {
        (true, 1..) => priority,
        (true, _) => {
            return bad("a table with ternary, range or optional fields needs one above 0");
        }
        (false, 0) => prefix,
        (false, _) => return bad("a table with exact and lpm fields only takes none"),
    };
    Ok(Identity { pattern, priority })
}

/// The pattern of a key, and the length of its prefix, if it has one.
pub fn pack(specs: &[KeySpec], key: &[MatchValue]) -> Result<(Pattern, i32), TableError> {
    if key.len() != specs.len() {
        return Err(TableError::BadKeyLength {
            got: key.len(),
            expected: specs.len(),
        });
    }
    let mut packed = Packed::default();
    for (spec, value) in specs.iter().zip(key) {
        packed
            .add(spec, value)
            .map_err(|cause| TableError::BadKey {
                field: spec.name.clone(),
                cause,
            })?;
    }
    let pattern = Pattern {
        value: packed.value.into(),
        mask: packed.mask.into(),
        ranges: packed.ranges.into(),
    };
    Ok((pattern, packed.prefix))
}

/// The key that [`identify`] made the rule from, as far as the match kinds tell: a ternary field that was given as an
/// optional one comes back as a ternary one.
pub fn key_of(specs: &[KeySpec], rule: &Rule) -> Vec<MatchValue> {
    let mut at = 0;
    let field = |spec: &KeySpec| {
        let (start, end) = (at, at + byte_len(spec.width));
        at = end;
        let bits = |bytes: &[u8]| Bits::cut(spec.width, bytes);
        let (value, mask) = (bits(&rule.value[start..end]), &rule.mask[start..end]);
        let (whole, none) = (
            mask.iter().all(|byte| *byte == 0xff),
            mask.iter().all(|byte| *byte == 0),
        );
        match spec.kind {
            MatchKind::Exact => MatchValue::Exact(value),
            MatchKind::Lpm => {
                let len: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
                let len = len.min(spec.width) as u16;
                MatchValue::Lpm { value, len }
            }
            MatchKind::Optional if none => MatchValue::Optional(None),
            MatchKind::Optional if whole => MatchValue::Optional(Some(value)),
            MatchKind::Ternary | MatchKind::Optional => MatchValue::Ternary {
                value,
                mask: bits(mask),
            },
            MatchKind::Range if whole => MatchValue::Range {
                low: value.clone(),
                high: value,
            },
            MatchKind::Range => match rule.ranges.iter().find(|range| range.offset == start) {
                Some(range) => MatchValue::Range {
                    low: bits(&range.low),
                    high: bits(&range.high),
                },
                None => MatchValue::Range {
                    low: Bits::zero(spec.width),
                    high: Bits::ones(spec.width),
                },
            },
        }
    };
    specs.iter().map(field).collect()
}

#[derive(Default)]
struct Packed {
    value: Vec<u8>,
    mask: Vec<u8>,
    ranges: Vec<RangeCheck>,
    /// The longest prefix wins: its length is the priority of an lpm entry.
    prefix: i32,
}

impl Packed {
    fn add(&mut self, spec: &KeySpec, value: &MatchValue) -> Result<(), &'static str> {
        let has_width = |bits: &Bits| {
            if bits.width() == spec.width {
                Ok(())
            } else {
                Err("has another width")
            }
        };
        match (spec.kind, value) {
            (MatchKind::Exact, MatchValue::Exact(value))
            | (MatchKind::Ternary | MatchKind::Optional, MatchValue::Optional(Some(value))) => {
                has_width(value)?;
                self.push(value.bytes(), &whole(value));
            }
            (MatchKind::Ternary | MatchKind::Optional, MatchValue::Optional(None)) => {
                self.push_any(spec.width)
            }
            (MatchKind::Ternary | MatchKind::Optional, MatchValue::Ternary { value, mask }) => {
                has_width(value)?;
                has_width(mask)?;
                self.push_masked(
                    value,
                    if *mask == Bits::ones(spec.width) {
                        whole(value)
                    } else {
                        mask.bytes().to_vec()
                    },
                )?;
            }
            (MatchKind::Lpm, MatchValue::Lpm { value, len }) => {
                has_width(value)?;
                if u32::from(*len) > spec.width {
                    return Err("the prefix is longer than the field");
                }
                self.prefix = i32::from(*len);
                self.push_masked(value, prefix_mask(spec.width, u32::from(*len)))?;
            }
            (MatchKind::Range, MatchValue::Range { low, high }) => {
                has_width(low)?;
                has_width(high)?;
                if low.bytes() > high.bytes() {
                    return Err("the range is empty");
                }
                self.push_range(low, high);
            }
            _ => return Err("has another match kind"),
        }
        Ok(())
    }

    fn push(&mut self, value: &[u8], mask: &[u8]) {
        self.value.extend_from_slice(value);
        self.mask.extend_from_slice(mask);
    }

    fn push_any(&mut self, width: u32) {
        let zeros = Bits::zero(width);
        self.push(zeros.bytes(), zeros.bytes());
    }

    fn push_masked(&mut self, value: &Bits, mask: Vec<u8>) -> Result<(), &'static str> {
        if value
            .bytes()
            .iter()
            .zip(&mask)
            .any(|(byte, mask)| byte & !mask != 0)
        {
            return Err("has bits set outside its mask");
        }
        self.push(value.bytes(), &mask);
        Ok(())
    }

    fn push_range(&mut self, low: &Bits, high: &Bits) {
        if low == high {
            return self.push(low.bytes(), &whole(low));
        }
        if *low != Bits::zero(low.width()) || *high != Bits::ones(high.width()) {
            let (low, high) = (low.bytes().into(), high.bytes().into());
            self.ranges.push(RangeCheck {
                offset: self.value.len(),
                low,
                high,
            });
        }
        self.push_any(low.width());
    }
}

/// The mask of a field that must be equal: whole bytes, so that a key of such fields needs no masking.
fn whole(value: &Bits) -> Vec<u8> {
    vec![0xff; value.bytes().len()]
}

/// The mask of the first `len` bits; a full prefix masks whole bytes, as [`whole`] does.
pub fn prefix_mask(width: u32, len: u32) -> Vec<u8> {
    if len == width {
        return whole(&Bits::zero(width));
    }
    let mut mask = Bits::ones(width).bytes().to_vec();
    let bits = mask.len() as u32 * 8;
    for clear in 0..width - len {
        let at = bits - 1 - clear;
        mask[(at / 8) as usize] &= !(0x80 >> (at % 8));
    }
    mask
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn spec(width: u32, kind: MatchKind) -> KeySpec {
        KeySpec {
            name: "field".to_owned(),
            width,
            kind,
        }
    }

    #[test]
    fn prefixes_of_odd_widths() {
        assert_eq!(prefix_mask(9, 9), [0xff, 0xff]);
        assert_eq!(prefix_mask(9, 8), [0x01, 0xfe]);
        assert_eq!(prefix_mask(9, 1), [0x01, 0x00]);
        assert_eq!(prefix_mask(32, 0), [0, 0, 0, 0]);
    }

    #[test]
    fn priorities_are_for_tables_that_need_them() {
        let exact = [MatchValue::Exact(Bits::zero(8))];
        assert!(identify(&[spec(8, MatchKind::Exact)], &exact, 0).is_ok());
        assert!(matches!(
            identify(&[spec(8, MatchKind::Exact)], &exact, 1),
            Err(TableError::BadPriority { .. })
        ));
        let any = [MatchValue::Optional(None)];
        assert!(matches!(
            identify(&[spec(8, MatchKind::Optional)], &any, 0),
            Err(TableError::BadPriority { .. })
        ));
        assert_eq!(
            identify(&[spec(8, MatchKind::Optional)], &any, 7)
                .unwrap()
                .priority,
            7
        );
    }

    #[test]
    fn keys_that_no_packet_or_no_reader_understands_are_refused() {
        let refuse = |kind, value| {
            matches!(
                identify(&[spec(8, kind)], &[value], 1),
                Err(TableError::BadKey { .. })
            )
        };
        let bits = |value| Bits::from_u128(8, value);
        assert!(refuse(
            MatchKind::Ternary,
            MatchValue::Ternary {
                value: bits(3),
                mask: bits(1)
            }
        ));
        assert!(refuse(
            MatchKind::Range,
            MatchValue::Range {
                low: bits(3),
                high: bits(1)
            }
        ));
        assert!(refuse(MatchKind::Range, MatchValue::Exact(bits(3))));
        assert!(refuse(
            MatchKind::Ternary,
            MatchValue::Ternary {
                value: Bits::zero(9),
                mask: bits(1)
            }
        ));
        let prefix = [MatchValue::Lpm {
            value: bits(0x80),
            len: 0,
        }];
        assert!(matches!(
            identify(&[spec(8, MatchKind::Lpm)], &prefix, 0),
            Err(TableError::BadKey { .. })
        ));
    }
}
