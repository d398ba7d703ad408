//! Lowers a recorded pass to a trace: nodes get places, and only those that something needs are computed.

mod select;

use std::collections::HashMap;

use super::headers::Headers;
use super::node::{Graph, Node, NodeId};
use super::record::{RecordedArg, RecordedCall, Recorder, Snapshot, TraceStep};
use super::record_pass::SymbolicEnd;
use super::trace::{Emit, End, Exit, ExternCall, Instr, Number, Put, Trace, VALUES, ValueIx};
use crate::cond::CmpOp;
use crate::externs::ExternArg;
use crate::layout::Header;

/// Terms of one sum; longer ones are sums of sums.
const MAX_TERMS: usize = 64;

struct Lowering<'a> {
    graph: &'a Graph,
    /// Nodes that always have the value that was recorded: constants, what the mask's bits decide, and what has been
    /// required or guarded so far.
    known: Vec<bool>,
    places: HashMap<NodeId, ValueIx>,
    computed: usize,
    wide_computed: usize,
    /// Constants from the last place back.
    constants: Vec<u64>,
    wide_constants: Vec<u128>,
    code: Vec<Instr>,
    nodes: Vec<Node>,
    terms: Vec<ValueIx>,
}

/// Lowers a recorded pass to a trace. `None`: the trace would be too long.
pub fn lower(recorder: Recorder, end: SymbolicEnd, next_call: &mut u64) -> Option<Trace> {
    let requirements = recorder.matched.requirements(&recorder.graph);
    let graph = &recorder.graph;
    let mut lowering = Lowering {
        graph,
        known: (0..)
            .zip(graph.nodes())
            .map(|(id, node)| recorder.matched.decides_leaf(node, graph.bits(id)))
            .collect(),
        places: HashMap::new(),
        computed: 0,
        wide_computed: 0,
        constants: Vec::new(),
        wide_constants: Vec::new(),
        code: Vec::new(),
        nodes: Vec::new(),
        terms: Vec::new(),
    };
    lowering.infer();
    for (cond, holds) in requirements {
        lowering.check(cond, holds, None);
    }
    for id in 0..lowering.known.len() {
        let id_of = id as NodeId;
        lowering.known[id] |= recorder.matched.is_fixed(id_of) && graph.is_pure(id_of);
    }
    lowering.infer();
    if recorder.cursor > 0 {
        lowering.code.push(Instr::Trim(recorder.cursor as u32));
    }
    let mut calls = Vec::new();
    for step in &recorder.steps {
        lowering.step(step, &recorder.calls, &mut calls);
    }
    for call in &mut calls {
        *next_call += 1;
        call.id = *next_call;
    }
    let end = match end {
        SymbolicEnd::Drop => End::Drop,
        SymbolicEnd::Send { port, headers } => End::Send {
            port,
            headers: lowering.emit(headers),
        },
        SymbolicEnd::Recirculate {
            list,
            carry,
            headers,
        } => End::Recirculate {
            list,
            carry: carry.into_iter().map(|node| lowering.need(node)).collect(),
            headers: lowering.emit(headers),
        },
    };
    let layout = &recorder.ir.layout;
    let exit = |snapshot: &Snapshot| {
        let slots = snapshot.slots.iter().enumerate();
        let headers = snapshot.valid.iter().enumerate();
        let has_values = |header: &Header| {
            let slots = &snapshot.slots[header.slots.clone()];
            let mut wide = snapshot.wide.iter();
            slots.iter().any(|node| graph.constant(*node) != Some(0))
                || wide.any(|field| header.wide.contains(&field.offset))
        };
        let invalid = headers.clone().filter(|(_, valid)| !**valid);
        Exit {
            resume: snapshot.resume,
            slots: slots
                .filter(|(_, node)| graph.constant(**node) != Some(0))
                .map(|(slot, node)| (slot as u32, *node))
                .collect(),
            valid: headers
                .filter(|(at, valid)| **valid && !layout.headers[*at].metadata)
                .map(|(at, _)| at)
                .collect(),
            stale: invalid
                .filter(|(at, _)| has_values(&layout.headers[*at]))
                .map(|(at, _)| at)
                .collect(),
            wide: snapshot.wide.clone().into(),
            next: snapshot.next.clone().into(),
            len: snapshot.len,
            recirculate: snapshot.recirculate,
            counted: snapshot.counted,
        }
    };
    let exits: Box<[Exit]> = recorder.exits.iter().map(exit).collect();
    let narrow = lowering.computed + lowering.constants.len();
    let wide = lowering.wide_computed + lowering.wide_constants.len();
    if narrow.max(wide) > VALUES || exits.len() > usize::from(u16::MAX) {
        return None;
    }
    Some(Trace {
        min_len: recorder.min_len,
        code: lowering.code.into(),
        nodes: lowering.nodes.into(),
        terms: lowering.terms.into(),
        constants: lowering.constants.into(),
        wide_constants: lowering.wide_constants.into(),
        calls: calls.into(),
        end,
        graph: match exits.is_empty() {
            true => Box::default(),
            false => graph.nodes().collect(),
        },
        exits,
        effects: recorder.effects(),
        tables: recorder.looked_into.into(),
        counted: recorder.counted.into(),
    })
}

