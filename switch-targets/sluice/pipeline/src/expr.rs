//! Expressions as they run: small trees whose leaves are slots, constants and action parameters.
//!
//! P4 values here are integers without bound, as bmv2's are. [`Num`] computes them modulo 2¹²⁸, which is exact
//! wherever the loader has proved the range small enough and enough wherever only the low bits are kept; the
//! loader uses [`Wide`] for the rest.

use crate::bits;
use crate::bitstream::mask;
use crate::cond::Cond;
use crate::layout::{HeaderIx, Home, Layout, StackIx};
use crate::phv::Phv;
use crate::wide::Wide;

/// The values of an action's parameters.
#[derive(Clone, Debug, Default)]
pub struct Args {
    pub narrow: Box<[u128]>,
    /// Parameters of more than 128 bits, one behind the other, big-endian.
    pub wide: Box<[u8]>,
}

/// The values that an expression can read.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub layout: &'a Layout,
    pub phv: &'a Phv,
    pub args: &'a Args,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// A header, perhaps one that is only known when the packet is there.
#[derive(Clone, Debug)]
pub enum HeaderRef {
    Fixed(HeaderIx),
    /// Member `member` (0 in a plain stack) of the element at a computed index.
    Element {
        stack: StackIx,
        member: usize,
        index: Box<Num>,
    },
    /// Member `member` of the element extracted last.
    Last {
        stack: StackIx,
        member: usize,
    },
}

impl HeaderRef {
    /// `None`: outside the stack.
    pub fn resolve(&self, scope: &Scope) -> Option<HeaderIx> {
        let (stack, member, index) = match self {
            HeaderRef::Fixed(header) => return Some(*header),
            HeaderRef::Element {
                stack,
                member,
                index,
            } => (*stack, *member, usize::try_from(index.eval(scope)).ok()?),
            HeaderRef::Last { stack, member } => {
                (*stack, *member, scope.phv.next[*stack].checked_sub(1)?)
            }
        };
        scope.layout.stacks[stack]
            .elements
            .get(index)?
            .get(member)
            .copied()
    }
}

