//! Simplifications while numbers are compiled.

use num_bigint::BigInt;

use super::number::Number;
use super::range::Range;
use crate::cond::{CmpOp, Cond};
use crate::expr::{BinOp, Num};
use crate::ir::Source;
use crate::layout::{FieldLayout, Home};

fn slot(width: u32) -> Number {
    Number::narrow(Num::Slot(0), Range::unsigned(width))
}

fn constant(value: i64) -> Number {
    Number::constant(&BigInt::from(value))
}

#[test]
fn superfluous_masks_vanish() {
    let masked = Number::binary(BinOp::And, slot(16), constant(0xffff_ffff));
    assert!(matches!(masked.low, Num::Slot(0)));
    let sum = Number::binary(BinOp::Add, slot(16), constant(28));
    let cut = Number::binary(BinOp::And, sum, constant(0xffff));
    assert_eq!(cut.range, Range::unsigned(16));
    assert!(matches!(
        cut.source(16),
        Source::Num(Num::Bin { op: BinOp::Add, .. })
    ));
}

#[test]
fn what_128_bits_cannot_tell_apart_is_computed_wide() {
    let sum = || Number::binary(BinOp::Add, slot(128), slot(128));
    assert!(matches!(
        Number::compare(CmpOp::Lt, sum(), slot(128)),
        Cond::CompareWide { .. }
    ));
    let cut = Number::binary(
        BinOp::And,
        sum(),
        Number::constant(&BigInt::from(u128::MAX)),
    );
    assert!(matches!(
        Number::compare(CmpOp::Lt, cut, slot(128)),
        Cond::Compare { signed: false, .. }
    ));
    let halved = Number::binary(BinOp::Shr, sum(), constant(1));
    assert!(matches!(halved.low, Num::OfWide(_)));
    let difference = Number::binary(BinOp::Sub, slot(128), slot(128));
    assert!(matches!(
        Number::compare(CmpOp::Lt, difference, constant(0)),
        Cond::CompareWide { .. }
    ));
}

#[test]
fn wide_fields_are_copied_as_bytes() {
    let home = Home::Wide { offset: 8, len: 48 };
    let field = FieldLayout {
        name: String::new(),
        width: 384,
        signed: false,
        home,
    };
    assert!(matches!(
        Number::field(0, home, &field).source(384),
        Source::Field { offset: 8, len: 48 }
    ));
    assert!(matches!(slot(64).source(384), Source::Num(_)));
    assert!(matches!(constant(-1).source(384), Source::Wide(_)));
}
