//! The values that a trace computes: a graph of numbers modulo 2¹²⁸, each with its value in the recorded pass.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::bitstream::{mask, read};
use crate::cond::CmpOp;
use crate::expr::{BinOp, Saturation, binary, saturate, sign_extend};
use crate::hash;

pub type NodeId = u32;

/// Operands come before what is computed of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    Const(u128),
    /// Bits of the packet as the pass began with it.
    Input {
        at: u32,
        width: u32,
    },
    /// A value of [`super::entry_state::PassStart::initial`].
    Initial(u32),
    /// Bytes of the packet as the pass began with it.
    Len,
    /// The result of a register, an extern or chance.
    Effect(u32),
    Bin {
        op: BinOp,
        signed: bool,
        left: NodeId,
        right: NodeId,
    },
    /// 1 or 0.
    Compare {
        op: CmpOp,
        signed: bool,
        left: NodeId,
        right: NodeId,
    },
    SignExtend {
        value: NodeId,
        width: u32,
    },
    Saturate {
        value: NodeId,
        signed: bool,
        to: Saturation,
    },
    Select {
        cond: NodeId,
        yes: NodeId,
        no: NodeId,
    },
    /// The sum of 16-bit words of the packet, in bytes: what fields of a header add up to that are as they came.
    Words {
        at: u32,
        len: u32,
    },
    /// The ones' complement checksum of 16-bit words whose sum this is.
    Fold(NodeId),
}

/// The values that nodes without operands read.
pub struct Ground<'a> {
    pub input: &'a [u8],
    pub initial: &'a [u128],
    pub len: usize,
    pub effects: &'a [u128],
}

impl Node {
    /// The node's value; `of` gives its operands'.
    #[inline(always)]
    pub fn eval(&self, ground: &Ground, of: impl Fn(NodeId) -> u128) -> u128 {
        match *self {
            Node::Const(value) => value,
            Node::Input { at, width } => read(ground.input, at as usize, width).unwrap_or(0),
            Node::Initial(index) => ground.initial[index as usize],
            Node::Len => ground.len as u128,
            Node::Effect(index) => ground.effects[index as usize],
            Node::Bin {
                op,
                signed,
                left,
                right,
            } => binary(op, signed, of(left), of(right)),
            Node::Compare {
                op,
                signed,
                left,
                right,
            } => u128::from(compare(op, signed, of(left), of(right))),
            Node::SignExtend { value, width } => sign_extend(of(value), width),
            Node::Saturate { value, signed, to } => saturate(of(value), signed, to),
            Node::Select { cond, yes, no } => match of(cond) {
                0 => of(no),
                _ => of(yes),
            },
            Node::Words { at, len } => {
                let bytes = &ground.input[at as usize..(at + len) as usize];
                u128::from(hash::words_sum(bytes))
            }
            Node::Fold(sum) => u128::from(hash::fold(of(sum) as u64)),
        }
    }

    pub fn operands(&self) -> impl Iterator<Item = NodeId> {
        let operands = match *self {
            Node::Const(_) | Node::Input { .. } | Node::Initial(_) | Node::Len => [None; 3],
            Node::Words { .. } | Node::Effect(_) => [None; 3],
            Node::Bin { left, right, .. } | Node::Compare { left, right, .. } => {
                [Some(left), Some(right), None]
            }
            Node::SignExtend { value, .. } | Node::Saturate { value, .. } | Node::Fold(value) => {
                [Some(value), None, None]
            }
            Node::Select { cond, yes, no } => [Some(cond), Some(yes), Some(no)],
        };
        operands.into_iter().flatten()
    }
}

pub fn compare(op: CmpOp, signed: bool, left: u128, right: u128) -> bool {
    match signed {
        true => op.holds(&(left as i128), &(right as i128)),
        false => op.holds(&left, &right),
    }
}

/// A node with the facts that the recorder knows.
#[derive(Clone, Copy, Debug)]
struct Known {
    node: Node,
    value: u128,
    /// Bits that the value has at most.
    bits: u32,
    /// The first effect after which it can be computed: 0 for what the packet alone decides.
    after: u32,
}

