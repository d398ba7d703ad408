//! Replays a trace: runs its instructions on a packet.

use super::entry_state::{INPUT, Input, PassStart};
use super::node::Ground;
use super::trace::{Emit, Exit, ExternCall, Instr, Number, Put, Trace, VALUES, ValueIx, WIDE};
use crate::bitstream::{mask, read_bytes};
use crate::effects::Objects;
use crate::externs::Packet;
use crate::hash;
use crate::interpreter::{Interpreter, LaneScratch};
use crate::layout::Layout;
use crate::packet_state::{PacketState, Signals};

/// Buffers of a replay.
#[derive(Debug)]
pub struct Scratch {
    pub input: Input,
    numbers: Numbers,
    effects: Vec<u128>,
}

#[derive(Debug)]
struct Numbers {
    narrow: Box<[u64; VALUES]>,
    wide: Box<[u128; VALUES]>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            input: [0; INPUT + 8],
            numbers: Numbers {
                narrow: Box::new([0; VALUES]),
                wide: Box::new([0; VALUES]),
            },
            effects: Vec::new(),
        }
    }
}

impl Scratch {
    #[inline]
    pub fn number(&self, at: ValueIx) -> u128 {
        self.numbers.any(at)
    }
}

/// The remainder equals the index; it lets the compiler drop the bounds check.
impl Numbers {
    #[inline(always)]
    fn narrow(&self, at: ValueIx) -> u64 {
        self.narrow[usize::from(at) % VALUES]
    }

    #[inline(always)]
    fn any(&self, at: ValueIx) -> u128 {
        match at & WIDE {
            0 => self.narrow(at).into(),
            _ => self.wide[usize::from(at) % VALUES],
        }
    }
}

pub enum Replayed {
    /// A requirement failed; nothing has changed.
    Unmet,
    /// All instructions have run; the trace's end remains.
    Done,
    /// A guard failed; its exit's index.
    Exited(usize),
}

pub fn replay(
    trace: &Trace,
    scratch: &mut Scratch,
    start: &PassStart,
    interpreter: &mut Interpreter,
    packet: &mut PacketState,
) -> Replayed {
    let Scratch {
        input,
        numbers,
        effects,
    } = scratch;
    let len = packet.ingress_len;
    if effects.len() < trace.effects {
        effects.resize(trace.effects, 0);
    }
    for (constant, at) in trace.constants.iter().zip((0..VALUES).rev()) {
        numbers.narrow[at] = *constant;
    }
    for (constant, at) in trace.wide_constants.iter().zip((0..VALUES).rev()) {
        numbers.wide[at] = *constant;
    }
    let (mut next, mut next_wide) = (0, 0);
    for instr in &trace.code {
        let of = |at: ValueIx| numbers.narrow(at);
        let sum = |count: u16, first: u32, by: i64| {
            let terms = &trace.terms[first as usize..first as usize + usize::from(count)];
            let terms = terms.iter().map(|at| of(*at));
            terms.fold(by as u64, u64::wrapping_add)
        };
        let compute = |at: u32| compute(trace, at, input, start, len, effects, numbers);
        let value = match *instr {
            Instr::Input {
                first,
                right,
                width,
            } => eight(input, first) >> (right & 63) & u64::MAX >> ((64 - width) & 63),
            Instr::Len => len as u64,
            Instr::Initial(index) => start.initial[usize::from(index)] as u64,
            Instr::Effect(index) => effects[usize::from(index)] as u64,
            Instr::Words { at, len } => {
                hash::words_sum(&input[usize::from(at)..usize::from(at) + usize::from(len)])
            }
            Instr::Sum { count, first, by } => sum(count, first, by),
            Instr::Checksum { count, first, by } => hash::fold(sum(count, first, by)).into(),
            Instr::AddBy { left, by } => of(left).wrapping_add(by as u64),
            Instr::AddAndBy { left, add, by } => of(left).wrapping_add(i64::from(add) as u64) & by,
            Instr::AndBy { left, by } => of(left) & by,
            Instr::ShlBy { left, by } => of(left) << (by & 63),
            Instr::ShrBy { left, by } => of(left) >> (by & 63),
            Instr::Compute(at) => compute(at) as u64,
            Instr::Wide(at) => {
                numbers.wide[next_wide % VALUES] = compute(at);
                next_wide += 1;
                continue;
            }
            Instr::Require { op, left, right } => match op.holds(&of(left), &of(right)) {
                true => continue,
                false => return Replayed::Unmet,
            },
            Instr::RequireBy { op, left, by } => match op.holds(&of(left), &by) {
                true => continue,
                false => return Replayed::Unmet,
            },
            Instr::Guard {
                op,
                left,
                right,
                exit,
            } => match op.holds(&of(left), &of(right)) {
                true => continue,
                false => return Replayed::Exited(exit.into()),
            },
            Instr::GuardBy { op, left, exit, by } => match op.holds(&of(left), &by) {
                true => continue,
                false => return Replayed::Exited(exit.into()),
            },
            Instr::Trim(headers) => {
                packet.payload.trim_front(headers as usize);
                continue;
            }
            Instr::Count { counter, index } => {
                interpreter.count(counter as usize, numbers.any(index), len);
                continue;
            }
            Instr::ReadRegister {
                register,
                index,
                effect,
            } => {
                let cells = &interpreter.objects.registers[register as usize];
                let index = numbers.any(index) as usize;
                effects[effect as usize] = cells.read(index).unwrap_or(0);
                continue;
            }
            Instr::WriteRegister {
                register,
                index,
                value,
            } => {
                let (index, value) = (numbers.any(index), numbers.any(value));
                interpreter.write_register(register as usize, index, value);
                continue;
            }
            Instr::Call(at) => {
                call(
                    &trace.calls[at as usize],
                    interpreter,
                    numbers,
                    effects,
                    packet,
                );
                continue;
            }
        };
        numbers.narrow[next % VALUES] = value;
        next += 1;
    }
    Replayed::Done
}

