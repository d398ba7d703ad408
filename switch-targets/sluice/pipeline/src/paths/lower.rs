//! From what was recorded to what is replayed: nodes get places, and only those that something needs are computed.

use std::collections::HashMap;

use super::node::{Graph, Node, NodeId};
use super::path::{Call, CallArg, Emit, End, Exit, Instr, Path, Put};
use super::record::{RecordedArg, RecordedCall, Recorder, Snapshot, Step};
use super::walk::{Ended, Headers};

struct Lowering<'a> {
    graph: &'a Graph,
    /// Constants first, then what is computed.
    constants: Vec<u128>,
    places: HashMap<NodeId, u32>,
    code: Vec<Instr>,
}

/// A path, from a recorder that has recorded a whole pass.
pub fn lower(recorder: Recorder, ended: Ended) -> Path {
    let requirements = recorder.pins.requirements(&recorder.graph);
    let graph = &recorder.graph;
    let mut lowering = Lowering {
        graph,
        constants: Vec::new(),
        places: HashMap::new(),
        code: Vec::new(),
    };
    for (id, node) in graph.nodes().enumerate() {
        if let Node::Const(value) = node {
            let place = lowering.constants.len() as u32;
            lowering.places.insert(id as NodeId, place);
            lowering.constants.push(value);
        }
    }
    for (cond, holds) in requirements {
        let cond = lowering.placed(cond);
        lowering.code.push(Instr::Require { cond, holds });
    }
    lowering.code.push(Instr::Trim(recorder.cursor));
    let mut calls = Vec::new();
    for step in &recorder.steps {
        lowering.step(step, &recorder.calls, &mut calls);
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
        }
    };
    let exits: Box<[Exit]> = recorder.exits.iter().map(exit).collect();
    Path {
        min_len: recorder.min_len,
        constants: lowering.constants.into(),
        code: lowering.code.into(),
        calls: calls.into(),
        end,
        graph: match exits.is_empty() {
            true => Box::default(),
            false => graph.nodes().collect(),
        },
        exits,
        effects: recorder.effects(),
        tables: recorder.looked_into.into(),
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
        self.code.push(Instr::Compute(node));
        to
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
            Step::Guard { cond, holds, exit } => Instr::Guard {
                cond: self.placed(cond),
                holds,
                exit: exit as u32,
            },
            Step::CountRow { table, row } => Instr::CountRow { table, row },
            Step::Count { counter, index } => Instr::Count {
                counter,
                index: self.need(index),
            },
            Step::ReadRegister {
                register,
                index,
                effect,
            } => Instr::ReadRegister {
                register,
                index: self.need(index),
                effect,
            },
            Step::WriteRegister {
                register,
                index,
                value,
            } => Instr::WriteRegister {
                register,
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
                    RecordedArg::Number(node, width) => CallArg::Number {
                        from: self.need(*node),
                        width: *width,
                    },
                    RecordedArg::Bytes { value, width } => CallArg::Bytes {
                        value: value.clone(),
                        width: *width,
                    },
                };
                calls.push(Call {
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
        let put = |(value, at, width): (NodeId, usize, u32)| Put {
            value: self.need(value),
            at: at as u32,
            width,
        };
        let puts: Box<[Put]> = headers.puts.into_iter().map(put).collect();
        let mut template = headers.bytes;
        for put in &puts {
            for bit in put.at as usize..(put.at + put.width) as usize {
                template[bit / 8] &= !(0x80 >> (bit % 8));
            }
        }
        Emit {
            template: template.into(),
            copies: headers.copies.into(),
            puts,
        }
    }
}
