//! A trace: what is left to do for a packet that takes the same way through one pass.

use super::node::{Node, NodeId};
use crate::cond::CmpOp;
use crate::externs::ExternArg;
use crate::layout::HeaderIx;
use crate::table::Found;

/// Numbers of a run at once, of at most 64 bits and of more; a power of two.
pub const VALUES: usize = 1024;

/// A place in the numbers of a run: what is computed from the first on, in order; constants from the last back.
pub type ValueIx = u16;

/// Marks the places of numbers that may have more than 64 bits: they are apart.
pub const WIDE: ValueIx = 1 << 15;

/// One thing to do. Comparisons are of numbers without sign. From [`Instr::Input`] on each computes a number, of numbers of at
/// most 64 bits where it does not say otherwise. `by` is a constant.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Instr {
    /// Fails before anything has changed: the packet takes another way.
    Require {
        op: CmpOp,
        left: ValueIx,
        right: ValueIx,
    },
    RequireBy {
        op: CmpOp,
        left: ValueIx,
        by: u64,
    },
    /// Fails after something has changed: the interpreter goes on from the exit.
    Guard {
        op: CmpOp,
        left: ValueIx,
        right: ValueIx,
        exit: u16,
    },
    GuardBy {
        op: CmpOp,
        left: ValueIx,
        exit: u16,
        by: u64,
    },
    /// Leaves the parsed headers behind.
    Trim(u32),
    Count {
        counter: u32,
        index: ValueIx,
    },
    ReadRegister {
        register: u32,
        index: ValueIx,
        effect: u32,
    },
    WriteRegister {
        register: u32,
        index: ValueIx,
        value: ValueIx,
    },
    Call(u32),
    /// `width` bits of the packet that end `right` bits before the end of the eight bytes from `first`.
    Input {
        first: u8,
        right: u8,
        width: u8,
    },
    /// Of [`Trace::nodes`]; operands of any size.
    Compute(u32),
    /// The same, for a number that may have more than 64 bits.
    Wide(u32),
    Len,
    Initial(u16),
    Effect(u16),
    Words {
        at: u8,
        len: u8,
    },
    /// Of `count` of [`Trace::terms`] and a constant.
    Sum {
        count: u16,
        first: u32,
        by: i64,
    },
    /// The same, folded.
    Checksum {
        count: u16,
        first: u32,
        by: i64,
    },
    AddBy {
        left: ValueIx,
        by: i64,
    },
    AddAndBy {
        left: ValueIx,
        add: i32,
        by: u64,
    },
    AndBy {
        left: ValueIx,
        by: u64,
    },
    ShlBy {
        left: ValueIx,
        by: u8,
    },
    ShrBy {
        left: ValueIx,
        by: u8,
    },
}

/// A call of an extern.
#[derive(Debug)]
pub struct Call {
    /// Unlike that of every other call: the arguments of the call before may be its own.
    pub id: u64,
    /// In [`crate::ir::Ir::calls`].
    pub site: usize,
    /// With the argument's index.
    pub numbers: Box<[(u32, Number)]>,
    pub constants: Box<[Option<ExternArg>]>,
    /// Argument and effect: what the extern changed goes there.
    pub results: Box<[(u32, u32)]>,
    /// Which effect tells by how many bytes the payload grew, modulo 2¹²⁸.
    pub grown: u32,
}

#[derive(Debug)]
pub struct Number {
    pub from: ValueIx,
    pub width: u32,
}

/// How a pass ends.
#[derive(Debug)]
pub enum End {
    Drop,
    Send {
        port: u16,
        headers: Emit,
    },
    Recirculate {
        /// The list of preserved fields, and their values.
        list: usize,
        carry: Box<[ValueIx]>,
        headers: Emit,
    },
}

/// Headers as they go out: a template, what is copied of the packet as it came, and the fields that are computed.
#[derive(Debug, Default)]
pub struct Emit {
    pub template: Box<[u8]>,
    pub copies: Box<[Copied]>,
    pub puts: Box<[Put]>,
}

/// In bytes.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    pub from: u32,
    pub to: u32,
    pub len: u32,
}

/// In bits, but for the sizes that most fields have.
#[derive(Clone, Copy, Debug)]
pub enum Put {
    Byte { value: ValueIx, at: u32 },
    Word { value: ValueIx, at: u32 },
    Long { value: ValueIx, at: u32 },
    Bits { value: ValueIx, at: u32, width: u32 },
}

/// Where the interpreter goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    Ingress(usize),
    Egress { node: usize, port: u16 },
    Update { port: u16 },
}

/// What the interpreter finds there, in terms of [`Trace::graph`].
#[derive(Debug)]
pub struct Exit {
    pub resume: Resume,
    /// Slots that are not 0.
    pub slots: Box<[(u32, NodeId)]>,
    /// Beside the metadata.
    pub valid: Box<[HeaderIx]>,
    /// Invalid headers with values.
    pub stale: Box<[HeaderIx]>,
    pub wide: Box<[WideInput]>,
    pub next: Box<[usize]>,
    pub len: NodeId,
    pub recirculate: Option<usize>,
    /// So many of [`Trace::counted`] came before it.
    pub counted: usize,
}

/// A wide field that is as it was extracted.
#[derive(Clone, Copy, Debug)]
pub struct WideInput {
    pub offset: usize,
    pub len: usize,
    pub at: usize,
    pub width: u32,
}

/// The bits that decided the way: packets that agree in them take it too, as far as [`Instr::Require`] holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatchMask {
    /// Eight bytes from an offset, big-endian, and their mask.
    pub words: Vec<(u32, u64)>,
    /// Of [`super::PassStart::initial`].
    pub initial: Vec<(u32, u128)>,
}

#[derive(Debug)]
pub struct Trace {
    /// A packet has this many bytes at least.
    pub min_len: usize,
    /// At the last places.
    pub constants: Box<[u64]>,
    pub wide_constants: Box<[u128]>,
    pub code: Box<[Instr]>,
    /// With places as operands.
    pub nodes: Box<[Node]>,
    pub terms: Box<[ValueIx]>,
    pub calls: Box<[Call]>,
    pub end: End,
    pub exits: Box<[Exit]>,
    /// For exits: every node, operands first.
    pub graph: Box<[Node]>,
    pub effects: usize,
    /// The tables that were looked into, and their versions.
    pub tables: Box<[(usize, u64)]>,
    /// What the lookups in tables that count have found.
    pub counted: Box<[(usize, Found)]>,
}
