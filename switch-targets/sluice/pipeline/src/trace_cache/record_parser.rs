//! Records the parser: headers become bits of the packet, and what a select looks at is taken for granted.

use super::entry_state::INPUT;
use super::node::{Node, NodeId};
use super::record::{Recorded, Recorder, Unrecorded};
use super::trace::WideInput;
use crate::bitstream::read;
use crate::expr::{Args, BinOp, Num};
use crate::ir::{Accepts, Case, KeySource, ParserOp, ParserState};
use crate::layout::{HeaderIx, Home, StackIx};

impl Recorder<'_> {
    pub fn parse(&mut self) -> Recorded<()> {
        let ir = self.ir;
        let mut next = ir.parser.start;
        for _ in 0..256 {
            let Some(state) = next else {
                return Ok(());
            };
            let state = &ir.parser.states[state];
            for op in &state.ops {
                self.parser_op(op)?;
            }
            next = self.select_case(state)?;
        }
        Err(Unrecorded)
    }

    pub(super) fn parser_op(&mut self, op: &ParserOp) -> Recorded<()> {
        let ir = self.ir;
        match op {
            ParserOp::Extract(header) => self.extract(*header, 0),
            ParserOp::ExtractVar { header, bits } => {
                let len = self.fixed_bytes(bits)?;
                self.extract(*header, len)
            }
            ParserOp::ExtractNext { stack, member } => {
                let header = self.next_of(*stack, *member)?;
                self.extract(header, 0)?;
                self.next[*stack] += 1;
                Ok(())
            }
            ParserOp::ExtractNextVar {
                stack,
                member,
                bits,
            } => {
                let header = self.next_of(*stack, *member)?;
                let len = self.fixed_bytes(bits)?;
                self.extract(header, len)?;
                self.next[*stack] += 1;
                Ok(())
            }
            ParserOp::Set { target, source } => {
                let value = self.source(source, &Args::default())?;
                self.assign(target, value, &Args::default())
            }
            ParserOp::Lookahead { target, at, width } => {
                let value = self.ahead(*at, *width)?;
                self.assign(target, value, &Args::default())
            }
            ParserOp::Verify { cond, .. } => {
                let cond = self.cond(cond, &Args::default())?;
                match self.decide(cond)? {
                    true => Ok(()),
                    false => Err(Unrecorded),
                }
            }
            ParserOp::Advance(bits) => {
                let len = self.fixed_bytes(bits)?;
                self.pass_over(len).map(drop)
            }
            ParserOp::Run(ops) => self.run(&ir.layout, ops, &Args::default()),
        }
    }

    pub(super) fn fixed_bytes(&mut self, bits: &Num) -> Recorded<usize> {
        let node = self.num(bits, &Args::default())?;
        self.fix(node, u128::MAX)?;
        let bits = self.graph.value(node);
        match usize::try_from(bits) {
            Ok(bits) if bits % 8 == 0 => Ok(bits / 8),
            _ => Err(Unrecorded),
        }
    }

    pub(super) fn next_of(&self, stack: StackIx, member: usize) -> Recorded<HeaderIx> {
        let element = self.ir.layout.stacks[stack].elements.get(self.next[stack]);
        element
            .and_then(|element| element.get(member))
            .copied()
            .ok_or(Unrecorded)
    }

    /// Moves on by `len` bytes, which are there. Returns where they begin.
    pub(super) fn pass_over(&mut self, len: usize) -> Recorded<usize> {
        let start = self.cursor;
        self.cursor += len;
        self.reach(self.cursor)?;
        Ok(start)
    }

    /// The packet is so long.
    pub(super) fn reach(&mut self, end: usize) -> Recorded<()> {
        if end > INPUT - 8 || end > self.packet_len {
            return Err(Unrecorded);
        }
        self.min_len = self.min_len.max(end);
        Ok(())
    }

    pub(super) fn ahead(&mut self, at: usize, width: u32) -> Recorded<NodeId> {
        let at = self.cursor * 8 + at;
        self.reach((at + width as usize).div_ceil(8))?;
        self.bits_of_input(at, width)
    }

    pub(super) fn bits_of_input(&mut self, at: usize, width: u32) -> Recorded<NodeId> {
        let value = read(self.input, at, width).ok_or(Unrecorded)?;
        let node = Node::Input {
            at: at as u32,
            width,
        };
        Ok(self.graph.leaf(node, value, width))
    }

    pub(super) fn extract(&mut self, header: HeaderIx, var_len: usize) -> Recorded<()> {
        let layout = &self.ir.layout;
        let instance = &layout.headers[header];
        if instance.union.is_some() || var_len > 0 {
            return Err(Unrecorded);
        }
        let ty = &layout.types[instance.ty];
        let mut at = self.pass_over(ty.fixed_bits / 8)? * 8;
        self.valid[header] = true;
        for field in &ty.fields {
            match field.home.within(instance) {
                Home::Slot(slot) => self.slots[slot] = self.bits_of_input(at, field.width)?,
                Home::Wide { offset, len } => {
                    self.wide.retain(|wide| wide.offset != offset);
                    self.wide.push(WideInput {
                        offset,
                        len,
                        at,
                        width: field.width,
                    });
                }
                Home::Var { .. } => {}
            }
            at += field.width as usize;
        }
        Ok(())
    }

    pub(super) fn select_case(&mut self, state: &ParserState) -> Recorded<crate::ir::Next> {
        match state.cases.as_slice() {
            [] => return Ok(None),
            [
                Case {
                    accepts: Accepts::All,
                    next,
                },
                ..,
            ] => return Ok(*next),
            _ => {}
        }
        if !state.narrow {
            return Err(Unrecorded);
        }
        let mut key = self.graph.number(0);
        for part in &state.key {
            let value = match &part.source {
                KeySource::Value(source) => {
                    let value = self.source(source, &Args::default())?;
                    self.graph.cut(value, part.width)
                }
                KeySource::Lookahead { at } => self.ahead(*at, part.width)?,
            };
            key = if part.len == 16 {
                value
            } else {
                let by = self.graph.number(8 * part.len as u128);
                let high = self.graph.bin(BinOp::Shl, false, key, by);
                self.graph.bin(BinOp::Or, false, high, value)
            };
        }
        let found = self.graph.value(key);
        let mut looked_at = 0;
        for case in &state.cases {
            match case.accepts {
                Accepts::Narrow { value, mask } => {
                    looked_at |= mask;
                    if found & mask == value {
                        self.fix(key, looked_at)?;
                        return Ok(case.next);
                    }
                }
                Accepts::All => {
                    self.fix(key, looked_at)?;
                    return Ok(case.next);
                }
                Accepts::Wide { .. } | Accepts::ValueSet { .. } => return Err(Unrecorded),
            }
        }
        Err(Unrecorded)
    }
}