/// A function of its own, so that the instruction loop does not set up its arguments.
#[inline(never)]
fn compute(
    trace: &Trace,
    at: u32,
    input: &Input,
    start: &PassStart,
    len: usize,
    effects: &[u128],
    numbers: &Numbers,
) -> u128 {
    let ground = Ground {
        input,
        initial: &start.initial,
        len,
        effects,
    };
    trace.nodes[at as usize].eval(&ground, |at| numbers.any(at as ValueIx))
}

#[inline]
fn eight(input: &Input, first: u8) -> u64 {
    let bytes = input[usize::from(first)..].first_chunk();
    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn call(
    call: &ExternCall,
    interpreter: &mut Interpreter,
    numbers: &Numbers,
    effects: &mut [u128],
    packet: &mut PacketState,
) {
    let Objects {
        externs, methods, ..
    } = interpreter.objects;
    let LaneScratch { args, args_of, .. } = &mut *interpreter.lane_scratch;
    let args = &mut args[call.site];
    for (at, Number { from, width }) in &call.numbers {
        args[*at as usize].fill(*width, numbers.any(*from));
    }
    if std::mem::replace(&mut args_of[call.site], call.id) != call.id {
        for (constant, arg) in call.constants.iter().zip(args.iter_mut()) {
            if let Some(constant) = constant {
                arg.copy(constant);
            }
        }
    } else {
        for (at, _) in &call.results {
            if let Some(constant) = &call.constants[*at as usize] {
                args[*at as usize].copy(constant);
            }
        }
    }
    let before = packet.payload.len();
    let instance = interpreter.ir.calls[call.site].instance;
    let mut view = Packet::of(&mut packet.payload);
    externs[instance].call(methods[call.site], args, &mut view, interpreter.now);
    debug_assert!(
        args.iter()
            .zip(0..)
            .all(|(arg, at)| !arg.changed || call.results.iter().any(|it| it.0 == at)),
        "an extern changes what it is only given"
    );
    for (arg, effect) in &call.results {
        effects[*effect as usize] = args[*arg as usize].as_u128();
    }
    effects[call.grown as usize] = (packet.payload.len() as u128).wrapping_sub(before as u128);
}

/// Fills the copied and computed fields into a header template at the front of `out`.
#[inline]
pub fn fill_in(headers: &Emit, scratch: &Scratch, out: &mut [u8]) {
    for copied in &headers.copies {
        let (from, to, len) = (
            copied.from as usize,
            copied.to as usize,
            copied.len as usize,
        );
        let (from, to) = (&scratch.input[from..from + len], &mut out[to..to + len]);
        // Copies the sizes of most fields without a call.
        match len {
            1 => to[0] = from[0],
            4 => copy::<4>(from, to),
            8 => copy::<8>(from, to),
            _ => to.copy_from_slice(from),
        }
    }
    for put in &headers.puts {
        let of = |value: ValueIx| scratch.number(value);
        let mut store = |at: u32, bytes: &[u8]| {
            out[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        match *put {
            Put::Byte { value, at } => store(at, &[of(value) as u8]),
            Put::Word { value, at } => store(at, &(of(value) as u16).to_be_bytes()),
            Put::Long { value, at } => store(at, &(of(value) as u32).to_be_bytes()),
            Put::Bits { value, at, width } => {
                let value = of(value) & mask(width);
                for bit in 0..width {
                    if value >> (width - 1 - bit) & 1 == 1 {
                        let at = (at + bit) as usize;
                        out[at / 8] |= 0x80 >> (at % 8);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn copy<const LEN: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<LEN>(), to.first_chunk_mut::<LEN>()) {
        *to = *from;
    }
}

/// Gives the packet the headers and metadata that the interpreter goes on with.
pub fn restore(
    trace: &Trace,
    exit: &Exit,
    scratch: &Scratch,
    start: &PassStart,
    layout: &Layout,
    packet: &mut PacketState,
) {
    let ground = Ground {
        input: scratch.input.as_slice(),
        initial: &start.initial,
        len: packet.ingress_len,
        effects: &scratch.effects,
    };
    let mut values: Vec<u128> = Vec::with_capacity(trace.graph.len());
    for node in &trace.graph {
        values.push(node.eval(&ground, |id| values[id as usize]));
    }
    packet.phv.reset(layout);
    for header in &exit.valid {
        packet.phv.validate(layout, *header);
    }
    for header in &exit.stale {
        packet.phv.will_write(*header);
    }
    for (slot, node) in &exit.slots {
        packet.phv.slots[*slot as usize] = values[*node as usize];
    }
    for wide in &exit.wide {
        let field = &mut packet.phv.wide[wide.offset..wide.offset + wide.len];
        read_bytes(&scratch.input, wide.at, wide.width, field);
    }
    packet.phv.next.copy_from_slice(&exit.next);
    packet.len = values[exit.len as usize] as usize;
    packet.signals = Signals {
        recirculate: exit.recirculate,
        ..Signals::default()
    };
}
