//! The packet bits that decided a trace, and its requirements: conditions that single bits do not express.

use std::collections::HashSet;

use super::entry_state::INPUT;
use super::node::{Graph, Node, NodeId};
use super::trace::MatchMask;
use crate::bitstream::mask;
use crate::cond::CmpOp;
use crate::expr::BinOp;

pub struct MatchedBits {
    input: [u8; INPUT],
    initial: Vec<u128>,
    /// Conditions on the packet and whether they hold.
    pub required: Vec<(NodeId, bool)>,
    /// Nodes all of whose bits are matched.
    fixed: HashSet<NodeId>,
}

impl MatchedBits {
    pub fn new(initial: usize) -> MatchedBits {
        MatchedBits {
            input: [0; INPUT],
            initial: vec![0; initial],
            required: Vec::new(),
            fixed: HashSet::new(),
        }
    }

    pub fn is_fixed(&self, id: NodeId) -> bool {
        self.fixed.contains(&id)
    }

    pub fn fixed(&mut self, id: NodeId) {
        self.fixed.insert(id);
    }

    /// Makes it part of the match that a condition on the packet holds, or that it does not hold.
    pub fn assume(&mut self, graph: &mut Graph, cond: NodeId, holds: bool) {
        match graph.node(cond) {
            Node::Const(_) => {}
            Node::Bin {
                op: op @ (BinOp::And | BinOp::Or),
                left,
                right,
                ..
            } if graph.bits(left) <= 1 && graph.bits(right) <= 1 => {
                if holds == (op == BinOp::And) {
                    self.assume(graph, left, holds);
                    self.assume(graph, right, holds);
                } else if (graph.value(left) != 0) == holds {
                    self.assume(graph, left, holds);
                } else {
                    self.assume(graph, right, holds);
                }
            }
            Node::Compare {
                op: op @ (CmpOp::Eq | CmpOp::Ne),
                left,
                right,
                ..
            } if graph.constant(right).is_some() => {
                let equal = holds == (op == CmpOp::Eq);
                let one = graph.constant(right) == Some(1);
                if graph.bits(left) <= 1 && (one || graph.constant(right) == Some(0)) {
                    self.assume(graph, left, equal == one);
                } else if equal && graph.is_cheap_to_pin(left) {
                    self.pin(graph, left, u128::MAX);
                } else {
                    self.required.push((cond, holds));
                }
            }
            Node::Compare { .. } | Node::Fold(_) | Node::Words { .. } => {
                self.required.push((cond, holds));
            }
            _ if graph.bits(cond) <= 1 && graph.is_cheap_to_pin(cond) => self.pin(graph, cond, 1),
            _ => self.required.push((cond, holds)),
        }
    }

    /// Adds the bits of a value under `wanted` to the match.
    pub fn pin(&mut self, graph: &mut Graph, id: NodeId, wanted: u128) {
        let wanted = wanted & mask(graph.bits(id));
        if wanted == 0 || self.is_fixed(id) {
            return;
        }
        if wanted == mask(graph.bits(id)) {
            self.fixed.insert(id);
        }
        match graph.node(id) {
            Node::Const(_) | Node::Effect(_) => {}
            Node::Input { at, width } => {
                for bit in (0..width).filter(|bit| wanted >> bit & 1 == 1) {
                    let at = (at + width - 1 - bit) as usize;
                    self.input[at / 8] |= 0x80 >> (at % 8);
                }
            }
            Node::Words { at, len } => self.input[at as usize..(at + len) as usize].fill(0xff),
            Node::Initial(index) => self.initial[index as usize] |= wanted,
            Node::Len => {
                let len = graph.value(id);
                let len = graph.number(len);
                let same = graph.compare(CmpOp::Eq, false, id, len);
                self.required.push((same, true));
            }
            Node::Bin {
                op, left, right, ..
            } => match (op, graph.constant(left), graph.constant(right)) {
                (BinOp::And, _, Some(mask)) => self.pin(graph, left, wanted & mask),
                (BinOp::And, Some(mask), _) => self.pin(graph, right, wanted & mask),
                (BinOp::And | BinOp::Or | BinOp::Xor, ..) => {
                    self.pin(graph, left, wanted);
                    self.pin(graph, right, wanted);
                }
                (BinOp::Shl, _, Some(by @ 0..128)) => self.pin(graph, left, wanted >> by),
                (BinOp::Shr, _, Some(by @ 0..128)) if graph.is_unsigned(id) => {
                    self.pin(graph, left, wanted << by);
                }
                _ => {
                    self.pin(graph, left, u128::MAX);
                    self.pin(graph, right, u128::MAX);
                }
            },
            Node::Select { cond, yes, no } => {
                self.pin(graph, cond, u128::MAX);
                let taken = if graph.value(cond) == 0 { no } else { yes };
                self.pin(graph, taken, wanted);
            }
            node @ (Node::Compare { .. }
            | Node::SignExtend { .. }
            | Node::Saturate { .. }
            | Node::Fold(_)) => {
                for operand in node.operands() {
                    self.pin(graph, operand, u128::MAX);
                }
            }
        }
    }

