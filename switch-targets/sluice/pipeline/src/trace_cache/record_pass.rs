//! Records a pass from parser to deparser, in simple_switch's order.

use super::headers::Headers;
use super::node::{Node, NodeId};
use super::record::{Recorded, Recorder, Unrecorded};
use super::trace::Resume;
use crate::bitstream::Writer;
use crate::cond::CmpOp;
use crate::expr::{Args, BinOp};
use crate::hash;
use crate::ir::{CalcInput, Checksum, FlowGraph, FlowNode, Place};
use crate::layout::Home;
use crate::standard::{DROP_PORT, instance};

/// The end of a recorded pass, with its nodes.
pub enum SymbolicEnd {
    Drop,
    Send {
        port: u16,
        headers: Headers,
    },
    Recirculate {
        list: usize,
        carry: Vec<NodeId>,
        headers: Headers,
    },
}

impl Recorder<'_> {
    pub fn pass(&mut self) -> Recorded<SymbolicEnd> {
        let ir = self.ir;
        let standard = &ir.standard;
        self.parse()?;
        self.number(standard.parser_error, ir.errors.no_error);
        let wrong = self.verify()?;
        self.set(standard.checksum_error, wrong);
        self.flow(&ir.ingress, Resume::Ingress)?;
        if let Some(group) = standard.mcast_grp {
            self.resume = None;
            let group = self.slot(group);
            let zero = self.graph.number(0);
            let none = self.graph.compare(CmpOp::Eq, false, group, zero);
            if !self.decide(none)? {
                return Err(Unrecorded);
            }
        }
        let port = self.fixed_slot(standard.egress_spec)?;
        if port == DROP_PORT {
            return Ok(SymbolicEnd::Drop);
        }
        self.egress(port as u16)
    }

    fn egress(&mut self, port: u16) -> Recorded<SymbolicEnd> {
        let ir = self.ir;
        let standard = &ir.standard;
        if !standard.queue.is_empty() {
            return Err(Unrecorded);
        }
        self.number(standard.instance_type, instance::NORMAL);
        self.enter_egress();
        self.number(standard.egress_port, u128::from(port));
        self.number(standard.egress_spec, 0);
        self.set(standard.packet_length, self.len);
        let now = self.now;
        let short = self.graph.cut(now, 32);
        self.set(standard.enqueue_timestamp, short);
        self.set(standard.egress_timestamp, now);
        self.flow(&ir.egress, |node| Resume::Egress { node, port })?;
        self.resume = None;
        if self.fixed_slot(standard.egress_spec)? == DROP_PORT {
            return Ok(SymbolicEnd::Drop);
        }
        self.resume = Some(Resume::Update { port });
        for checksum in &ir.update {
            if self.applies(checksum)? {
                let value = self.calculation(checksum.calculation)?;
                self.assign_place(checksum.target, value)?;
            }
        }
        let headers = self.headers()?;
        let Some(list) = self.recirculate else {
            return Ok(SymbolicEnd::Send { port, headers });
        };
        let mut carry = Vec::new();
        for place in &ir.field_lists[list] {
            let Home::Slot(slot) = place.home else {
                return Err(Unrecorded);
            };
            carry.push(self.slot(slot));
        }
        Ok(SymbolicEnd::Recirculate {
            list,
            carry,
            headers,
        })
    }

    fn fixed_slot(&mut self, slot: Option<usize>) -> Recorded<u128> {
        let Some(slot) = slot else {
            return Ok(0);
        };
        self.resume = None;
        let value = self.slot(slot);
        self.fix(value, u128::MAX)?;
        Ok(self.graph.value(value))
    }

    fn flow(&mut self, flow: &FlowGraph, resume: impl Fn(usize) -> Resume) -> Recorded<()> {
        let none = Args::default();
        let mut next = flow.start;
        while let (Some(node), false) = (next, self.has_exited()) {
            self.resume = Some(resume(node));
            match &flow.nodes[node] {
                FlowNode::Branch { cond, yes, no } => {
                    let cond = self.cond(cond, &none)?;
                    next = if self.decide(cond)? { *yes } else { *no };
                }
                FlowNode::Run {
                    action,
                    args,
                    next: after,
                } => {
                    self.run_action(*action, args)?;
                    next = *after;
                }
                FlowNode::Apply { table } => next = self.apply(*table)?,
                // The effect of a profile or a meter differs from packet to packet.
                FlowNode::ApplyExtended { .. } => return Err(Unrecorded),
            }
        }
        Ok(())
    }

    fn apply(&mut self, table: usize) -> Recorded<crate::ir::Next> {
        let found = self.lookup(table)?;
        if self.tables[table].counts() {
            self.counted.push((table, found));
        }
        let Some(bound) = self.tables[table].bound(found) else {
            return Ok(self.tables[table].miss());
        };
        let (action, args, next) = (bound.action, bound.args.clone(), bound.next);
        self.run_action(action, &args)?;
        Ok(next)
    }

    fn applies(&mut self, checksum: &Checksum) -> Recorded<bool> {
        if !self.valid[checksum.target.header] {
            return Ok(false);
        }
        let cond = self.cond(&checksum.cond, &Args::default())?;
        self.decide(cond)
    }

    /// 1 if any checksum is wrong.
    fn verify(&mut self) -> Recorded<NodeId> {
        let ir = self.ir;
        let mut wrong = self.graph.number(0);
        for checksum in &ir.verify {
            self.resume = None;
            if !self.applies(checksum)? {
                continue;
            }
            let expected = self.calculation(checksum.calculation)?;
            let expected = self.graph.cut(expected, checksum.target.width);
            let Home::Slot(slot) = checksum.target.home else {
                return Err(Unrecorded);
            };
            let found = self.slot(slot);
            let differs = self.graph.compare(CmpOp::Ne, false, found, expected);
            wrong = self.graph.bin(BinOp::Or, false, wrong, differs);
        }
        Ok(wrong)
    }

    /// The result of a checksum, or of a hash whose input is taken for granted.
    pub fn calculation(&mut self, calculation: usize) -> Recorded<NodeId> {
        let calculation = &self.ir.calculations[calculation];
        if let Some(sum) = &calculation.sum
            && self.valid[sum.header]
        {
            let total = self.sum(&sum.terms)?;
            return Ok(self.graph.fold(total));
        }
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        for input in &calculation.input {
            match input {
                CalcInput::Field(place) if self.valid[place.header] => {
                    let value = self.fixed_place(*place)?;
                    writer.put(value, place.width);
                }
                CalcInput::Const { value, width } => writer.put_bytes(value, *width),
                CalcInput::Field(_) => {}
                CalcInput::Header(_) | CalcInput::Payload => return Err(Unrecorded),
            }
        }
        writer.finish();
        let hash = calculation.algorithm.run(&bytes);
        Ok(self.graph.number(u128::from(hash)))
    }

    /// Fields, each shifted to its place in a 16-bit word, added up; whole words that are as they came at once.
    fn sum(&mut self, terms: &[(usize, u32)]) -> Recorded<NodeId> {
        let mut total = self.graph.number(0);
        let mut at = 0;
        while let Some((slot, shift)) = terms.get(at) {
            let value = self.slots[*slot];
            let (bits, run) = self.words(&terms[at..]);
            let term = match (bits, self.graph.input(value)) {
                (1.., Some((from, _))) => {
                    let (from, len) = (from / 8, bits / 8);
                    let bytes = self.input_bytes(from as usize, len as usize)?;
                    let sum = u128::from(hash::words_sum(bytes));
                    at += run;
                    self.graph.leaf(Node::Words { at: from, len }, sum, 40)
                }
                _ => {
                    at += 1;
                    let shift = self.graph.number(u128::from(*shift));
                    self.graph.bin(BinOp::Shl, false, value, shift)
                }
            };
            total = self.graph.bin(BinOp::Add, false, total, term);
        }
        Ok(total)
    }

    /// The bits and the number of the first terms that are whole words of the packet as it came, one behind the other.
    fn words(&self, terms: &[(usize, u32)]) -> (u32, usize) {
        let (mut bits, mut next, mut found) = (0, None, (0, 0));
        for (index, (slot, shift)) in terms.iter().enumerate() {
            let Some((at, width)) = self.graph.input(self.slots[*slot]) else {
                break;
            };
            let begins_word = (16 - shift % 16 + 16 * 16 - width) % 16 == 0 && at % 8 == 0;
            if next.is_some_and(|next| next != at) || (index == 0 && !begins_word) {
                break;
            }
            bits += width;
            next = Some(at + width);
            if bits % 16 == 0 {
                found = (bits, index + 1);
            }
        }
        found
    }

    fn fixed_place(&mut self, place: Place) -> Recorded<u128> {
        let Home::Slot(slot) = place.home else {
            return Err(Unrecorded);
        };
        let value = self.slot(slot);
        self.fix(value, u128::MAX)?;
        Ok(self.graph.value(value))
    }
}