/// A number modulo 2¹²⁸.
#[derive(Clone, Debug)]
pub enum Num {
    Const(u128),
    Slot(usize),
    /// Bits of a slot: shifted right, then masked.
    Part {
        slot: usize,
        shift: u32,
        mask: u128,
    },
    SignedSlot {
        slot: usize,
        width: u32,
    },
    /// The low 128 bits of a wide field.
    Low {
        home: Home,
        header: HeaderIx,
    },
    /// A field of a header to be found; 0 when there is none.
    Member {
        header: HeaderRef,
        home: Home,
        signed: Option<u32>,
    },
    Param(usize),
    /// The low 128 bits of a wide parameter.
    ParamLow {
        offset: usize,
        len: usize,
    },
    LastIndex(StackIx),
    Depth(StackIx),
    Bin {
        op: BinOp,
        signed: bool,
        sides: Box<(Num, Num)>,
    },
    Neg(Box<Num>),
    Not(Box<Num>),
    /// The low `width` bits read as a signed number.
    SignExtend {
        value: Box<Num>,
        width: u32,
    },
    /// Clamped to what `width` bits hold; `signed` says how `value` is to be read.
    Saturate {
        value: Box<Num>,
        signed: bool,
        to: Saturation,
    },
    If(Box<(Cond, Num, Num)>),
    Bool(Box<Cond>),
    /// The low 128 bits of something wider.
    OfWide(Box<Wide>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Saturation {
    pub signed: bool,
    pub width: u32,
}

/// `value`'s low `width` bits as a signed number, modulo 2¹²⁸.
pub fn sign_extend(value: u128, width: u32) -> u128 {
    match width {
        0 => 0,
        128.. => value,
        _ => (((value << (128 - width)) as i128) >> (128 - width)) as u128,
    }
}

impl Num {
    /// The leaves, which most are, cost no call.
    #[inline(always)]
    pub fn eval(&self, scope: &Scope) -> u128 {
        match self {
            Num::Const(value) => *value,
            Num::Slot(slot) => scope.phv.slots[*slot],
            Num::Part { slot, shift, mask } => scope.phv.slots[*slot] >> shift & mask,
            _ => self.eval_tree(scope),
        }
    }

    #[inline(never)]
    fn eval_tree(&self, scope: &Scope) -> u128 {
        match self {
            Num::Param(index) => scope.args.narrow[*index],
            Num::Bin { op, signed, sides } => {
                binary(*op, *signed, sides.0.eval(scope), sides.1.eval(scope))
            }
            _ => self.eval_rare(scope),
        }
    }

    fn eval_rare(&self, scope: &Scope) -> u128 {
        match self {
            Num::SignedSlot { slot, width } => sign_extend(scope.phv.slots[*slot], *width),
            Num::Low { home, header } => scope.phv.low(*home, *header),
            Num::Member {
                header,
                home,
                signed,
            } => {
                let Some(header) = header.resolve(scope) else {
                    return 0;
                };
                let value = scope
                    .phv
                    .low(home.within(&scope.layout.headers[header]), header);
                signed.map_or(value, |width| sign_extend(value, width))
            }
            Num::ParamLow { offset, len } => {
                bits::read_low(&scope.args.wide[*offset..offset + len])
            }
            Num::LastIndex(stack) => u128::from((scope.phv.next[*stack] as u32).wrapping_sub(1)),
            Num::Depth(stack) => scope.phv.next[*stack] as u128,
            Num::Neg(value) => value.eval(scope).wrapping_neg(),
            Num::Not(value) => !value.eval(scope),
            Num::SignExtend { value, width } => sign_extend(value.eval(scope), *width),
            Num::Saturate { value, signed, to } => saturate(value.eval(scope), *signed, *to),
            Num::If(parts) if parts.0.eval(scope) => parts.1.eval(scope),
            Num::If(parts) => parts.2.eval(scope),
            Num::Bool(cond) => u128::from(cond.eval(scope)),
            Num::OfWide(wide) => wide.eval_low(scope),
            Num::Const(_) | Num::Slot(_) | Num::Part { .. } => 0,
            Num::Param(_) | Num::Bin { .. } => 0,
        }
    }
}

#[inline]
pub fn binary(op: BinOp, signed: bool, left: u128, right: u128) -> u128 {
    match op {
        BinOp::Add => left.wrapping_add(right),
        BinOp::Sub => left.wrapping_sub(right),
        BinOp::Mul => left.wrapping_mul(right),
        BinOp::And => left & right,
        BinOp::Or => left | right,
        BinOp::Xor => left ^ right,
        BinOp::Shl if right < 128 => left << right,
        BinOp::Shl => 0,
        BinOp::Shr if signed => ((left as i128) >> right.min(127)) as u128,
        BinOp::Shr if right < 128 => left >> right,
        BinOp::Shr => 0,
        // Division by zero has no value in P4; ours is 0.
        BinOp::Div if signed => (left as i128).checked_div(right as i128).unwrap_or(0) as u128,
        BinOp::Div => left.checked_div(right).unwrap_or(0),
        BinOp::Rem if signed => (left as i128).checked_rem(right as i128).unwrap_or(0) as u128,
        BinOp::Rem => left.checked_rem(right).unwrap_or(0),
    }
}

pub fn saturate(value: u128, signed: bool, to: Saturation) -> u128 {
    let negative = signed && (value as i128) < 0;
    if to.signed {
        let max = mask(to.width.saturating_sub(1));
        match negative {
            true => (value as i128).max((!max) as i128) as u128,
            false => value.min(max),
        }
    } else if negative {
        0
    } else {
        value.min(mask(to.width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_beyond_the_width_do_not_overflow() {
        assert_eq!(binary(BinOp::Shl, false, 1, 128), 0);
        assert_eq!(binary(BinOp::Shr, false, u128::MAX, u128::MAX), 0);
        assert_eq!(binary(BinOp::Shr, true, u128::MAX, 500), u128::MAX);
        assert_eq!(binary(BinOp::Div, false, 5, 0), 0);
        assert_eq!(binary(BinOp::Div, true, i128::MIN as u128, u128::MAX), 0);
    }

    #[test]
    fn saturation_clamps_both_ways() {
        let signed8 = Saturation {
            signed: true,
            width: 8,
        };
        let unsigned8 = Saturation {
            signed: false,
            width: 8,
        };
        let minus = |value: u128| value.wrapping_neg();
        assert_eq!(saturate(300, true, signed8), 127);
        assert_eq!(saturate(minus(300), true, signed8), minus(128));
        assert_eq!(saturate(minus(3), true, signed8), minus(3));
        assert_eq!(saturate(minus(3), true, unsigned8), 0);
        assert_eq!(saturate(300, false, unsigned8), 255);
    }

    #[test]
    fn sign_extension() {
        assert_eq!(sign_extend(0x80, 8) as i128, -128);
        assert_eq!(sign_extend(0x17f, 8) as i128, 127);
        assert_eq!(sign_extend(u128::MAX, 128) as i128, -1);
    }
}