#[derive(Debug, Default)]
pub struct Graph {
    known: Vec<Known>,
    ids: HashMap<Node, NodeId, RandomState>,
}

impl Graph {
    pub fn node(&self, id: NodeId) -> Node {
        self.known[id as usize].node
    }

    /// The node's value when it was recorded.
    pub fn value(&self, id: NodeId) -> u128 {
        self.known[id as usize].value
    }

    /// First bit and bits of a value that is taken from the packet as it came.
    pub fn input(&self, id: NodeId) -> Option<(u32, u32)> {
        match self.node(id) {
            Node::Input { at, width } => Some((at, width)),
            _ => None,
        }
    }

    /// Bits that the value has at most.
    pub fn bits(&self, id: NodeId) -> u32 {
        self.known[id as usize].bits
    }

    /// A shift to the right that brings zeros in.
    pub fn is_unsigned(&self, id: NodeId) -> bool {
        !matches!(self.node(id), Node::Bin { signed: true, .. })
    }

    /// No checksum is part of it: to take all of its bits for granted would leave few packets alike.
    pub fn is_cheap_to_pin(&self, id: NodeId) -> bool {
        let node = self.node(id);
        !matches!(node, Node::Fold(_) | Node::Words { .. } | Node::Len)
            && node.operands().all(|operand| self.is_cheap_to_pin(operand))
    }

    /// The packet, and what came with it, decide it: no effect does.
    pub fn is_pure(&self, id: NodeId) -> bool {
        self.known[id as usize].after == 0
    }

