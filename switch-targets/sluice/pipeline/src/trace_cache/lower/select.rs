//! Selects the instruction that computes a node, and the place of its value.

use super::{Lowering, MAX_TERMS};
use crate::cond::CmpOp;
use crate::expr::BinOp;
use crate::trace_cache::node::{Node, NodeId};
use crate::trace_cache::trace::{Instr, VALUES, ValueIx, WIDE};

impl Lowering<'_> {
    /// The value index of a node from here on. More than [`VALUES`] values make the trace too long.
    pub(super) fn need(&mut self, id: NodeId) -> ValueIx {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let place = match (self.constant(id), self.is_narrow(id)) {
            (Some(value), true) => self.place_constant(value as u64),
            (Some(value), false) => {
                self.wide_constants.push(value);
                VALUES.wrapping_sub(self.wide_constants.len()) as ValueIx | WIDE
            }
            (None, true) => {
                let instr = self.instr(self.graph.node(id));
                self.compute(instr)
            }
            (None, false) => {
                let instr = Instr::Wide(self.node(self.graph.node(id)));
                self.code.push(instr);
                self.wide_computed += 1;
                (self.wide_computed - 1) as ValueIx | WIDE
            }
        };
        self.places.insert(id, place);
        place
    }

    /// The same for a number, or for 1 in the place of one of more than 64 bits that is not 0.
    pub(super) fn need_narrow(&mut self, id: NodeId) -> ValueIx {
        let place = self.need(id);
        if place & WIDE == 0 {
            return place;
        }
        let zero = NodeId::from(self.place_constant(0));
        self.nodes.push(Node::Compare {
            op: CmpOp::Ne,
            signed: false,
            left: place.into(),
            right: zero,
        });
        let instr = Instr::Compute(self.nodes.len() as u32 - 1);
        self.compute(instr)
    }

    fn place_constant(&mut self, value: u64) -> ValueIx {
        self.constants.push(value);
        VALUES.wrapping_sub(self.constants.len()) as ValueIx
    }

    fn compute(&mut self, instr: Instr) -> ValueIx {
        self.code.push(instr);
        self.computed += 1;
        (self.computed - 1) as ValueIx
    }

    pub(super) fn constant(&self, id: NodeId) -> Option<u128> {
        self.known[id as usize].then(|| self.graph.value(id))
    }

    /// Returns whether the node's value never has more than 64 bits.
    pub(super) fn is_narrow(&self, id: NodeId) -> bool {
        self.graph.bits(id) <= 64
    }

    /// The instruction that computes a number of at most 64 bits.
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
                if let Some((first, count, by)) = self.sum([sum]) {
                    return Instr::Checksum { count, first, by };
                }
            }
            Node::Bin {
                op,
                signed: false,
                left,
                right,
            } => {
                let by = self.constant(right);
                let narrow = by.and_then(|by| u64::try_from(by).ok());
                let shift = by.filter(|by| *by < 64).map(|by| by as u8);
                let signed = by.and_then(|by| i64::try_from(by as i128).ok());
                let is_narrow = self.is_narrow(left);
                match (op, signed, narrow, shift) {
                    (BinOp::Add, Some(by), ..) if is_narrow => {
                        let left = self.need(left);
                        return Instr::AddBy { left, by };
                    }
                    (BinOp::And, _, Some(by), _) => {
                        if let Some((left, add)) = self.added(left) {
                            let left = self.need(left);
                            return Instr::AddAndBy { left, add, by };
                        }
                        if is_narrow {
                            let left = self.need(left);
                            return Instr::AndBy { left, by };
                        }
                    }
                    (BinOp::Shl, .., Some(by)) if is_narrow => {
                        let left = self.need(left);
                        return Instr::ShlBy { left, by };
                    }
                    (BinOp::Shr, .., Some(by)) if is_narrow => {
                        let left = self.need(left);
                        return Instr::ShrBy { left, by };
                    }
                    (BinOp::Add, ..) => {
                        if let Some((first, count, by)) = self.sum([left, right]) {
                            return Instr::Sum { count, first, by };
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Instr::Compute(self.node(node))
    }

    /// Adds a node to [`Trace::nodes`]. Returns its index.
    fn node(&mut self, node: Node) -> u32 {
        let node = self.placed(node);
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// The addend and the small constant of a sum that no other node has needed, of at most 64 bits.
    fn added(&self, sum: NodeId) -> Option<(NodeId, i32)> {
        match self.graph.node(sum) {
            Node::Bin {
                op: BinOp::Add,
                signed: false,
                left,
                right,
            } if !self.places.contains_key(&sum) && self.is_narrow(left) => {
                let by = i32::try_from(self.constant(right)? as i128).ok()?;
                Some((left, by))
            }
            _ => None,
        }
    }

    /// The terms of a sum, where they have at most 64 bits: where they stand, how many, and the constant among them.
    fn sum<const N: usize>(&mut self, of: [NodeId; N]) -> Option<(u32, u16, i64)> {
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
                _ if self.is_narrow(id) => terms.push(self.need(id)),
                _ => return None,
            }
        }
        let first = self.terms.len() as u32;
        self.terms.extend(&terms);
        Some((first, terms.len() as u16, by))
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
}
