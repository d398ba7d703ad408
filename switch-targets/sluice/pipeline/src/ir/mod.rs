//! A program as it runs: everything is an index.
//!
//! ```text
//!  parser ──► verify ──► ingress ──► egress ──► update ──► deparser
//!  (states)   (checks)   (flows: nodes that branch, apply a table or run an action)   (headers)
//! ```

mod action;
mod control;
mod parser;

pub use action::{Action, Op, Param, ParamHome, Place, Source, Target, Value};
pub use control::{AfterTable, DirectMeter, FlowGraph, FlowNode, Indirect, Key, Next, Table};
pub use parser::{Accepts, Case, KeyPart, KeySource, Parser, ParserOp, ParserState};

use std::collections::BTreeMap;

use crate::bits::Bits;
use crate::cond::Cond;
use crate::layout::{HeaderIx, Layout};
use crate::spec::{MeterUnit, RegisterSpec};
use crate::standard::Standard;

#[derive(Clone, Debug, Default)]
pub struct Ir {
    pub layout: Layout,
    pub standard: Standard,
    pub errors: ErrorCodes,
    pub parser: Parser,
    pub verify: Vec<Checksum>,
    pub ingress: FlowGraph,
    pub egress: FlowGraph,
    pub update: Vec<Checksum>,
    pub deparser: Vec<HeaderIx>,
    pub actions: Vec<Action>,
    /// An action that does nothing, which no program names.
    pub nothing: usize,
    pub tables: Vec<Table>,
    pub calculations: Vec<Calculation>,
    pub registers: Vec<RegisterSpec>,
    /// Units of the arrays of meters.
    pub meters: Vec<MeterUnit>,
    /// The calculation that chooses within groups, by action profile, if the profile has groups.
    pub selectors: Vec<Option<usize>>,
    pub digests: Vec<Vec<Value>>,
    pub field_lists: Vec<Vec<Place>>,
    pub instances: Vec<Instance>,
    pub calls: Vec<CallSite>,
    /// A clone from ingress or a resubmission needs the packet as it came.
    pub keeps_original: bool,
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

/// An extern method call in an action. The method's index is known once the object exists.
#[derive(Clone, Debug)]
pub struct CallSite {
    pub place: String,
    pub instance: usize,
    pub method: String,
    pub args: Vec<(Value, Option<Target>)>,
}

/// Constructor arguments of an extern object, by name.
pub type Attributes = BTreeMap<String, Bits>;

/// An extern object of the program.
#[derive(Clone, Debug)]
pub struct Instance {
    pub place: String,
    pub name: String,
    pub type_name: String,
    pub attributes: Attributes,
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
    /// The bytes behind the headers named so far.
    Payload,
}

#[derive(Clone, Debug)]
pub struct Checksum {
    pub calculation: usize,
    pub target: Place,
    pub cond: Cond,
}