    pub fn constant(&self, id: NodeId) -> Option<u128> {
        match self.node(id) {
            Node::Const(value) => Some(value),
            _ => None,
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        self.known.iter().map(|known| known.node)
    }

    pub fn number(&mut self, value: u128) -> NodeId {
        self.add(Node::Const(value), value, 128 - value.leading_zeros(), 0)
    }

    /// A node without operands.
    pub fn leaf(&mut self, node: Node, value: u128, bits: u32) -> NodeId {
        let after = match node {
            Node::Effect(index) => index + 1,
            _ => 0,
        };
        self.add(node, value, bits, after)
    }

    pub fn cut(&mut self, value: NodeId, width: u32) -> NodeId {
        self.masked(value, mask(width))
    }

    pub fn masked(&mut self, value: NodeId, mask: u128) -> NodeId {
        let mask = self.number(mask);
        self.bin(BinOp::And, false, value, mask)
    }

    pub fn bin(&mut self, op: BinOp, signed: bool, left: NodeId, right: NodeId) -> NodeId {
        let commutes = matches!(
            op,
            BinOp::Add | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor
        );
        let (left, right) = match (self.node(left), self.node(right)) {
            (Node::Const(_), Node::Const(_)) => (left, right),
            (Node::Const(_), _) if commutes => (right, left),
            _ => (left, right),
        };
        // Constants go to the outside of a sum, where they meet.
        if let (BinOp::Add, false) = (op, signed) {
            let by = |id| self.added_constant(id);
            match (by(left), by(right), self.constant(right)) {
                (Some((inner, by)), _, Some(right)) => {
                    let by = self.number(self.value(by).wrapping_add(right));
                    return self.bin(op, false, inner, by);
                }
                (Some((inner, by)), _, None) => {
                    let sum = self.bin(op, false, inner, right);
                    return self.bin(op, false, sum, by);
                }
                (None, Some((inner, by)), _) => {
                    let sum = self.bin(op, false, left, inner);
                    return self.bin(op, false, sum, by);
                }
                _ => {}
            }
        }
        let (a, b) = (self.known[left as usize], self.known[right as usize]);
        if let Node::Const(right) = b.node {
            let covers = |bits: u32| right & mask(bits) == mask(bits);
            match op {
                BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor | BinOp::Shl if right == 0 => {
                    return left;
                }
                BinOp::Shr if right == 0 => return left,
                BinOp::And if covers(a.bits) => return left,
                BinOp::And if right & mask(a.bits) == 0 => return self.number(0),
                _ => {}
            }
        }
        let shift = || u32::try_from(b.value).unwrap_or(u32::MAX);
        let fixed = matches!(b.node, Node::Const(_));
        let bits = match op {
            BinOp::And => a.bits.min(b.bits),
            BinOp::Or | BinOp::Xor => a.bits.max(b.bits),
            BinOp::Add if a.bits.max(b.bits) < 128 => a.bits.max(b.bits) + 1,
            BinOp::Shl if fixed => a.bits.saturating_add(shift()).min(128),
            BinOp::Shr if fixed && !signed => a.bits.saturating_sub(shift()),
            BinOp::Rem if !signed => b.bits,
            _ => 128,
        };
        let node = Node::Bin {
            op,
            signed,
            left,
            right,
        };
        self.compute(node, bits)
    }

    /// The addend and the constant of a sum.
    fn added_constant(&self, id: NodeId) -> Option<(NodeId, NodeId)> {
        match self.node(id) {
            Node::Bin {
                op: BinOp::Add,
                signed: false,
                left,
                right,
            } if self.constant(right).is_some() => Some((left, right)),
            _ => None,
        }
    }

    pub fn compare(&mut self, op: CmpOp, signed: bool, left: NodeId, right: NodeId) -> NodeId {
        if let (Node::Compare { .. }, Some(right @ (0 | 1)), CmpOp::Eq | CmpOp::Ne) =
            (self.node(left), self.constant(right), op)
        {
            return match (right == 1) == (op == CmpOp::Eq) {
                true => left,
                false => self.opposite(left),
            };
        }
        let node = Node::Compare {
            op,
            signed,
            left,
            right,
        };
        self.compute(node, 1)
    }

    /// The checksum of words with this sum.
    pub fn fold(&mut self, sum: NodeId) -> NodeId {
        self.compute(Node::Fold(sum), 16)
    }

    /// A comparison that holds where this one does not.
    fn opposite(&mut self, comparison: NodeId) -> NodeId {
        let Node::Compare {
            op,
            signed,
            left,
            right,
        } = self.node(comparison)
        else {
            return comparison;
        };
        let op = op.opposite();
        self.compare(op, signed, left, right)
    }

    /// 1 for 0, and 0 for everything else.
    pub fn not(&mut self, cond: NodeId) -> NodeId {
        let zero = self.number(0);
        self.compare(CmpOp::Eq, false, cond, zero)
    }

    pub fn select(&mut self, cond: NodeId, yes: NodeId, no: NodeId) -> NodeId {
        match self.constant(cond) {
            Some(0) => no,
            Some(_) => yes,
            None => {
                let bits = self.known[yes as usize]
                    .bits
                    .max(self.known[no as usize].bits);
                self.compute(Node::Select { cond, yes, no }, bits)
            }
        }
    }

    /// A node with operands: a constant if all of them are.
    pub fn compute(&mut self, node: Node, bits: u32) -> NodeId {
        let nothing = Ground {
            input: &[],
            initial: &[],
            len: 0,
            effects: &[],
        };
        let value = node.eval(&nothing, |id| self.value(id));
        let of = |id: NodeId| self.known[id as usize];
        if node
            .operands()
            .all(|id| matches!(of(id).node, Node::Const(_)))
        {
            return self.number(value);
        }
        let after = node.operands().map(|id| of(id).after).max().unwrap_or(0);
        self.add(node, value, bits, after)
    }

    fn add(&mut self, node: Node, value: u128, bits: u32, after: u32) -> NodeId {
        if let Some(id) = self.ids.get(&node) {
            return *id;
        }
        let id = self.known.len() as NodeId;
        self.known.push(Known {
            node,
            value,
            bits,
            after,
        });
        self.ids.insert(node, id);
        id
    }
}
