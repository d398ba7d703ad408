//! Interprets actions: applies operations to a packet and to the program's objects.

use std::time::Duration;

use crate::bitstream::mask;
use crate::calculation;
use crate::effects::{EffectLog, Objects};
use crate::expr::{Args, Scope};
use crate::externs::{ExternArg, Packet};
use crate::ir::{Action, Ir, Op};
use crate::journal::Journal;
use crate::layout::Home;
use crate::outcome::{Digest, Faults, Outcome};
use crate::packet_state::{CloneRequest, PacketState};
use crate::spec::DigestId;
use crate::standard::DROP_PORT;
use crate::table::KeyBuffer;

/// Jumps back that one run of an action may make.
const MAX_LOOPS: usize = 1 << 16;

/// Buffers of one lane.
#[derive(Debug, Default)]
pub struct LaneScratch {
    /// Arguments by call site.
    pub args: Vec<Vec<ExternArg>>,
    /// The recorded call whose constant arguments are there, or 0, by call site.
    pub args_of: Vec<u64>,
    pub scratch: Vec<u8>,
    pub key: KeyBuffer,
    pub random: u64,
}

impl LaneScratch {
    /// splitmix64: P4's `random` asks for spread, not for secrecy.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

pub struct Interpreter<'a> {
    pub ir: &'a Ir,
    pub objects: &'a Objects,
    pub lane_scratch: &'a mut LaneScratch,
    /// Only this lane runs packets through the program.
    pub is_alone: bool,
    /// Registers whose steps the running action holds.
    pub holds: &'a [usize],
    pub out: &'a mut Outcome,
    pub faults: &'a mut Faults,
    /// Time since the switch started.
    pub now: Duration,
    pub log: &'a mut EffectLog,
    /// Records the program's steps for this packet; `None` records nothing.
    pub journal: Option<Box<Journal<'a>>>,
}

impl<'a> Interpreter<'a> {
    /// Runs an action of a pipeline.
    #[inline]
    pub fn act(&mut self, action: &'a Action, args: &Args, packet: &mut PacketState) {
        if !action.updates.is_empty() && !self.is_alone {
            return self.act_in_one_step(action, args, packet);
        }
        match self.journal {
            None => self.run(&action.ops, args, packet),
            Some(_) => self.act_and_tell(&action.ops, args, packet),
        }
    }

    /// No other lane writes to the registers that the action updates. A trace has no such steps.
    #[inline(never)]
    fn act_in_one_step(&mut self, action: &'a Action, args: &Args, packet: &mut PacketState) {
        let registers = &self.objects.registers;
        let steps = action.updates.iter();
        let _held: Vec<_> = steps.filter_map(|at| registers[*at].step()).collect();
        self.holds = &action.updates;
        self.log.is_spoiled = true;
        match self.journal {
            None => self.run(&action.ops, args, packet),
            Some(_) => self.act_and_tell(&action.ops, args, packet),
        }
        self.holds = &[];
    }

    #[cold]
    fn act_and_tell(&mut self, ops: &[Op], args: &Args, packet: &mut PacketState) {
        let before = packet.phv.clone();
        self.run(ops, args, packet);
        if let Some(journal) = &mut self.journal {
            journal.changes(&before, &packet.phv);
        }
    }

