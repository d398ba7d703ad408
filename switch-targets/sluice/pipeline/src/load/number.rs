//! Numeric expressions while they are being compiled: what they can be decides how they are computed.

use num_bigint::{BigInt, Sign};

use crate::bitstream::mask;
use crate::cond::{CmpOp, Cond};
use crate::expr::{BinOp, HeaderRef, Num, Saturation};
use crate::ir::Source;
use crate::layout::{FieldLayout, HeaderIx, Home};
use crate::load::range::{Range, range_of};
use crate::wide::Wide;

/// A number as both interpreters would compute it.
#[derive(Clone, Debug)]
pub struct Number {
    /// Right modulo 2¹²⁸.
    pub low: Num,
    /// Right altogether; there when `low` does not say it all.
    exact: Option<Wide>,
    pub range: Range,
}

impl Number {
    pub fn narrow(low: Num, range: Range) -> Number {
        Number {
            low,
            exact: None,
            range,
        }
    }

    pub fn constant(value: &BigInt) -> Number {
        let negative = value.sign() == Sign::Minus;
        // A negative number needs as many bits as its complement.
        let bits = if negative {
            (!value).bits()
        } else {
            value.bits()
        };
        let range = Range {
            signed: negative,
            bits: u32::try_from(bits).unwrap_or(u32::MAX),
        };
        let mut bytes = [0; 16];
        crate::wide::store(value, &mut bytes);
        let exact = (!range.is_narrow()).then(|| Wide::Const(value.clone()));
        Number {
            low: Num::Const(u128::from_be_bytes(bytes)),
            exact,
            range,
        }
    }

    pub fn field(header: HeaderIx, home: Home, field: &FieldLayout) -> Number {
        let signed = field.signed.then_some(field.width);
        let low = match (home, signed) {
            (Home::Slot(slot), None) => Num::Slot(slot),
            (Home::Slot(slot), Some(width)) => Num::SignedSlot { slot, width },
            (home, _) => Num::Low { home, header },
        };
        Number::of_field(
            low,
            field,
            Wide::Field {
                home,
                header,
                signed,
            },
        )
    }

    /// A field, at `field.home`, of a header that the packet decides.
    pub fn member(header: HeaderRef, field: &FieldLayout) -> Number {
        let signed = field.signed.then_some(field.width);
        let low = Num::Member {
            header: header.clone(),
            home: field.home,
            signed,
        };
        Number::of_field(
            low,
            field,
            Wide::Member {
                header,
                home: field.home,
                signed,
            },
        )
    }

    fn of_field(low: Num, field: &FieldLayout, exact: Wide) -> Number {
        let range = match field.signed {
            true => Range::signed(field.width.saturating_sub(1)),
            false => Range::unsigned(field.width),
        };
        Number {
            low,
            exact: (!range.is_narrow()).then_some(exact),
            range,
        }
    }

    pub fn wide_param(offset: usize, len: usize, width: u32) -> Number {
        let exact = Some(Wide::Param { offset, len });
        Number {
            low: Num::ParamLow { offset, len },
            exact,
            range: Range::unsigned(width),
        }
    }

    fn wide(&self) -> Wide {
        self.exact.clone().unwrap_or_else(|| Wide::Num {
            value: self.low.clone(),
            signed: self.range.signed,
        })
    }

    fn ring(low: Num, range: Range, exact: impl FnOnce() -> Wide) -> Number {
        Number {
            low,
            exact: (!range.is_narrow()).then(exact),
            range,
        }
    }

    pub fn binary(op: BinOp, left: Number, right: Number) -> Number {
        let constant = match right.low {
            Num::Const(value) => Some(value),
            _ => None,
        };
        let range = range_of(op, left.range, right.range, constant);
        let signed = left.range.signed || right.range.signed;
        let low_suffices = match op {
            BinOp::Shl => right.range.is_narrow(),
            BinOp::Shr => left.range.is_narrow() && right.range.is_narrow(),
            BinOp::Div | BinOp::Rem => left.range.fits(signed) && right.range.fits(signed),
            _ => true,
        };
        let exact = || Wide::Bin {
            op,
            sides: Box::new((left.wide(), right.wide())),
        };
        if !low_suffices {
            return Number {
                low: Num::OfWide(Box::new(exact())),
                exact: Some(exact()),
                range,
            };
        }
        if op == BinOp::And && left.unchanged_by(&right) {
            return left;
        }
        let exact = (!range.is_narrow()).then(exact);
        let signed = if op == BinOp::Shr {
            left.range.signed
        } else {
            signed
        };
        Number {
            low: part(op, signed, &left.low, &right.low).unwrap_or_else(|| Num::Bin {
                op,
                signed,
                sides: Box::new((left.low, right.low)),
            }),
            exact,
            range,
        }
    }

    /// Masking with that constant changes nothing.
    fn unchanged_by(&self, mask_number: &Number) -> bool {
        let Range { signed, bits } = mask_number.range;
        let is_ones = matches!(mask_number.low, Num::Const(value) if !signed && bits <= 128 && value == mask(bits));
        is_ones && !self.range.signed && self.range.bits <= bits
    }

