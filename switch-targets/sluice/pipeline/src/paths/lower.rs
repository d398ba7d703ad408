//! From what was recorded to what is replayed: nodes get places, and only those that something needs are computed.

use std::collections::HashMap;

use super::headers::Headers;
use super::node::{Graph, Node, NodeId};
use super::path::{Call, Constant, Emit, End, Exit, Instr, Number, PLACES, Path, PlaceIx, Put};
use super::record::{RecordedArg, RecordedCall, Recorder, Snapshot, Step};
use super::walk::Ended;
use crate::cond::CmpOp;
use crate::expr::BinOp;

/// Terms of one sum; longer ones are sums of sums.
const MAX_TERMS: usize = 64;

struct Lowering<'a> {
    graph: &'a Graph,
    /// Nodes that always have the value that was recorded: constants, what the shape's bits decide, and what has been
    /// required or guarded so far.
    known: Vec<bool>,
    places: HashMap<NodeId, PlaceIx>,
    computed: usize,
    /// From the last place back.
    constants: Vec<u128>,
    code: Vec<Instr>,
    nodes: Vec<Node>,
    terms: Vec<PlaceIx>,
}

/// A path, from a recorder that has recorded a whole pass. `None`: it is too long.
pub fn lower(recorder: Recorder, ended: Ended, next_call: &mut u64) -> Option<Path> {
    let requirements = recorder.pins.requirements(&recorder.graph);
    let graph = &recorder.graph;
    let mut lowering = Lowering {
        graph,
        known: (0..)
            .zip(graph.nodes())
            .map(|(id, node)| recorder.pins.decides_leaf(node, graph.bits(id)))
            .collect(),
        places: HashMap::new(),
        computed: 0,
        constants: Vec::new(),
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
        lowering.known[id] |= recorder.pins.is_fixed(id_of) && graph.is_pure(id_of);
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
    let (computed, constants) = (lowering.computed, lowering.constants.len());
    if computed + constants > PLACES || exits.len() > usize::from(u16::MAX) {
        return None;
    }
    lowering.constants.reverse();
    Some(Path {
        min_len: recorder.min_len,
        code: lowering.code.into(),
        nodes: lowering.nodes.into(),
        terms: lowering.terms.into(),
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
    })
}

impl Lowering<'_> {
    /// The place where a node's value is from now on. Places beyond the last make the path too long.
    fn need(&mut self, id: NodeId) -> PlaceIx {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let place = match self.constant(id) {
            Some(value) => {
                self.constants.push(value);
                PLACES.wrapping_sub(self.constants.len())
            }
            None => {
                let instr = self.instr(self.graph.node(id));
                self.code.push(instr);
                self.computed += 1;
                self.computed - 1
            }
        };
        let place = place as PlaceIx;
        self.places.insert(id, place);
        place
    }

    fn constant(&self, id: NodeId) -> Option<u128> {
        self.known[id as usize].then(|| self.graph.value(id))
    }

    /// What is known of operands is known of what is computed of them.
    fn infer(&mut self) {
        for (id, node) in self.graph.nodes().enumerate() {
            let mut operands = node.operands().peekable();
            let computed = operands.peek().is_some();
            self.known[id] |= computed && operands.all(|operand| self.known[operand as usize]);
        }
    }

    /// What computes a node.
    fn instr(&mut self, node: Node) -> Instr {
        match node {
            Node::Input { at, width } => {
                let (first, end) = (at / 8, at % 8 + width);
                if let (Ok(first), 1.., ..=64) = (u8::try_from(first), width, end) {
                    let (right, width) = ((64 - end) as u8, width as u8);
                    return Instr::Input {
                        first,
                        right,
                        width,
                    };
                }
            }
            Node::Words { at, len } => {
                if let (Ok(at), Ok(len)) = (u8::try_from(at), u8::try_from(len)) {
                    return Instr::Words { at, len };
                }
            }
            Node::Len => return Instr::Len,
            Node::Initial(index) => {
                if let Ok(index) = u16::try_from(index) {
                    return Instr::Initial(index);
                }
            }
            Node::Effect(index) => {
                if let Ok(index) = u16::try_from(index) {
                    return Instr::Effect(index);
                }
            }
            Node::Fold(sum) => {
                let (first, count, by) = self.sum([sum]);
                return Instr::Checksum { count, first, by };
            }
            Node::Bin {
                op,
                signed: false,
                left,
                right,
            } => {
                let by = self.constant(right);
                let narrow = by.and_then(|by| u64::try_from(by).ok());
                let shift = by.filter(|by| *by < 128).map(|by| by as u8);
                let signed = by.and_then(|by| i64::try_from(by as i128).ok());
                match (op, signed, narrow, shift) {
                    (BinOp::Add, Some(by), ..) => {
                        let left = self.need(left);
                        return Instr::AddBy { left, by };
                    }
                    (BinOp::And, _, Some(by), _) => {
                        if let Some((left, add)) = self.added(left) {
                            let left = self.need(left);
                            return Instr::AddAndBy { left, add, by };
                        }
                        let left = self.need(left);
                        return Instr::AndBy { left, by };
                    }
                    (BinOp::Shl, .., Some(by)) => {
                        let left = self.need(left);
                        return Instr::ShlBy { left, by };
                    }
                    (BinOp::Shr, .., Some(by)) => {
                        let left = self.need(left);
                        return Instr::ShrBy { left, by };
                    }
                    (BinOp::Add, ..) => {
                        let (first, count, by) = self.sum([left, right]);
                        return Instr::Sum { count, first, by };
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        let node = self.placed(node);
        self.nodes.push(node);
        Instr::Compute(self.nodes.len() as u32 - 1)
    }

    /// What a sum that nothing else has needed adds a small constant to, and the constant.
    fn added(&self, sum: NodeId) -> Option<(NodeId, i32)> {
        match self.graph.node(sum) {
            Node::Bin {
                op: BinOp::Add,
                signed: false,
                left,
                right,
            } if !self.places.contains_key(&sum) => {
                let by = i32::try_from(self.constant(right)? as i128).ok()?;
                Some((left, by))
            }
            _ => None,
        }
    }

    /// The terms of a sum: where they stand, how many, and the constant among them.
    fn sum<const N: usize>(&mut self, of: [NodeId; N]) -> (u32, u16, i64) {
        let (mut open, mut terms, mut by) = (Vec::from(of), Vec::new(), 0i64);
        while let Some(id) = open.pop() {
            let value = self
                .constant(id)
                .and_then(|it| i64::try_from(it as i128).ok());
            if let Some(sum) = value.and_then(|value| by.checked_add(value)) {
                by = sum;
                continue;
            }
            match self.graph.node(id) {
                Node::Bin {
                    op: BinOp::Add,
                    signed: false,
                    left,
                    right,
                } if !self.places.contains_key(&id) && terms.len() + open.len() < MAX_TERMS => {
                    open.extend([left, right]);
                }
                _ => terms.push(self.need(id)),
            }
        }
        let first = self.terms.len() as u32;
        self.terms.extend(&terms);
        (first, terms.len() as u16, by)
    }

    /// Requires that a condition is as it was; with an exit, guards it.
    fn check(&mut self, cond: NodeId, holds: bool, exit: Option<u16>) {
        if self.known[cond as usize] {
            return;
        }
        let (op, left, right) = match self.graph.node(cond) {
            Node::Compare {
                op,
                signed: false,
                left,
                right,
            } => (if holds { op } else { op.opposite() }, left, Some(right)),
            _ => (if holds { CmpOp::Ne } else { CmpOp::Eq }, cond, None),
        };
        let by = right.map_or(Some(0), |right| self.constant(right));
        let left = self.need(left);
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
        // Of a condition that is a number other than 0, more values than the recorded one hold.
        self.known[cond as usize] = right.is_some() || op == CmpOp::Eq;
        let equal = op == CmpOp::Eq && right.is_some_and(|right| self.constant(right).is_some());
        if let (Node::Compare { left, .. }, true) = (self.graph.node(cond), equal) {
            self.known[left as usize] = true;
            // What requirements tell is inferred once, behind the last.
            if exit.is_some() {
                self.infer();
            }
        }
    }

    /// Drops the guards just before one of equality that it implies: all lead to the same exit.
    fn forget_implied(&mut self, equal: PlaceIx, to: u64, exit: u16) {
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

    /// A node with its operands' places.
    fn placed(&mut self, node: Node) -> Node {
        let mut at = |operand: NodeId| NodeId::from(self.need(operand));
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
            Step::Guard { cond, holds, exit } => {
                return self.check(cond, holds, Some(exit as u16));
            }
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
                let (mut numbers, mut constants) = (Vec::new(), Vec::new());
                for (at, arg) in (0..).zip(args) {
                    match arg {
                        RecordedArg::Number(node, width) => match self.constant(*node) {
                            Some(value) => {
                                let width = *width;
                                constants.push(Some(Constant::Number { value, width }));
                            }
                            None => {
                                let (from, width) = (self.need(*node), *width);
                                numbers.push((at, Number { from, width }));
                                constants.push(None);
                            }
                        },
                        RecordedArg::Bytes { value, width } => {
                            let (value, width) = (value.clone(), *width);
                            constants.push(Some(Constant::Bytes { value, width }));
                        }
                    }
                }
                calls.push(Call {
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
