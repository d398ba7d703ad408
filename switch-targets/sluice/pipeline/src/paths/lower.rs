//! From what was recorded to what is replayed: nodes get places, and only those that something needs are computed.

use std::collections::HashMap;

use super::headers::Headers;
use super::node::{Graph, Node, NodeId};
use super::path::{Call, CallArg, Check, Emit, End, Exit, Instr, Path, Put};
use super::record::{RecordedArg, RecordedCall, Recorder, Snapshot, Step};
use super::walk::Ended;
use crate::cond::CmpOp;
use crate::expr::BinOp;

struct Lowering<'a> {
    graph: &'a Graph,
    /// Constants first, then what is computed.
    constants: Vec<u128>,
    places: HashMap<NodeId, u32>,
    code: Vec<Instr>,
    nodes: Vec<Node>,
    /// The place of 0.
    zero: u32,
}

/// A path, from a recorder that has recorded a whole pass.
pub fn lower(recorder: Recorder, ended: Ended, next_call: &mut u64) -> Path {
    let requirements = recorder.pins.requirements(&recorder.graph);
    let graph = &recorder.graph;
    let mut lowering = Lowering {
        graph,
        constants: Vec::new(),
        places: HashMap::new(),
        code: Vec::new(),
        nodes: Vec::new(),
        zero: 0,
    };
    for (id, node) in graph.nodes().enumerate() {
        if let Node::Const(value) = node {
            let place = lowering.constants.len() as u32;
            lowering.places.insert(id as NodeId, place);
            lowering.constants.push(value);
            if value == 0 {
                lowering.zero = place;
            }
        }
    }
    for (cond, holds) in requirements {
        let check = lowering.check(cond, holds);
        lowering.code.push(Instr::Require(check));
    }
    lowering.code.push(Instr::Trim(recorder.cursor as u32));
    let mut calls = Vec::new();
    for step in &recorder.steps {
        lowering.step(step, &recorder.calls, &mut calls);
    }
    for call in &mut calls {
        *next_call += 1;
        call.id = *next_call;
    }
    let end = match ended {
        Ended::Drop => End::Drop,
        Ended::Send { port, headers } => End::Send {
            port,
            headers: lowering.emit(headers),
        },
        Ended::Recirculate {
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
            wide: snapshot.wide.clone().into(),
            next: snapshot.next.clone().into(),
            len: snapshot.len,
            recirculate: snapshot.recirculate,
            counted: snapshot.counted,
        }
    };
    let exits: Box<[Exit]> = recorder.exits.iter().map(exit).collect();
    Path {
        min_len: recorder.min_len,
        places: lowering.places.len(),
        code: lowering.code.into(),
        nodes: lowering.nodes.into(),
        constants: lowering.constants.into(),
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
    }
}

impl Lowering<'_> {
    /// The place where a node's value is from now on.
    fn need(&mut self, id: NodeId) -> u32 {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let node = self.placed(id);
        let to = self.places.len() as u32;
        self.places.insert(id, to);
        let instr = match node {
            Node::Input { at, width } => Instr::Input { at, width },
            Node::Bin {
                op,
                signed: false,
                left,
                right,
            } => match op {
                BinOp::Add => Instr::Add(left, right),
                BinOp::And => Instr::And(left, right),
                BinOp::Shl => Instr::Shl(left, right),
                BinOp::Shr => Instr::Shr(left, right),
                _ => self.compute(node),
            },
            _ => self.compute(node),
        };
        self.code.push(instr);
        to
    }

    fn compute(&mut self, node: Node) -> Instr {
        self.nodes.push(node);
        Instr::Compute(self.nodes.len() as u32 - 1)
    }

    /// What must hold for a condition to be as it was.
    fn check(&mut self, cond: NodeId, holds: bool) -> Check {
        if let Node::Compare {
            op,
            signed: false,
            left,
            right,
        } = self.placed(cond)
        {
            let op = if holds { op } else { op.opposite() };
            return Check { op, left, right };
        }
        let op = if holds { CmpOp::Ne } else { CmpOp::Eq };
        let (left, right) = (self.need(cond), self.zero);
        Check { op, left, right }
    }

    /// A node with its operands' places.
    fn placed(&mut self, id: NodeId) -> Node {
        let node = self.graph.node(id);
        let mut at = |operand: NodeId| self.need(operand);
        match node {
            Node::Bin {
                op,
                signed,
                left,
                right,
            } => Node::Bin {
                op,
                signed,
                left: at(left),
                right: at(right),
            },
            Node::Compare {
                op,
                signed,
                left,
                right,
            } => Node::Compare {
                op,
                signed,
                left: at(left),
                right: at(right),
            },
            Node::SignExtend { value, width } => Node::SignExtend {
                value: at(value),
                width,
            },
            Node::Saturate { value, signed, to } => Node::Saturate {
                value: at(value),
                signed,
                to,
            },
            Node::Select { cond, yes, no } => Node::Select {
                cond: at(cond),
                yes: at(yes),
                no: at(no),
            },
            Node::Fold(value) => Node::Fold(at(value)),
            leaf => leaf,
        }
    }

    fn step(&mut self, step: &Step, recorded: &[RecordedCall], calls: &mut Vec<Call>) {
        let instr = match *step {
            Step::Guard { cond, holds, exit } => Instr::Guard(self.check(cond, holds), exit as u32),
            Step::Count { counter, index } => Instr::Count {
                counter: counter as u32,
                index: self.need(index),
            },
            Step::ReadRegister {
                register,
                index,
                effect,
            } => Instr::ReadRegister {
                register: register as u32,
                index: self.need(index),
                effect,
            },
            Step::WriteRegister {
                register,
                index,
                value,
            } => Instr::WriteRegister {
                register: register as u32,
                index: self.need(index),
                value: self.need(value),
            },
            Step::Call(call) => {
                let RecordedCall {
                    site,
                    args,
                    results,
                    grown,
                } = &recorded[call];
                let arg = |arg: &RecordedArg| match arg {
                    RecordedArg::Number(node, width) => match self.graph.constant(*node) {
                        Some(value) => CallArg::Constant {
                            value,
                            width: *width,
                        },
                        None => CallArg::Number {
                            from: self.need(*node),
                            width: *width,
                        },
                    },
                    RecordedArg::Bytes { value, width } => CallArg::Bytes {
                        value: value.clone(),
                        width: *width,
                    },
                };
                calls.push(Call {
                    id: 0,
                    site: *site,
                    args: args.iter().map(arg).collect(),
                    results: results.clone().into(),
                    grown: *grown,
                });
                Instr::Call(calls.len() as u32 - 1)
            }
        };
        self.code.push(instr);
    }

    fn emit(&mut self, headers: Headers) -> Emit {
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
