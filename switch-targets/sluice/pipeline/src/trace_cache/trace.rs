//! A trace: straight-line code for packets that take the same branches in one pass.

use super::node::{Node, NodeId};
use crate::cond::CmpOp;
use crate::externs::ExternArg;
use crate::layout::HeaderIx;
use crate::table::Found;

/// Values of a replay at most, of at most 64 bits and of more each; a power of two.
pub const VALUES: usize = 1024;

/// A value's index in a replay: computed values from the first on, in order; constants from the last back.
pub type ValueIx = u16;

/// Marks the index of a value that may have more than 64 bits: these have an array of their own.
pub const WIDE: ValueIx = 1 << 15;

/// An instruction. Comparisons are unsigned. From [`Instr::Input`] on, each computes a value, from values of at most 64 bits
/// unless its comment says otherwise. `by` is a constant.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Instr {
    /// Fails before anything has changed: another trace or the interpreter takes the packet.
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
    /// Fails after something may have changed: the interpreter continues from the exit.
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
    /// Removes the parsed headers from the payload.
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
    /// Evaluates one of [`Trace::nodes`]; operands of any size.
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
    /// Adds `count` of [`Trace::terms`] and a constant.
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
pub struct ExternCall {
    /// Unique among all calls: if the previous call had the same id, its constant arguments are still in place.
    pub id: u64,
    /// Index in [`crate::ir::Ir::calls`].
    pub site: usize,
    /// Index and value of each argument that is computed.
    pub numbers: Box<[(u32, Number)]>,
    pub constants: Box<[Option<ExternArg>]>,
    /// Argument and effect: the extern's result in the argument becomes the effect's value.
    pub results: Box<[(u32, u32)]>,
    /// The effect that holds the payload's growth in bytes, modulo 2¹²⁸.
    pub grown: u32,
}

#[derive(Debug)]
pub struct Number {
    pub from: ValueIx,
    pub width: u32,
}

/// The end of a pass.
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

/// Headers to send: a template, byte ranges copied from the received packet, and computed fields.
#[derive(Debug, Default)]
pub struct Emit {
    pub template: Box<[u8]>,
    pub copies: Box<[Copied]>,
    pub puts: Box<[Put]>,
}

/// A run of the packet's bytes, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    pub from: u32,
    pub to: u32,
    pub len: u32,
}

/// A computed field, in bits, but for the sizes that most fields have.
#[derive(Clone, Copy, Debug)]
pub enum Put {
    Byte { value: ValueIx, at: u32 },
    Word { value: ValueIx, at: u32 },
    Long { value: ValueIx, at: u32 },
    Bits { value: ValueIx, at: u32, width: u32 },
}

/// The place from which the interpreter continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    Ingress(usize),
    Egress { node: usize, port: u16 },
    Update { port: u16 },
}

/// The state that the interpreter continues with, in terms of [`Trace::graph`].
#[derive(Debug)]
pub struct Exit {
    pub resume: Resume,
    /// Slots that are not 0.
    pub slots: Box<[(u32, NodeId)]>,
    /// Valid headers, without metadata.
    pub valid: Box<[HeaderIx]>,
    /// Invalid headers with values.
    pub stale: Box<[HeaderIx]>,
    pub wide: Box<[WideInput]>,
    pub next: Box<[usize]>,
    pub len: NodeId,
    pub recirculate: Option<usize>,
    /// The number of [`Trace::counted`] lookups before this exit.
    pub counted: usize,
}

/// A wide field with its value as extracted.
#[derive(Clone, Copy, Debug)]
pub struct WideInput {
    pub offset: usize,
    pub len: usize,
    pub at: usize,
    pub width: u32,
}

/// The bits that decided the branches: packets equal in them take the same branches if each [`Instr::Require`] holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatchMask {
    /// Eight bytes from an offset, big-endian, and their mask.
    pub words: Vec<(u32, u64)>,
    /// Indexes and masks of [`super::entry_state::PassStart::initial`].
    pub initial: Vec<(u32, u128)>,
}

#[derive(Debug)]
pub struct Trace {
    /// Least length in bytes of a packet that matches.
    pub min_len: usize,
    /// Values at the last indexes.
    pub constants: Box<[u64]>,
    pub wide_constants: Box<[u128]>,
    pub code: Box<[Instr]>,
    /// Nodes whose operands are value indexes.
    pub nodes: Box<[Node]>,
    pub terms: Box<[ValueIx]>,
    pub calls: Box<[ExternCall]>,
    pub end: End,
    pub exits: Box<[Exit]>,
    /// The graph's nodes for exits, operands first.
    pub graph: Box<[Node]>,
    pub effects: usize,
    /// The tables that were looked up, and their versions.
    pub tables: Box<[(usize, u64)]>,
    /// Lookups in tables with direct counters, and the entries found.
    pub counted: Box<[(usize, Found)]>,
}