    pub fn run(&mut self, ops: &[Op], args: &Args, packet: &mut PacketState) {
        let ir = self.ir;
        let layout = &ir.layout;
        let mut at = 0;
        let mut loops = 0;
        while let Some(op) = ops.get(at) {
            at += 1;
            let scope = Scope {
                layout,
                phv: &packet.phv,
                args,
            };
            match op {
                Op::Set {
                    header,
                    slot,
                    mask,
                    value,
                } => {
                    let value = value.eval(&scope) & mask;
                    packet.phv.will_write(*header);
                    packet.phv.slots[*slot] = value;
                }
                Op::Move { target, source } => target.assign(layout, &mut packet.phv, args, source),
                Op::Validate(header) => {
                    if let Some(header) = header.resolve(&scope) {
                        packet.validate(layout, header);
                    }
                }
                Op::Invalidate(header) => {
                    if let Some(header) = header.resolve(&scope) {
                        packet.invalidate(layout, header);
                    }
                }
                Op::CopyHeaders(pairs) => {
                    for (to, from) in pairs {
                        let scope = Scope {
                            layout,
                            phv: &packet.phv,
                            args,
                        };
                        if let (Some(to), Some(from)) = (to.resolve(&scope), from.resolve(&scope)) {
                            packet.copy_header(layout, to, from);
                        }
                    }
                }
                Op::Jump(_) | Op::JumpIfZero(..) => {
                    let to = match op {
                        Op::JumpIfZero(num, to) if num.eval(&scope) == 0 => *to,
                        Op::Jump(to) => *to,
                        _ => continue,
                    };
                    loops += usize::from(to < at);
                    if loops > MAX_LOOPS {
                        self.faults.too_many_steps += 1;
                        self.drop(packet);
                        return packet.signals.exit = true;
                    }
                    at = to;
                }
                Op::Exit => return packet.signals.exit = true,
                Op::Drop => self.drop(packet),
                Op::Count { counter, index } => {
                    let index = index.eval(&scope);
                    self.count(*counter, index, packet.ingress_len);
                }
                Op::Digest(digest) => {
                    let values = ir.digests[*digest]
                        .iter()
                        .map(|value| value.source.to_bits(&scope, value.width))
                        .collect::<Vec<_>>();
                    if let Some(journal) = &mut self.journal {
                        journal.digest(*digest, &values);
                    }
                    self.out.digests.push(Digest {
                        digest: DigestId(*digest),
                        values,
                    });
                }
                Op::Call(call) => self.call(*call, args, packet),
                Op::Require(cond) => {
                    if !cond.eval(&scope) {
                        self.drop(packet);
                        return packet.signals.exit = true;
                    }
                }
                op => self.rare(op, args, packet),
            }
        }
    }

    fn rare(&mut self, op: &Op, args: &Args, packet: &mut PacketState) {
        let ir = self.ir;
        let layout = &ir.layout;
        let scope = Scope {
            layout,
            phv: &packet.phv,
            args,
        };
        match op {
            Op::MoveVar { to, from } => {
                if let (
                    Home::Var { offset: to_at, max },
                    Home::Var {
                        offset: from_at, ..
                    },
                ) = (to.home, from.home)
                {
                    let len = packet.phv.var_len(from.header).min(max);
                    packet.resize(layout, to.header, |phv| {
                        phv.will_write(to.header);
                        phv.wide.copy_within(from_at..from_at + len, to_at);
                        phv.set_var_len(to.header, len);
                    });
                }
            }
            Op::CopyNext { to, from } => packet.phv.next[*to] = packet.phv.next[*from],
            Op::Push(stack, by) | Op::Pop(stack, by) => {
                let by = usize::try_from(by.eval(&scope)).unwrap_or(usize::MAX);
                let headers: Vec<_> = layout.stacks[*stack]
                    .elements
                    .iter()
                    .flatten()
                    .copied()
                    .collect();
                packet.resize_all(layout, &headers, |phv| match op {
                    Op::Push(..) => phv.push_front(layout, *stack, by),
                    _ => phv.pop_front(layout, *stack, by),
                });
            }
            Op::Truncate(len) => {
                packet.signals.truncate =
                    Some(usize::try_from(len.eval(&scope)).unwrap_or(usize::MAX))
            }
            Op::Resubmit(fields) => packet.signals.resubmit = Some(*fields),
            Op::Recirculate(fields) => packet.signals.recirculate = Some(*fields),
            Op::Clone {
                session,
                fields,
                from_ingress,
            } => {
                let session = session.eval(&scope) as u16;
                packet.signals.clone = Some(CloneRequest {
                    session,
                    fields: *fields,
                    from_ingress: *from_ingress,
                });
            }
            Op::Meter {
                meter,
                index,
                target,
            } => {
                let mut cells = self.objects.meters[*meter].lock();
                let at = usize::try_from(index.eval(&scope)).ok();
                if let Some(cell) = at.and_then(|at| cells.get_mut(at)) {
                    let bytes = packet.ingress_len as u64;
                    let color = cell.mark(ir.meters[*meter].of(bytes), bytes, self.now);
                    target.set(layout, &mut packet.phv, args, color as u128);
                }
            }
            Op::RegisterRead {
                target,
                register,
                index,
            } => {
                let value = usize::try_from(index.eval(&scope))
                    .ok()
                    .and_then(|at| self.objects.registers[*register].read(at));
                if let Some(value) = value {
                    self.log.note(value);
                    target.set(layout, &mut packet.phv, args, value);
                }
            }
            Op::RegisterWrite {
                register,
                index,
                value,
            } => {
                let (index, value) = (index.eval(&scope), value.eval(&scope));
                self.write_register(*register, index, value);
            }
            Op::Hash {
                target,
                base,
                calculation,
                size,
            } => {
                let hash =
                    calculation::run(ir, *calculation, packet, &mut self.lane_scratch.scratch);
                let scope = Scope {
                    layout,
                    phv: &packet.phv,
                    args,
                };
                let value = base
                    .eval(&scope)
                    .wrapping_add(u128::from(hash) % size.eval(&scope).max(1));
                target.set(layout, &mut packet.phv, args, value);
            }
            Op::Random { target, low, high } => {
                let (low, high) = (low.eval(&scope), high.eval(&scope));
                if let Some(span) = high.checked_sub(low) {
                    let random = u128::from(self.lane_scratch.random()) << 64
                        | u128::from(self.lane_scratch.random());
                    let value = span
                        .checked_add(1)
                        .map_or(random, |count| low + random % count);
                    target.set(layout, &mut packet.phv, args, value);
                }
            }
            _ => {}
        }
    }