impl Lowering<'_> {
    /// Marks a node as known when all its operands are.
    fn infer(&mut self) {
        for (id, node) in self.graph.nodes().enumerate() {
            let mut operands = node.operands().peekable();
            let computed = operands.peek().is_some();
            self.known[id] |= computed && operands.all(|operand| self.known[operand as usize]);
        }
    }

    /// Requires that a condition is as it was; with an exit, guards it.
    fn check(&mut self, cond: NodeId, holds: bool, exit: Option<u16>) {
        if self.known[cond as usize] {
            return;
        }
        let node = self.graph.node(cond);
        let (op, left, right) = match node {
            Node::Compare {
                op,
                signed: false,
                left,
                right,
            } if self.is_narrow(left) && self.is_narrow(right) => {
                let op = if holds { op } else { op.opposite() };
                match self.constant(left) {
                    Some(_) => (op.mirrored(), right, Some(left)),
                    None => (op, left, Some(right)),
                }
            }
            _ => (if holds { CmpOp::Ne } else { CmpOp::Eq }, cond, None),
        };
        let by = right.map_or(Some(0), |right| self.constant(right));
        let left = self.need_narrow(left);
        let instr = match (by.map(u64::try_from), right, exit) {
            (Some(Ok(by)), _, None) => Instr::RequireBy { op, left, by },
            (Some(Ok(by)), _, Some(exit)) => Instr::GuardBy { op, left, exit, by },
            (_, right, exit) => {
                let right = right.map_or(left, |right| self.need(right));
                match exit {
                    None => Instr::Require { op, left, right },
                    Some(exit) => Instr::Guard {
                        op,
                        left,
                        right,
                        exit,
                    },
                }
            }
        };
        if let Instr::GuardBy {
            op: CmpOp::Eq,
            left,
            by,
            exit,
        } = instr
        {
            self.forget_implied(left, by, exit);
        }
        self.code.push(instr);
        match node {
            Node::Compare {
                op, left, right, ..
            } => {
                self.known[cond as usize] = true;
                let equal = if holds { CmpOp::Eq } else { CmpOp::Ne };
                if op == equal && self.constant(left).or(self.constant(right)).is_some() {
                    self.known[left as usize] = true;
                    self.known[right as usize] = true;
                    // Knowledge from requirements is inferred once, behind the last.
                    if exit.is_some() {
                        self.infer();
                    }
                }
            }
            // A condition that is a number holds for more values than the recorded one.
            _ => self.known[cond as usize] = !holds,
        }
    }

    /// Drops the guards just before one of equality that it implies: all lead to the same exit.
    fn forget_implied(&mut self, equal: ValueIx, to: u64, exit: u16) {
        while let Some(Instr::GuardBy {
            op,
            left,
            by,
            exit: other,
        }) = self.code.last()
            && (*left, *other) == (equal, exit)
            && op.holds(&to, by)
        {
            self.code.pop();
        }
    }

    fn step(&mut self, step: &TraceStep, recorded: &[RecordedCall], calls: &mut Vec<ExternCall>) {
        let instr = match *step {
            TraceStep::Guard { cond, holds, exit } => {
                return self.check(cond, holds, Some(exit as u16));
            }
            TraceStep::Count { counter, index } => Instr::Count {
                counter: counter as u32,
                index: self.need(index),
            },
            TraceStep::ReadRegister {
                register,
                index,
                effect,
            } => Instr::ReadRegister {
                register: register as u32,
                index: self.need(index),
                effect,
            },
            TraceStep::WriteRegister {
                register,
                index,
                value,
            } => Instr::WriteRegister {
                register: register as u32,
                index: self.need(index),
                value: self.need(value),
            },
            TraceStep::Call(call) => {
                let RecordedCall {
                    site,
                    args,
                    results,
                    grown,
                } = &recorded[call];
                let (mut numbers, mut constants) = (Vec::new(), Vec::new());
                for (at, arg) in (0..).zip(args) {
                    match arg {
                        RecordedArg::Number(node, width) => match self.constant(*node) {
                            Some(value) => {
                                let mut constant = ExternArg::default();
                                constant.fill(*width, value);
                                constants.push(Some(constant));
                            }
                            None => {
                                let (from, width) = (self.need(*node), *width);
                                numbers.push((at, Number { from, width }));
                                constants.push(None);
                            }
                        },
                        RecordedArg::Bytes { value, width } => {
                            let mut constant = ExternArg::default();
                            constant.fill_with(*width, |bytes| bytes.copy_from_slice(value));
                            constants.push(Some(constant));
                        }
                    }
                }
                calls.push(ExternCall {
                    id: 0,
                    site: *site,
                    numbers: numbers.into(),
                    constants: constants.into(),
                    results: results.clone().into(),
                    grown: *grown,
                });
                Instr::Call(calls.len() as u32 - 1)
            }
        };
        self.code.push(instr);
    }

    fn emit(&mut self, mut headers: Headers) -> Emit {
        let varies = |put: &(NodeId, usize, u32)| !self.known[put.0 as usize];
        headers.puts.retain(varies);
        let mut template = headers.bytes;
        for (_, at, width) in &headers.puts {
            for bit in *at..at + *width as usize {
                template[bit / 8] &= !(0x80 >> (bit % 8));
            }
        }
        let put = |(value, at, width): (NodeId, usize, u32)| {
            let (value, at) = (self.need(value), at as u32);
            match (at % 8, width) {
                (0, 8) => Put::Byte { value, at: at / 8 },
                (0, 16) => Put::Word { value, at: at / 8 },
                (0, 32) => Put::Long { value, at: at / 8 },
                _ => Put::Bits { value, at, width },
            }
        };
        let puts = headers.puts.into_iter().map(put).collect();
        Emit {
            template: template.into(),
            copies: headers.copies.into(),
            puts,
        }
    }
}
