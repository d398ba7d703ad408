//! Records a pass from parser to deparser, in the order of [`crate::process`].

use super::node::{Node, NodeId};
use super::path::{Copied, Resume};
use super::record::{Recorded, Recorder, Step, Unrecorded};
use crate::bitstream::Writer;
use crate::cond::CmpOp;
use crate::expr::{Args, BinOp};
use crate::hash;
use crate::ir::{CalcInput, Checksum, Flow, FlowNode, Place};
use crate::layout::Home;
use crate::machine::DROP_PORT;
use crate::process::instance;

/// How the pass ended.
pub enum Ended {
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

/// The headers that the pass ended with.
#[derive(Default)]
pub struct Headers {
    /// As they were for this packet.
    pub bytes: Vec<u8>,
    pub copies: Vec<Copied>,
    /// What is not copied: node, first bit, bits.
    pub puts: Vec<(NodeId, usize, u32)>,
}

impl Recorder<'_> {
    pub fn pass(&mut self) -> Recorded<Ended> {
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
            return Ok(Ended::Drop);
        }
        self.egress(port as u16)
    }

    fn egress(&mut self, port: u16) -> Recorded<Ended> {
        let ir = self.ir;
        let standard = &ir.standard;
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
            return Ok(Ended::Drop);
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
            return Ok(Ended::Send { port, headers });
        };
        let mut carry = Vec::new();
        for place in &ir.field_lists[list] {
            let Home::Slot(slot) = place.home else {
                return Err(Unrecorded);
            };
            carry.push(self.slot(slot));
        }
        Ok(Ended::Recirculate {
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

    fn flow(&mut self, flow: &Flow, resume: impl Fn(usize) -> Resume) -> Recorded<()> {
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
                // What a profile or a meter does differs from packet to packet.
                FlowNode::ApplyExtended { .. } => return Err(Unrecorded),
            }
        }
        Ok(())
    }

    fn apply(&mut self, table: usize) -> Recorded<crate::ir::Next> {
        let found = self.lookup(table)?;
        if self.tables[table].counts() {
            self.steps.push(Step::CountFound { table, found });
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

    /// What the deparser writes: runs of the packet's own bytes as copies, constants into the template, the rest by itself.
    fn headers(&mut self) -> Recorded<Headers> {
        let ir = self.ir;
        let layout = &ir.layout;
        let mut headers = Headers::default();
        let mut runs = Runs::default();
        let mut writer = Writer::new(&mut headers.bytes);
        let mut at = 0;
        for header in &ir.deparser {
            if !self.valid[*header] {
                continue;
            }
            let instance = &layout.headers[*header];
            for field in &layout.types[instance.ty].fields {
                let (input, value) = match field.home.within(instance) {
                    Home::Slot(slot) => {
                        let value = self.slots[slot];
                        writer.put(self.graph.value(value), field.width);
                        let input = self.graph.input(value);
                        (input.filter(|input| input.1 == field.width), Some(value))
                    }
                    Home::Wide { offset, .. } => {
                        let wide = self.wide.iter().find(|wide| wide.offset == offset);
                        // A wide field that nothing was extracted into is 0.
                        match wide {
                            Some(wide) => {
                                self.copy_bits(&mut writer, wide.at, field.width)?;
                                (Some((wide.at as u32, field.width)), None)
                            }
                            None => {
                                (0..field.width).for_each(|_| writer.put(0, 1));
                                (None, None)
                            }
                        }
                    }
                    // No path has a varbit that is not empty.
                    Home::Var { .. } => continue,
                };
                runs.add(input.map(|input| input.0 as usize), value, at, field.width);
                at += field.width as usize;
            }
        }
        writer.finish();
        if at % 8 != 0 {
            return Err(Unrecorded);
        }
        runs.finish();
        for run in runs.all {
            match run.aligned() {
                Some(copied) => headers.copies.push(copied),
                None => {
                    for (value, at, width) in run.fields {
                        let value = value.ok_or(Unrecorded)?;
                        if self.graph.constant(value).is_none() {
                            headers.puts.push((value, at, width));
                        }
                    }
                }
            }
        }
        Ok(headers)
    }

    fn copy_bits(&self, writer: &mut Writer, at: usize, width: u32) -> Recorded<()> {
        for bit in at..at + width as usize {
            let byte = self.input_byte(bit / 8).ok_or(Unrecorded)?;
            writer.put(u128::from(byte >> (7 - bit % 8) & 1), 1);
        }
        Ok(())
    }
}

/// Consecutive fields that are consecutive bits of the packet as it came.
#[derive(Default)]
struct Run {
    from: Option<usize>,
    to: usize,
    bits: usize,
    fields: Vec<(Option<NodeId>, usize, u32)>,
}

impl Run {
    fn aligned(&self) -> Option<Copied> {
        let from = self.from?;
        (from % 8 == 0 && self.to % 8 == 0 && self.bits % 8 == 0).then_some(Copied {
            from: (from / 8) as u32,
            to: (self.to / 8) as u32,
            len: (self.bits / 8) as u32,
        })
    }
}

#[derive(Default)]
struct Runs {
    all: Vec<Run>,
    open: Run,
}

impl Runs {
    fn add(&mut self, from: Option<usize>, value: Option<NodeId>, to: usize, width: u32) {
        let goes_on = self
            .open
            .from
            .zip(from)
            .is_some_and(|(run, from)| run + self.open.bits == from);
        if !goes_on {
            self.finish();
            (self.open.from, self.open.to) = (from, to);
        }
        self.open.bits += width as usize;
        self.open.fields.push((value, to, width));
    }

    fn finish(&mut self) {
        if !self.open.fields.is_empty() {
            self.all.push(std::mem::take(&mut self.open));
        }
    }
}
