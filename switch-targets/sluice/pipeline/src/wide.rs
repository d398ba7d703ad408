//! Expressions over numbers that 128 bits do not hold. They allocate; programs use them rarely.

use num_bigint::{BigInt, Sign};

use crate::cond::Cond;
use crate::expr::{BinOp, HeaderRef, Num, Saturation, Scope};
use crate::layout::{HeaderIx, Home};

/// No shift makes a number longer than this, in bits.
pub const MAX_SHIFT: u32 = 1 << 16;

#[derive(Clone, Debug)]
pub enum Wide {
    Const(BigInt),
    Num {
        value: Num,
        signed: bool,
    },
    Field {
        home: Home,
        header: HeaderIx,
        signed: Option<u32>,
    },
    Member {
        header: HeaderRef,
        home: Home,
        signed: Option<u32>,
    },
    Param {
        offset: usize,
        len: usize,
    },
    Bin {
        op: BinOp,
        sides: Box<(Wide, Wide)>,
    },
    Neg(Box<Wide>),
    Not(Box<Wide>),
    SignExtend {
        value: Box<Wide>,
        width: u32,
    },
    Saturate {
        value: Box<Wide>,
        to: Saturation,
    },
    If(Box<(Cond, Wide, Wide)>),
}

impl Wide {
    pub fn eval(&self, scope: &Scope) -> BigInt {
        match self {
            Wide::Const(value) => value.clone(),
            Wide::Num {
                value,
                signed: true,
            } => BigInt::from(value.eval(scope) as i128),
            Wide::Num {
                value,
                signed: false,
            } => BigInt::from(value.eval(scope)),
            Wide::Field {
                home,
                header,
                signed,
            } => field(scope, *home, *header, *signed),
            Wide::Member {
                header,
                home,
                signed,
            } => match header.resolve(scope) {
                Some(header) => field(
                    scope,
                    home.within(&scope.layout.headers[header]),
                    header,
                    *signed,
                ),
                None => BigInt::ZERO,
            },
            Wide::Param { offset, len } => {
                BigInt::from_bytes_be(Sign::Plus, &scope.args.wide[*offset..offset + len])
            }
            Wide::Bin { op, sides } => binary(*op, sides.0.eval(scope), sides.1.eval(scope)),
            Wide::Neg(value) => -value.eval(scope),
            Wide::Not(value) => !value.eval(scope),
            Wide::SignExtend { value, width } => sign_extend(value.eval(scope), *width),
            Wide::Saturate { value, to } => saturate(value.eval(scope), *to),
            Wide::If(parts) if parts.0.eval(scope) => parts.1.eval(scope),
            Wide::If(parts) => parts.2.eval(scope),
        }
    }

    /// Modulo 2¹²⁸.
    pub fn eval_low(&self, scope: &Scope) -> u128 {
        let mut bytes = [0; 16];
        store(&self.eval(scope), &mut bytes);
        u128::from_be_bytes(bytes)
    }
}

/// Writes `value` modulo what `bytes` hold, in two's complement.
pub fn store(value: &BigInt, bytes: &mut [u8]) {
    let source = value.to_signed_bytes_be();
    let (len, take) = (bytes.len(), bytes.len().min(source.len()));
    let (high, low) = bytes.split_at_mut(len - take);
    high.fill(if value.sign() == Sign::Minus { 0xff } else { 0 });
    low.copy_from_slice(&source[source.len() - take..]);
}

fn field(scope: &Scope, home: Home, header: HeaderIx, signed: Option<u32>) -> BigInt {
    let bytes = match home {
        Home::Slot(slot) => return BigInt::from(scope.phv.slots[slot]),
        Home::Wide { offset, len } => &scope.phv.wide[offset..offset + len],
        Home::Var { offset, .. } => &scope.phv.wide[offset..offset + scope.phv.var_len(header)],
    };
    let value = BigInt::from_bytes_be(Sign::Plus, bytes);
    signed.map_or(value.clone(), |width| sign_extend(value, width))
}

fn ones(width: u32) -> BigInt {
    (BigInt::from(1) << width) - 1
}

fn sign_extend(value: BigInt, width: u32) -> BigInt {
    let low = value & ones(width);
    if width > 0 && low.bit(u64::from(width) - 1) {
        low - (BigInt::from(1) << width)
    } else {
        low
    }
}

fn saturate(value: BigInt, to: Saturation) -> BigInt {
    let max = ones(to.width.saturating_sub(u32::from(to.signed)));
    let min = if to.signed {
        !max.clone()
    } else {
        BigInt::ZERO
    };
    value.clamp(min, max)
}

fn binary(op: BinOp, left: BigInt, right: BigInt) -> BigInt {
    let shift = || u32::try_from(&right).ok().filter(|by| *by <= MAX_SHIFT);
    match op {
        BinOp::Add => left + right,
        BinOp::Sub => left - right,
        BinOp::Mul => left * right,
        BinOp::And => left & right,
        BinOp::Or => left | right,
        BinOp::Xor => left ^ right,
        BinOp::Shl => shift().map_or(BigInt::ZERO, |by| left << by),
        BinOp::Shr => shift().map_or(BigInt::ZERO, |by| left >> by),
        // Division by zero gives 0, as in the narrow case.
        BinOp::Div => left.checked_div(&right).unwrap_or_default(),
        BinOp::Rem if right == BigInt::ZERO => BigInt::ZERO,
        BinOp::Rem => left % right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_numbers_are_stored_in_twos_complement() {
        let mut bytes = [0; 4];
        store(&BigInt::from(-2), &mut bytes);
        assert_eq!(bytes, [0xff, 0xff, 0xff, 0xfe]);
        store(&BigInt::from(0x1_2345_6789_u64), &mut bytes);
        assert_eq!(bytes, [0x23, 0x45, 0x67, 0x89]);
    }

    #[test]
    fn signs_and_limits() {
        assert_eq!(sign_extend(ones(200), 200), BigInt::from(-1));
        let to = Saturation {
            signed: true,
            width: 200,
        };
        assert_eq!(saturate(ones(300), to), ones(199));
        assert_eq!(saturate(-ones(300), to), !ones(199));
        assert_eq!(
            binary(BinOp::Shl, BigInt::from(1), BigInt::from(u64::MAX)),
            BigInt::ZERO
        );
        assert_eq!(
            binary(BinOp::Rem, BigInt::from(1), BigInt::ZERO),
            BigInt::ZERO
        );
    }
}
