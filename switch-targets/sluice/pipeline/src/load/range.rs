//! Ranges of an expression's values, worked out when it is compiled.

use crate::bitstream::mask;
use crate::expr::BinOp;
use crate::wide::MAX_SHIFT;

/// The values that an expression can have: `0..2^bits`, or `-2^bits..2^bits` when it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub signed: bool,
    pub bits: u32,
}

impl Range {
    pub const fn unsigned(bits: u32) -> Range {
        Range {
            signed: false,
            bits,
        }
    }

    pub const fn signed(bits: u32) -> Range {
        Range { signed: true, bits }
    }

    /// Returns whether the values are distinguished and ordered by their residue modulo 2¹²⁸, read as signed or unsigned.
    pub fn fits(self, as_signed: bool) -> bool {
        if as_signed {
            self.bits <= 127
        } else {
            !self.signed && self.bits <= 128
        }
    }

    pub fn is_narrow(self) -> bool {
        self.fits(self.signed)
    }

    pub fn join(self, other: Range) -> Range {
        Range {
            signed: self.signed || other.signed,
            bits: self.bits.max(other.bits),
        }
    }
}

/// The range of a binary operation. `constant` is the right operand, if it is one.
pub fn range_of(op: BinOp, l: Range, r: Range, constant: Option<u128>) -> Range {
    let both = l.join(r);
    let grown = |by: u32| Range {
        signed: both.signed,
        bits: both.bits.saturating_add(by),
    };
    match op {
        BinOp::Add => grown(1),
        BinOp::Sub => Range::signed(both.bits.saturating_add(1)),
        BinOp::Mul => Range {
            signed: both.signed,
            bits: l.bits.saturating_add(r.bits).saturating_add(1),
        },
        BinOp::Div => Range {
            signed: both.signed,
            bits: l.bits.saturating_add(1),
        },
        BinOp::Rem => l,
        // A number that is not negative bounds what remains of the other.
        BinOp::And if !l.signed && !r.signed => Range::unsigned(l.bits.min(r.bits)),
        BinOp::And if !l.signed => l,
        BinOp::And if !r.signed => r,
        BinOp::And | BinOp::Or | BinOp::Xor => both,
        BinOp::Shl => Range {
            signed: l.signed,
            bits: l.bits.saturating_add(most_shifted(r, constant)),
        },
        BinOp::Shr => l,
    }
}

fn most_shifted(range: Range, constant: Option<u128>) -> u32 {
    match constant {
        Some(value) if range.is_narrow() => {
            u32::try_from(value).unwrap_or(MAX_SHIFT).min(MAX_SHIFT)
        }
        _ => mask(range.bits.min(16)) as u32,
    }
}