    pub fn negate(self) -> Number {
        let range = Range::signed(self.range.bits.saturating_add(1));
        Number::ring(Num::Neg(Box::new(self.low.clone())), range, || {
            Wide::Neg(Box::new(self.wide()))
        })
    }

    pub fn complement(self) -> Number {
        let range = Range::signed(self.range.bits);
        Number::ring(Num::Not(Box::new(self.low.clone())), range, || {
            Wide::Not(Box::new(self.wide()))
        })
    }

    /// The low `width` bits as a signed number.
    pub fn sign_extend(self, width: u32) -> Number {
        let range = Range::signed(width.saturating_sub(1));
        let low = match width {
            0..=128 => Num::SignExtend {
                value: Box::new(self.low.clone()),
                width,
            },
            _ => Num::OfWide(Box::new(Wide::SignExtend {
                value: Box::new(self.wide()),
                width,
            })),
        };
        Number::ring(low, range, || Wide::SignExtend {
            value: Box::new(self.wide()),
            width,
        })
    }

    pub fn saturate(self, to: Saturation) -> Number {
        let range = Range {
            signed: to.signed,
            bits: to.width.saturating_sub(u32::from(to.signed)),
        };
        let exact = || Wide::Saturate {
            value: Box::new(self.wide()),
            to,
        };
        let low = match self.range.is_narrow() && range.is_narrow() {
            true => Num::Saturate {
                value: Box::new(self.low.clone()),
                signed: self.range.signed,
                to,
            },
            false => Num::OfWide(Box::new(exact())),
        };
        Number::ring(low, range, exact)
    }

    pub fn either(cond: Cond, yes: Number, no: Number) -> Number {
        let range = yes.range.join(no.range);
        let low = Num::If(Box::new((cond.clone(), yes.low.clone(), no.low.clone())));
        Number::ring(low, range, || {
            Wide::If(Box::new((cond, yes.wide(), no.wide())))
        })
    }

    pub fn compare(op: CmpOp, left: Number, right: Number) -> Cond {
        let signed = left.range.signed || right.range.signed;
        if !left.range.fits(signed) || !right.range.fits(signed) {
            return Cond::CompareWide {
                op,
                sides: Box::new((left.wide(), right.wide())),
            };
        }
        match (op, left.low, right.low) {
            (CmpOp::Eq | CmpOp::Ne, Num::Slot(slot), Num::Const(value)) => {
                Cond::slot_is(slot, left.range.bits, value, op == CmpOp::Ne)
            }
            (_, left, right) => Cond::Compare {
                op,
                signed,
                sides: Box::new((left, right)),
            },
        }
    }

    pub fn non_zero(self) -> Cond {
        match (self.exact, self.low) {
            (Some(exact), _) => Cond::CompareWide {
                op: CmpOp::Ne,
                sides: Box::new((exact, Wide::Const(BigInt::ZERO))),
            },
            (None, Num::Slot(slot)) => Cond::slot_is(slot, self.range.bits, 0, true),
            (None, Num::Bool(cond)) => *cond,
            (None, low) => Cond::NonZero(low),
        }
    }

    /// The source that moves the number to a place of `width` bits.
    pub fn source(self, width: u32) -> Source {
        if width <= 128 {
            return Source::Num(without_mask(self.low, width));
        }
        match self.exact {
            Some(Wide::Field {
                home: Home::Wide { offset, len },
                signed: None,
                ..
            }) if self.range.bits == width => Source::Field { offset, len },
            Some(Wide::Param { offset, len }) if self.range.bits == width => {
                Source::Param { offset, len }
            }
            None if !self.range.signed => Source::Num(self.low),
            Some(exact) => Source::Wide(exact),
            None => Source::Wide(Wide::Num {
                value: self.low,
                signed: true,
            }),
        }
    }
}

/// Bits of one slot, if that is all that the operation takes.
fn part(op: BinOp, signed: bool, left: &Num, right: &Num) -> Option<Num> {
    let (slot, shift, mask) = match left {
        Num::Slot(slot) => (*slot, 0, u128::MAX),
        Num::Part { slot, shift, mask } => (*slot, *shift, *mask),
        _ => return None,
    };
    match (op, right) {
        (BinOp::And, Num::Const(bits)) => Some(Num::Part {
            slot,
            shift,
            mask: mask & bits,
        }),
        (BinOp::Shr, Num::Const(by @ 0..=127)) if !signed && mask == u128::MAX => {
            let shift = shift + *by as u32;
            (shift < 128).then_some(Num::Part { slot, shift, mask })
        }
        _ => None,
    }
}

/// Cutting to `width` makes a mask of at least that width superfluous.
fn without_mask(num: Num, width: u32) -> Num {
    let whole = mask(width);
    match num {
        Num::Bin {
            op: BinOp::And,
            signed,
            sides,
        } => match *sides {
            (value, Num::Const(bits)) if bits & whole == whole => value,
            sides => Num::Bin {
                op: BinOp::And,
                signed,
                sides: Box::new(sides),
            },
        },
        Num::Part { slot, shift, mask } if mask & whole == whole => match shift {
            0 => Num::Slot(slot),
            _ => Num::Part {
                slot,
                shift,
                mask: u128::MAX,
            },
        },
        num => num,
    }
}