    /// Returns whether the matched bits alone decide a value.
    fn decides(&self, graph: &Graph, id: NodeId) -> bool {
        let node = graph.node(id);
        let mut operands = node.operands().peekable();
        // A fixed length is a requirement itself.
        self.is_fixed(id) && node != Node::Len
            || self.decides_leaf(node, graph.bits(id))
            || operands.peek().is_some() && operands.all(|operand| self.decides(graph, operand))
    }

    /// The same of a node without operands that has so many bits; of no other.
    pub fn decides_leaf(&self, node: Node, bits: u32) -> bool {
        match node {
            Node::Const(_) => true,
            Node::Initial(index) => {
                let wanted = mask(bits);
                self.initial[index as usize] & wanted == wanted
            }
            Node::Input { at, width } => (at..at + width).all(|at| {
                let at = at as usize;
                self.input[at / 8] & (0x80 >> (at % 8)) != 0
            }),
            Node::Words { at, len } => {
                let bytes = &self.input[at as usize..(at + len) as usize];
                bytes.iter().all(|byte| *byte == 0xff)
            }
            _ => false,
        }
    }

    /// The requirements that the mask does not imply.
    pub fn requirements(&self, graph: &Graph) -> Vec<(NodeId, bool)> {
        let mut left: Vec<(NodeId, bool)> = Vec::new();
        for (cond, holds) in &self.required {
            if !self.decides(graph, *cond) && !left.contains(&(*cond, *holds)) {
                left.push((*cond, *holds));
            }
        }
        left
    }

    pub fn match_mask(&self) -> MatchMask {
        let mut match_mask = MatchMask::default();
        let mut at = 0;
        while at + 8 <= INPUT {
            if self.input[at] == 0 {
                at += 1;
                continue;
            }
            let mut word = [0; 8];
            word.copy_from_slice(&self.input[at..at + 8]);
            match_mask.words.push((at as u32, u64::from_be_bytes(word)));
            at += 8;
        }
        for (index, mask) in self.initial.iter().enumerate() {
            if *mask != 0 {
                match_mask.initial.push((index as u32, *mask));
            }
        }
        match_mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_decided_is_required() {
        let (mut graph, mut matched) = (Graph::default(), MatchedBits::new(0));
        let len = graph.leaf(Node::Len, 100, 32);
        matched.pin(&mut graph, len, u128::MAX);
        let required = matched.requirements(&graph);
        let right = graph.number(100);
        let equal = Node::Compare {
            op: CmpOp::Eq,
            signed: false,
            left: len,
            right,
        };
        let held = required
            .iter()
            .map(|(cond, holds)| (graph.node(*cond), *holds));
        assert_eq!(held.collect::<Vec<_>>(), [(equal, true)]);
    }
}
