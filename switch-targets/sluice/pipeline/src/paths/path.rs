//! A recorded path: what is left to do for a packet that takes the same way through one pass.

use super::node::{Node, NodeId};
use crate::cond::CmpOp;
use crate::layout::HeaderIx;
use crate::table::Found;

/// One thing to do. Operands are places in the numbers of the run: first the constants, then what is computed, in order.
#[derive(Clone, Copy, Debug)]
pub enum Instr {
    /// Computes one number: the operations that most are, and all others.
    Input {
        at: u32,
        width: u32,
    },
    Add(u32, u32),
    And(u32, u32),
    Shl(u32, u32),
    Shr(u32, u32),
    /// Of [`Path::nodes`].
    Compute(u32),
    /// Fails before anything has changed: the packet takes another way.
    Require(Check),
    /// Fails after something has changed: the interpreter goes on from the exit.
    Guard(Check, u32),
    /// Leaves the parsed headers behind.
    Trim(u32),
    Count {
        counter: u32,
        index: u32,
    },
    ReadRegister {
        register: u32,
        index: u32,
        effect: u32,
    },
    WriteRegister {
        register: u32,
        index: u32,
        value: u32,
    },
    Call(u32),
}

/// A comparison of two numbers without sign that must hold.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    pub op: CmpOp,
    pub left: u32,
    pub right: u32,
}

/// A call of an extern.
#[derive(Debug)]
pub struct Call {
    /// Unlike that of every other call: the arguments of the call before may be its own.
    pub id: u64,
    /// In [`crate::ir::Ir::calls`].
    pub site: usize,
    pub args: Box<[CallArg]>,
    /// Argument and effect: what the extern changed goes there.
    pub results: Box<[(u32, u32)]>,
    /// Which effect tells by how many bytes the payload grew, modulo 2¹²⁸.
    pub grown: u32,
}

#[derive(Debug)]
pub enum CallArg {
    Number { from: u32, width: u32 },
    Constant { value: u128, width: u32 },
    Bytes { value: Box<[u8]>, width: u32 },
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
        carry: Box<[u32]>,
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
    Byte { value: u32, at: u32 },
    Word { value: u32, at: u32 },
    Long { value: u32, at: u32 },
    Bits { value: u32, at: u32, width: u32 },
}

/// Where the interpreter goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    Ingress(usize),
    Egress { node: usize, port: u16 },
    Update { port: u16 },
}

/// What the interpreter finds there, in terms of [`Path::graph`].
#[derive(Debug)]
pub struct Exit {
    pub resume: Resume,
    /// Slots that are not 0.
    pub slots: Box<[(u32, NodeId)]>,
    /// Beside the metadata.
    pub valid: Box<[HeaderIx]>,
    pub wide: Box<[WideInput]>,
    pub next: Box<[usize]>,
    pub len: NodeId,
    pub recirculate: Option<usize>,
    /// So many of [`Path::counted`] came before it.
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
pub struct Shape {
    /// Eight bytes from an offset, big-endian, and their mask.
    pub words: Vec<(u32, u64)>,
    /// Of [`super::Entrance::initial`].
    pub initial: Vec<(u32, u128)>,
}

#[derive(Debug)]
pub struct Path {
    /// A packet has this many bytes at least.
    pub min_len: usize,
    pub constants: Box<[u128]>,
    pub code: Box<[Instr]>,
    /// Constants and computed numbers together.
    pub places: usize,
    /// With places as operands.
    pub nodes: Box<[Node]>,
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
