//! Actions as they run: operations on values, and the places that values come from and go to.

use std::collections::BTreeSet;

use crate::cond::Cond;
use crate::expr::{HeaderRef, Num};
use crate::layout::{HeaderIx, Home, StackIx};
use crate::wide::Wide;

/// A field at a fixed place.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub header: HeaderIx,
    pub home: Home,
    pub width: u32,
}

/// The destination of a value.
#[derive(Clone, Debug)]
pub enum Target {
    Field(Place),
    /// A field of a header to be found; nothing is written when there is none.
    Member {
        header: HeaderRef,
        home: Home,
        width: u32,
    },
}

/// A value to move.
#[derive(Clone, Debug)]
pub enum Source {
    /// A number that is not negative.
    Num(Num),
    Wide(Wide),
    Field {
        offset: usize,
        len: usize,
    },
    Param {
        offset: usize,
        len: usize,
    },
}

/// A value with the width that it is shown in: a digest field, an argument of an extern.
#[derive(Clone, Debug)]
pub struct Value {
    pub source: Source,
    pub width: u32,
}

#[derive(Clone, Debug)]
pub enum Op {
    Set {
        header: HeaderIx,
        slot: usize,
        mask: u128,
        value: Num,
    },
    Move {
        target: Target,
        source: Source,
    },
    MoveVar {
        to: Place,
        from: Place,
    },
    CopyHeaders(Vec<(HeaderRef, HeaderRef)>),
    CopyNext {
        to: StackIx,
        from: StackIx,
    },
    Validate(HeaderRef),
    Invalidate(HeaderRef),
    Push(StackIx, Num),
    Pop(StackIx, Num),
    Jump(usize),
    JumpIfZero(Num, usize),
    Exit,
    /// `assert` and `assume`: the packet is dropped where bmv2 would abort.
    Require(Cond),
    Drop,
    Truncate(Num),
    Digest(usize),
    Resubmit(usize),
    Recirculate(usize),
    Clone {
        session: Num,
        fields: usize,
        from_ingress: bool,
    },
    Count {
        counter: usize,
        index: Num,
    },
    Meter {
        meter: usize,
        index: Num,
        target: Target,
    },
    RegisterRead {
        target: Target,
        register: usize,
        index: Num,
    },
    RegisterWrite {
        register: usize,
        index: Num,
        value: Num,
    },
    Hash {
        target: Target,
        base: Num,
        calculation: usize,
        size: Num,
    },
    Random {
        target: Target,
        low: Num,
        high: Num,
    },
    Call(usize),
}

#[derive(Clone, Debug, Default)]
pub struct Action {
    pub params: Vec<Param>,
    pub ops: Vec<Op>,
    /// Registers that it reads and writes, in rising order: what it does to them is one step.
    pub updates: Vec<usize>,
}

impl Action {
    pub fn new(params: Vec<Param>, ops: Vec<Op>) -> Action {
        let read = |op: &Op| match op {
            Op::RegisterRead { register, .. } => Some(*register),
            _ => None,
        };
        let written = |op: &Op| match op {
            Op::RegisterWrite { register, .. } => Some(*register),
            _ => None,
        };
        let written: BTreeSet<_> = ops.iter().filter_map(written).collect();
        let read: BTreeSet<_> = ops.iter().filter_map(read).collect();
        let updates = read.intersection(&written).copied().collect();
        Action {
            params,
            ops,
            updates,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Param {
    pub width: u32,
    pub home: ParamHome,
}

/// The place of a parameter in [`Args`].
#[derive(Clone, Copy, Debug)]
pub enum ParamHome {
    Narrow(usize),
    Wide { offset: usize, len: usize },
}