    /// Counts a packet of `bytes`; outside the array nothing is counted.
    pub fn count(&self, counter: usize, index: u128, bytes: usize) {
        let cell = usize::try_from(index)
            .ok()
            .and_then(|index| self.objects.counters[counter].get(index));
        if let Some(cell) = cell {
            cell.add(1, bytes as u64);
        }
    }

    /// Sets a cell to `value`, cut to the register's width; outside the array nothing is set.
    pub fn write_register(&self, register: usize, index: u128, value: u128) {
        let value = value & mask(self.ir.registers[register].width);
        if let Ok(at) = usize::try_from(index) {
            let lock = !self.is_alone && !self.holds.contains(&register);
            self.objects.registers[register].write(at, value, lock);
        }
    }

    fn drop(&self, packet: &mut PacketState) {
        let standard = &self.ir.standard;
        if let Some(slot) = standard.egress_spec {
            packet.phv.slots[slot] = DROP_PORT;
        }
        if let Some(slot) = standard.mcast_grp {
            packet.phv.slots[slot] = 0;
        }
    }

    fn call(&mut self, call: usize, args: &Args, packet: &mut PacketState) {
        let ir = self.ir;
        let site = &ir.calls[call];
        if let Some(journal) = &mut self.journal {
            journal.called(call);
        }
        let Objects {
            externs, methods, ..
        } = self.objects;
        let LaneScratch {
            args: extern_args,
            scratch,
            args_of,
            ..
        } = &mut *self.lane_scratch;
        let extern_args = &mut extern_args[call];
        args_of[call] = 0;
        let scope = Scope {
            layout: &ir.layout,
            phv: &packet.phv,
            args,
        };
        for ((value, _), arg) in site.args.iter().zip(extern_args.iter_mut()) {
            value.source.fill(&scope, value.width, arg);
        }
        let before = packet.payload.len();
        let mut view = Packet::with_headers(&mut packet.payload, ir, &packet.phv, scratch);
        externs[site.instance].call(methods[call], extern_args, &mut view, self.now);
        packet.len = (packet.len + packet.payload.len()).saturating_sub(before);
        if self.log.is_on {
            self.log.is_spoiled |= externs[site.instance].sees_headers();
            let targets = site.args.iter().zip(extern_args.iter());
            for (_, arg) in targets.filter(|((_, target), _)| target.is_some()) {
                self.log.note(arg.as_u128());
            }
            let grown = (packet.payload.len() as u128).wrapping_sub(before as u128);
            self.log.note(grown);
        }
        for ((_, target), arg) in site.args.iter().zip(extern_args.iter()) {
            if let (Some(target), true) = (target, arg.changed) {
                target.set_bytes(&ir.layout, &mut packet.phv, args, arg.bytes());
            }
        }
    }
}
