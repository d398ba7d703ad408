//! Records a trace: runs a pass symbolically; the packet's values decide each branch.
//!
//! ```text
//!   decision on the packet alone ──► a bit of the mask, or a requirement checked before anything is done
//!   decision on an effect's result ► a guard with an exit, from which the interpreter continues
//!   table lookup ──────────────────► the key bits that any entry reads, decided as above; the entry found is fixed
//! ```
//! The interpreter has run this packet's effects; their results are read from its log.

use super::entry_state::{Input, PassStart};
use super::matched_bits::MatchedBits;
use super::node::{Graph, Node, NodeId};
use super::trace::{Resume, WideInput};
use crate::bits;
use crate::bitstream::mask;
use crate::cond::CmpOp;
use crate::expr::Args;
use crate::ir::{Ir, Source};
use crate::table::{Found, Table};

/// The pass does something that no trace can hold; such passes are interpreted.
#[derive(Debug)]
pub struct Unrecorded;

pub type Recorded<T> = Result<T, Unrecorded>;

/// A step with a side effect or a guard, in program order; node ids are the graph's.
#[derive(Debug)]
pub enum TraceStep {
    Guard {
        cond: NodeId,
        holds: bool,
        exit: usize,
    },
    Count {
        counter: usize,
        index: NodeId,
    },
    ReadRegister {
        register: usize,
        index: NodeId,
        effect: u32,
    },
    WriteRegister {
        register: usize,
        index: NodeId,
        value: NodeId,
    },
    Call(usize),
}

/// An exit with its nodes.
#[derive(Debug)]
pub struct Snapshot {
    pub resume: Resume,
    pub slots: Vec<NodeId>,
    pub valid: Vec<bool>,
    pub wide: Vec<WideInput>,
    pub next: Vec<usize>,
    pub len: NodeId,
    pub recirculate: Option<usize>,
    /// Lookups and steps before this exit.
    pub counted: usize,
    steps: usize,
}

#[derive(Debug)]
pub struct RecordedCall {
    pub site: usize,
    pub args: Vec<RecordedArg>,
    pub results: Vec<(u32, u32)>,
    pub grown: u32,
}

#[derive(Debug)]
pub enum RecordedArg {
    Number(NodeId, u32),
    Bytes { value: Box<[u8]>, width: u32 },
}

pub struct Recorder<'a> {
    pub ir: &'a Ir,
    pub tables: &'a [Table],
    pub(super) log: &'a [u128],
    pub(super) taken: usize,
    /// The packet's first bytes, with zeros behind it.
    pub(super) input: &'a [u8],
    pub(super) packet_len: usize,
    pub graph: Graph,
    pub matched: MatchedBits,
    pub slots: Vec<NodeId>,
    pub valid: Vec<bool>,
    pub wide: Vec<WideInput>,
    pub(super) next: Vec<usize>,
    /// Bytes that the parser has read.
    pub cursor: usize,
    pub min_len: usize,
    /// The node of `PacketState::len`.
    pub len: NodeId,
    pub recirculate: Option<usize>,
    pub(super) exit: bool,
    /// The place from which the interpreter continues if a decision on an effect's result fails.
    pub resume: Option<Resume>,
    pub steps: Vec<TraceStep>,
    /// Lookups in tables with direct counters, and the entries found.
    pub counted: Vec<(usize, Found)>,
    pub calls: Vec<RecordedCall>,
    pub exits: Vec<Snapshot>,
    pub looked_into: Vec<(usize, u64)>,
    /// Microseconds since the switch started.
    pub now: NodeId,
}

