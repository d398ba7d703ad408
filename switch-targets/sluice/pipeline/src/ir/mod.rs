//! A program as it runs: everything is an index.
//!
//! ```text
//!  parser ──► verify ──► ingress ──► egress ──► update ──► deparser
//!  (states)   (checks)   (flows: nodes that branch, apply a table or run an action)   (headers)
//! ```

mod control;
mod parser;

pub use control::{AfterTable, DirectMeter, Flow, FlowNode, Indirect, Key, Table};
pub use parser::{Accepts, Case, KeyPart, KeySource, Parser, ParserOp, State};

use std::collections::BTreeSet;

use crate::cond::Cond;
use crate::expr::{HeaderRef, Num};
use crate::layout::{HeaderIx, Home, Layout, StackIx};
use crate::queue::QueueField;
use crate::spec::{MeterUnit, RegisterSpec};
use crate::wide::Wide;

/// Where control goes: an index, or the end.
pub type Next = Option<usize>;

#[derive(Clone, Debug, Default)]
pub struct Ir {
    pub layout: Layout,
    pub standard: Standard,
    pub errors: ErrorCodes,
    pub parser: Parser,
    pub verify: Vec<Checksum>,
    pub ingress: Flow,
    pub egress: Flow,
    pub update: Vec<Checksum>,
    pub deparser: Vec<HeaderIx>,
    pub actions: Vec<Action>,
    /// An action that does nothing, which no program names.
    pub nothing: usize,
    pub tables: Vec<Table>,
    pub calculations: Vec<Calculation>,
    pub registers: Vec<RegisterSpec>,
    /// What the arrays of meters count.
    pub meters: Vec<MeterUnit>,
    /// For each action profile the calculation that chooses within groups, if it has groups.
    pub selectors: Vec<Option<usize>>,
    pub digests: Vec<Vec<Value>>,
    pub field_lists: Vec<Vec<Place>>,
    pub instances: Vec<Instance>,
    pub calls: Vec<CallSite>,
    /// A clone from ingress or a resubmission needs the packet as it came.
    pub keeps_original: bool,
}

/// Slots of the standard metadata that the switch itself reads or writes.
#[derive(Clone, Debug, Default)]
pub struct Standard {
    pub ingress_port: Option<usize>,
    pub egress_spec: Option<usize>,
    pub egress_port: Option<usize>,
    pub instance_type: Option<usize>,
    pub packet_length: Option<usize>,
    pub parser_error: Option<usize>,
    pub checksum_error: Option<usize>,
    pub mcast_grp: Option<usize>,
    pub egress_rid: Option<usize>,
    pub ingress_timestamp: Option<usize>,
    pub egress_timestamp: Option<usize>,
    pub enqueue_timestamp: Option<usize>,
    /// The fields of the port's queue that the program uses.
    pub queue: Vec<QueueField>,
}

/// The program's numbers for the core library's parser errors.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCodes {
    pub no_error: u128,
    pub packet_too_short: u128,
    pub no_match: u128,
    pub stack_out_of_bounds: u128,
    pub header_too_short: u128,
    pub timeout: u128,
    pub invalid_argument: u128,
}

impl Default for ErrorCodes {
    fn default() -> ErrorCodes {
        ErrorCodes {
            no_error: 0,
            packet_too_short: 1,
            no_match: 2,
            stack_out_of_bounds: 3,
            header_too_short: 4,
            timeout: 5,
            invalid_argument: 6,
        }
    }
}

/// A field at a fixed place.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub header: HeaderIx,
    pub home: Home,
    pub width: u32,
}

/// Where a value goes.
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
    /// Not negative.
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

/// Where a parameter is in [`Args`].
#[derive(Clone, Copy, Debug)]
pub enum ParamHome {
    Narrow(usize),
    Wide { offset: usize, len: usize },
}

/// An extern method call in an action. Which index the method has is known once the object exists.
#[derive(Clone, Debug)]
pub struct CallSite {
    pub place: String,
    pub instance: usize,
    pub method: String,
    pub args: Vec<(Value, Option<Target>)>,
}

/// An extern object of the program.
#[derive(Clone, Debug)]
pub struct Instance {
    pub place: String,
    pub name: String,
    pub type_name: String,
    pub attributes: crate::externs::Attributes,
}

#[derive(Clone, Debug)]
pub struct Calculation {
    pub algorithm: crate::hash::Algorithm,
    pub input: Vec<CalcInput>,
    pub sum: Option<FieldSum>,
}

/// A ones' complement checksum over fields of one header: a sum of fields, each shifted to its place in a 16-bit word.
#[derive(Clone, Debug)]
pub struct FieldSum {
    pub header: HeaderIx,
    /// Slot and shift.
    pub terms: Vec<(usize, u32)>,
}

#[derive(Clone, Debug)]
pub enum CalcInput {
    Field(Place),
    Const {
        value: Box<[u8]>,
        width: u32,
    },
    Header(HeaderIx),
    /// Everything behind the headers named so far.
    Payload,
}

#[derive(Clone, Debug)]
pub struct Checksum {
    pub calculation: usize,
    pub target: Place,
    pub cond: Cond,
}
