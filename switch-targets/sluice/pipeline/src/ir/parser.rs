//! The parser as it runs.

use crate::cond::Cond;
use crate::expr::Num;
use crate::ir::{Next, Op, Source, Target};
use crate::layout::{HeaderIx, StackIx};
use crate::spec::ValueSetSpec;

#[derive(Clone, Debug, Default)]
pub struct Parser {
    pub start: Next,
    pub states: Vec<ParserState>,
    pub value_sets: Vec<ValueSetSpec>,
}

#[derive(Clone, Debug, Default)]
pub struct ParserState {
    pub ops: Vec<ParserOp>,
    pub key: Vec<KeyPart>,
    /// The key is compared as one number.
    pub narrow: bool,
    pub cases: Vec<Case>,
}

#[derive(Clone, Debug)]
pub enum ParserOp {
    Extract(HeaderIx),
    ExtractVar {
        header: HeaderIx,
        bits: Num,
    },
    ExtractNext {
        stack: StackIx,
        member: usize,
    },
    ExtractNextVar {
        stack: StackIx,
        member: usize,
        bits: Num,
    },
    Set {
        target: Target,
        source: Source,
    },
    Lookahead {
        target: Target,
        at: usize,
        width: u32,
    },
    Verify {
        cond: Cond,
        error: Num,
    },
    Advance(Num),
    Run(Vec<Op>),
}

/// A part of a select key, padded to whole bytes.
#[derive(Clone, Debug)]
pub struct KeyPart {
    pub source: KeySource,
    pub width: u32,
    pub len: usize,
}

#[derive(Clone, Debug)]
pub enum KeySource {
    Value(Source),
    /// Bits of the packet at an offset, in bits from the cursor.
    Lookahead {
        at: usize,
    },
}

#[derive(Clone, Debug)]
pub struct Case {
    pub accepts: Accepts,
    pub next: Next,
}

#[derive(Clone, Debug)]
pub enum Accepts {
    All,
    /// A key of up to 16 bytes, as a number.
    Narrow {
        value: u128,
        mask: u128,
    },
    /// A longer key, as bytes; value and mask have its length.
    Wide {
        value: Box<[u8]>,
        mask: Box<[u8]>,
    },
    ValueSet {
        set: usize,
        mask: Option<Box<[u8]>>,
    },
}