impl<'a> Recorder<'a> {
    pub fn new(
        ir: &'a Ir,
        tables: &'a [Table],
        log: &'a [u128],
        start: &PassStart,
        input: &'a Input,
        packet_len: usize,
    ) -> Recorded<Recorder<'a>> {
        let mut graph = Graph::default();
        let zero = graph.number(0);
        let len = graph.leaf(Node::Len, packet_len as u128, 32);
        let layout = &ir.layout;
        let mut recorder = Recorder {
            ir,
            tables,
            log,
            taken: 0,
            input,
            packet_len,
            graph,
            matched: MatchedBits::new(start.initial.len()),
            slots: vec![zero; layout.slots],
            valid: layout
                .headers
                .iter()
                .map(|header| header.metadata)
                .collect(),
            wide: Vec::new(),
            next: vec![0; layout.stacks.len()],
            cursor: 0,
            min_len: 0,
            len,
            recirculate: None,
            exit: false,
            resume: None,
            steps: Vec::new(),
            counted: Vec::new(),
            calls: Vec::new(),
            exits: Vec::new(),
            looked_into: Vec::new(),
            now: zero,
        };
        for (index, (slot, width)) in start.slots(ir).enumerate() {
            let node = Node::Initial(index as u32);
            let value = start.initial[index];
            let bits = 128 - mask(width).leading_zeros();
            let id = recorder.graph.leaf(node, value, bits);
            if index == 0 {
                recorder.now = id;
            }
            recorder.set(slot, id);
        }
        let kind = recorder.graph.number(start.instance_type());
        recorder.set(ir.standard.instance_type, kind);
        recorder.set(ir.standard.packet_length, len);
        Ok(recorder)
    }

    pub fn set(&mut self, slot: Option<usize>, value: NodeId) {
        if let Some(slot) = slot {
            self.slots[slot] = value;
        }
    }

    pub fn number(&mut self, slot: Option<usize>, value: u128) {
        let value = self.graph.number(value);
        self.set(slot, value);
    }

    /// A slot's node; a constant where its value is already fixed.
    pub fn slot(&mut self, slot: usize) -> NodeId {
        let id = self.slots[slot];
        match self.matched.is_fixed(id) {
            true => {
                let value = self.graph.value(id);
                self.graph.number(value)
            }
            false => id,
        }
    }

    /// Decides a condition; the trace depends on it from here on.
    pub fn decide(&mut self, cond: NodeId) -> Recorded<bool> {
        let holds = self.graph.value(cond) != 0;
        if self.graph.constant(cond).is_some() {
            return Ok(holds);
        }
        if self.graph.is_pure(cond) {
            self.matched.assume(&mut self.graph, cond, holds);
            return Ok(holds);
        }
        self.guard(cond, holds)?;
        Ok(holds)
    }

    /// Makes the trace depend on the bits of a value under `mask`.
    pub fn fix(&mut self, value: NodeId, mask: u128) -> Recorded<()> {
        if self.graph.constant(value).is_some() || mask == 0 {
            return Ok(());
        }
        if self.graph.is_pure(value) {
            self.matched.pin(&mut self.graph, value, mask);
            return Ok(());
        }
        let masked = self.graph.masked(value, mask);
        let now = self.graph.value(masked);
        let now = self.graph.number(now);
        let equal = self.graph.compare(CmpOp::Eq, false, masked, now);
        self.guard(equal, true)?;
        if masked == value {
            self.matched.fixed(value);
        }
        Ok(())
    }

    fn guard(&mut self, cond: NodeId, holds: bool) -> Recorded<()> {
        let resume = self.resume.ok_or(Unrecorded)?;
        let steps = self.steps.iter();
        let acted = steps
            .rev()
            .take_while(|step| matches!(step, TraceStep::Guard { .. }));
        let acted = self.steps.len() - acted.count();
        // No side effect since the last exit: its steps can be repeated from there.
        let reuse = self.exits.last().is_some_and(|last| last.steps >= acted);
        if !reuse {
            self.exits.push(Snapshot {
                resume,
                slots: self.slots.clone(),
                valid: self.valid.clone(),
                wide: self.wide.clone(),
                next: self.next.clone(),
                len: self.len,
                recirculate: self.recirculate,
                counted: self.counted.len(),
                steps: self.steps.len(),
            });
        }
        self.steps.push(TraceStep::Guard {
            cond,
            holds,
            exit: self.exits.len() - 1,
        });
        Ok(())
    }

    /// The result of the next effect in the log, as a node.
    pub(super) fn effect(&mut self, bits: u32) -> Recorded<(u32, NodeId)> {
        let value = *self.log.get(self.taken).ok_or(Unrecorded)?;
        let index = self.taken as u32;
        self.taken += 1;
        let node = self.graph.leaf(Node::Effect(index), value, bits);
        Ok((index, node))
    }

    /// Returns whether all logged effects have been read.
    pub fn is_complete(&self) -> bool {
        self.taken == self.log.len()
    }

    pub fn effects(&self) -> usize {
        self.log.len()
    }

    /// Looks a table up. Returns the entry found, and fixes the key bits that decided it.
    pub fn lookup(&mut self, table: usize) -> Recorded<Found> {
        let keys = &self.ir.tables[table].key;
        let mut packed = vec![0; self.ir.tables[table].key_len];
        let mut parts = Vec::new();
        for key in keys {
            let Source::Num(num) = &key.source else {
                return Err(Unrecorded);
            };
            if key.width > 128 {
                return Err(Unrecorded);
            }
            let value = self.num(num, &Args::default())?;
            let mut value = self.graph.cut(value, key.width);
            if let Some(mask) = &key.mask {
                value = self.graph.masked(value, bits::read_low(mask));
            }
            bits::write_low(
                &mut packed[key.offset..key.offset + key.len],
                self.graph.value(value),
            );
            parts.push(value);
        }
        let found = self.tables[table].find_packed(&packed);
        let significant = self.tables[table].significant().to_vec();
        for (key, value) in keys.iter().zip(parts) {
            let bytes = significant.get(key.offset..key.offset + key.len);
            self.fix(value, bytes.map_or(0, bits::read_low))?;
        }
        self.looked_into.push((table, self.tables[table].version()));
        Ok(found)
    }

    pub fn has_exited(&self) -> bool {
        self.exit
    }

    pub fn enter_egress(&mut self) {
        self.exit = false;
    }

    pub fn input_byte(&self, at: usize) -> Option<u8> {
        self.input.get(at).copied()
    }

    pub fn input_bytes(&self, at: usize, len: usize) -> Recorded<&[u8]> {
        self.input.get(at..at + len).ok_or(Unrecorded)
    }
}
