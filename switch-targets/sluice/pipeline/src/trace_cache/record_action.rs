//! Records actions: assignments as nodes, effects as steps.

use super::node::NodeId;
use super::record::{Recorded, RecordedArg, RecordedCall, Recorder, TraceStep, Unrecorded};
use crate::bits;
use crate::cond::CmpOp;
use crate::expr::{Args, BinOp};
use crate::ir::{Op, Place, Source, Target};
use crate::layout::{HeaderIx, Home};
use crate::standard::DROP_PORT;

impl Recorder<'_> {
    pub(super) fn place(&mut self, target: &Target, args: &Args) -> Recorded<Option<Place>> {
        Ok(Some(match target {
            Target::Field(place) => *place,
            Target::Member {
                header,
                home,
                width,
            } => {
                let Some(header) = self.header(header, args)? else {
                    return Ok(None);
                };
                let home = home.within(&self.ir.layout.headers[header]);
                Place {
                    header,
                    home,
                    width: *width,
                }
            }
        }))
    }

    pub(super) fn assign(&mut self, target: &Target, value: NodeId, args: &Args) -> Recorded<()> {
        let Some(place) = self.place(target, args)? else {
            return Ok(());
        };
        self.assign_place(place, value)
    }

    pub fn assign_place(&mut self, place: Place, value: NodeId) -> Recorded<()> {
        let Home::Slot(slot) = place.home else {
            return Err(Unrecorded);
        };
        self.slots[slot] = self.graph.cut(value, place.width);
        Ok(())
    }

    pub(super) fn change_validity(&mut self, header: HeaderIx, valid: bool) -> Recorded<()> {
        let layout = &self.ir.layout;
        let instance = &layout.headers[header];
        if instance.union.is_some() {
            return Err(Unrecorded);
        }
        if self.valid[header] == valid {
            return Ok(());
        }
        let bytes = self
            .graph
            .number(layout.type_of(header).fixed_bits as u128 / 8);
        let op = if valid { BinOp::Add } else { BinOp::Sub };
        self.len = self.graph.bin(op, false, self.len, bytes);
        self.valid[header] = valid;
        if valid {
            self.clear(header);
        }
        Ok(())
    }

    pub(super) fn clear(&mut self, header: HeaderIx) {
        let instance = &self.ir.layout.headers[header];
        let zero = self.graph.number(0);
        self.slots[instance.slots.clone()].fill(zero);
        let wide = &instance.wide;
        self.wide.retain(|field| !wide.contains(&field.offset));
    }

    pub fn run_action(&mut self, action: usize, args: &Args) -> Recorded<()> {
        let ir = self.ir;
        self.run(&ir.layout, &ir.actions[action].ops, args)
    }

    pub(super) fn run(
        &mut self,
        layout: &crate::layout::Layout,
        ops: &[Op],
        args: &Args,
    ) -> Recorded<()> {
        // A decision in the middle of an action has no place to resume at.
        let resume = self.resume.take();
        let result = self.ops(layout, ops, args);
        self.resume = resume;
        result
    }

    pub(super) fn ops(
        &mut self,
        layout: &crate::layout::Layout,
        ops: &[Op],
        args: &Args,
    ) -> Recorded<()> {
        let (mut at, mut steps) = (0, 0);
        while let Some(op) = ops.get(at) {
            at += 1;
            steps += 1;
            if steps > 4096 {
                return Err(Unrecorded);
            }
            match op {
                Op::Set {
                    slot, mask, value, ..
                } => {
                    let value = self.num(value, args)?;
                    self.slots[*slot] = self.graph.masked(value, *mask);
                }
                Op::Move { target, source } => {
                    let value = self.source(source, args)?;
                    self.assign(target, value, args)?;
                }
                Op::Validate(header) => {
                    if let Some(header) = self.header(header, args)? {
                        self.change_validity(header, true)?;
                    }
                }
                Op::Invalidate(header) => {
                    if let Some(header) = self.header(header, args)? {
                        self.change_validity(header, false)?;
                    }
                }
                Op::CopyHeaders(pairs) => {
                    for (to, from) in pairs {
                        if let (Some(to), Some(from)) =
                            (self.header(to, args)?, self.header(from, args)?)
                        {
                            self.copy_header(layout, to, from)?;
                        }
                    }
                }
                Op::CopyNext { to, from } => self.next[*to] = self.next[*from],
                Op::Jump(to) => at = *to,
                Op::JumpIfZero(num, to) => {
                    let value = self.num(num, args)?;
                    let zero = self.graph.number(0);
                    let is_zero = self.graph.compare(CmpOp::Eq, false, value, zero);
                    if self.decide(is_zero)? {
                        at = *to;
                    }
                }
                Op::Exit => {
                    self.exit = true;
                    return Ok(());
                }
                Op::Require(cond) => {
                    let cond = self.cond(cond, args)?;
                    if !self.decide(cond)? {
                        return Err(Unrecorded);
                    }
                }
                Op::Drop => {
                    self.number(self.ir.standard.egress_spec, DROP_PORT);
                    self.number(self.ir.standard.mcast_grp, 0);
                }
                Op::Recirculate(fields) => self.recirculate = Some(*fields),
                Op::Count { counter, index } => {
                    let (counter, index) = (*counter, self.num(index, args)?);
                    self.steps.push(TraceStep::Count { counter, index });
                }
                Op::RegisterRead {
                    target,
                    register,
                    index,
                } => {
                    let index = self.num(index, args)?;
                    let cells = self.ir.registers[*register].size as u128;
                    // Outside the array nothing is read: a trace holds reads alone.
                    if self.graph.constant(index).is_none_or(|at| at >= cells) {
                        return Err(Unrecorded);
                    }
                    let (effect, value) = self.effect(self.ir.registers[*register].width)?;
                    let register = *register;
                    self.steps.push(TraceStep::ReadRegister {
                        register,
                        index,
                        effect,
                    });
                    self.assign(target, value, args)?;
                }
                Op::RegisterWrite {
                    register,
                    index,
                    value,
                } => {
                    let index = self.num(index, args)?;
                    let value = self.num(value, args)?;
                    let value = self.graph.cut(value, self.ir.registers[*register].width);
                    let register = *register;
                    self.steps.push(TraceStep::WriteRegister {
                        register,
                        index,
                        value,
                    });
                }
                Op::Hash {
                    target,
                    base,
                    calculation,
                    size,
                } => {
                    let hash = self.calculation(*calculation)?;
                    let (base, size) = (self.num(base, args)?, self.num(size, args)?);
                    let size = self.graph.constant(size).ok_or(Unrecorded)?.max(1);
                    let size = self.graph.number(size);
                    let rest = self.graph.bin(BinOp::Rem, false, hash, size);
                    let value = self.graph.bin(BinOp::Add, false, base, rest);
                    self.assign(target, value, args)?;
                }
                Op::Call(site) => self.call(*site, args)?,
                _ => return Err(Unrecorded),
            }
        }
        Ok(())
    }

    pub(super) fn copy_header(
        &mut self,
        layout: &crate::layout::Layout,
        to: HeaderIx,
        from: HeaderIx,
    ) -> Recorded<()> {
        if to == from {
            return Ok(());
        }
        let (target, source) = (&layout.headers[to], &layout.headers[from]);
        if !source.wide.is_empty() {
            return Err(Unrecorded);
        }
        self.change_validity(to, self.valid[from])?;
        if self.valid[from] {
            self.slots
                .copy_within(source.slots.clone(), target.slots.start);
        }
        Ok(())
    }

    pub(super) fn call(&mut self, site: usize, args: &Args) -> Recorded<()> {
        let call = &self.ir.calls[site];
        let mut given = Vec::new();
        for (value, _) in &call.args {
            let width = value.width;
            given.push(match &value.source {
                Source::Num(num) if width <= 128 => {
                    RecordedArg::Number(self.num(num, args)?, width)
                }
                Source::Param { offset, len } => {
                    let mut value = vec![0; bits::byte_len(width)];
                    bits::copy_low(&args.wide[*offset..offset + len], &mut value);
                    let value = value.into();
                    RecordedArg::Bytes { value, width }
                }
                _ => return Err(Unrecorded),
            });
        }
        let mut results = Vec::new();
        let mut values = Vec::new();
        for (index, (value, target)) in call.args.iter().enumerate() {
            if let Some(target) = target {
                let (effect, node) = self.effect(value.width.min(128))?;
                if value.width > 128 {
                    return Err(Unrecorded);
                }
                results.push((index as u32, effect));
                values.push((target, node));
            }
        }
        let (grown, by) = self.effect(128)?;
        self.calls.push(RecordedCall {
            site,
            args: given,
            results,
            grown,
        });
        self.steps.push(TraceStep::Call(self.calls.len() - 1));
        self.len = self.graph.bin(BinOp::Add, false, self.len, by);
        for (target, node) in values {
            self.assign(target, node, args)?;
        }
        Ok(())
    }
}
