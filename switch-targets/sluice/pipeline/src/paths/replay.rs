//! Does what a recorded path left to do.

use super::node::Ground;
use super::path::{Call, Emit, Exit, Instr, Number, PLACES, Path, PlaceIx, Put, WIDE};
use super::{Entrance, INPUT, Input};
use crate::bitstream::mask;
use crate::hash;
use crate::layout::Layout;
use crate::machine::{Machine, Objects, Own};
use crate::packet::Packet;
use crate::work::{Signals, Work};

/// What a run works with.
#[derive(Debug)]
pub struct Scratch {
    pub input: Input,
    numbers: Numbers,
    effects: Vec<u128>,
}

#[derive(Debug)]
struct Numbers {
    narrow: Box<[u64; PLACES]>,
    wide: Box<[u128; PLACES]>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            input: [0; INPUT + 8],
            numbers: Numbers {
                narrow: Box::new([0; PLACES]),
                wide: Box::new([0; PLACES]),
            },
            effects: Vec::new(),
        }
    }
}

impl Scratch {
    #[inline]
    pub fn number(&self, at: PlaceIx) -> u128 {
        self.numbers.any(at)
    }
}

/// Remainders are the places themselves, and tell the compiler that they exist.
impl Numbers {
    #[inline(always)]
    fn narrow(&self, at: PlaceIx) -> u64 {
        self.narrow[usize::from(at) % PLACES]
    }

    #[inline(always)]
    fn any(&self, at: PlaceIx) -> u128 {
        match at & WIDE {
            0 => self.narrow(at).into(),
            _ => self.wide[usize::from(at) % PLACES],
        }
    }
}

pub enum Replayed {
    /// Nothing has been done.
    Unmet,
    /// All but the path's end has been done.
    Done,
    /// Done as far as this exit.
    Exited(usize),
}

pub fn replay(
    path: &Path,
    scratch: &mut Scratch,
    entrance: &Entrance,
    machine: &mut Machine,
    work: &mut Work,
) -> Replayed {
    let Scratch {
        input,
        numbers,
        effects,
    } = scratch;
    let len = work.ingress_len;
    if effects.len() < path.effects {
        effects.resize(path.effects, 0);
    }
    for (constant, at) in path.constants.iter().zip((0..PLACES).rev()) {
        numbers.narrow[at] = *constant;
    }
    for (constant, at) in path.wide_constants.iter().zip((0..PLACES).rev()) {
        numbers.wide[at] = *constant;
    }
    let (mut next, mut next_wide) = (0, 0);
    for instr in &path.code {
        let of = |at: PlaceIx| numbers.narrow(at);
        let sum = |count: u16, first: u32, by: i64| {
            let terms = &path.terms[first as usize..first as usize + usize::from(count)];
            let terms = terms.iter().map(|at| of(*at));
            terms.fold(by as u64, u64::wrapping_add)
        };
        let compute = |at: u32| compute(path, at, input, entrance, len, effects, numbers);
        let value = match *instr {
            Instr::Input {
                first,
                right,
                width,
            } => eight(input, first) >> (right & 63) & u64::MAX >> ((64 - width) & 63),
            Instr::Len => len as u64,
            Instr::Initial(index) => entrance.initial[usize::from(index)] as u64,
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
                numbers.wide[next_wide % PLACES] = compute(at);
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
                work.payload.trim_front(headers as usize);
                continue;
            }
            Instr::Count { counter, index } => {
                machine.count(counter as usize, numbers.any(index), len);
                continue;
            }
            Instr::ReadRegister {
                register,
                index,
                effect,
            } => {
                let cells = &machine.objects.registers[register as usize];
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
                machine.write_register(register as usize, index, value);
                continue;
            }
            Instr::Call(at) => {
                call(&path.calls[at as usize], machine, numbers, effects, work);
                continue;
            }
        };
        numbers.narrow[next % PLACES] = value;
        next += 1;
    }
    Replayed::Done
}

/// Apart, so that what it needs is not made ready for every instruction.
#[inline(never)]
fn compute(
    path: &Path,
    at: u32,
    input: &Input,
    entrance: &Entrance,
    len: usize,
    effects: &[u128],
    numbers: &Numbers,
) -> u128 {
    let ground = Ground {
        input,
        initial: &entrance.initial,
        len,
        effects,
    };
    path.nodes[at as usize].eval(&ground, |at| numbers.any(at as PlaceIx))
}

#[inline]
fn eight(input: &Input, first: u8) -> u64 {
    let bytes = input[usize::from(first)..].first_chunk();
    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn call(
    call: &Call,
    machine: &mut Machine,
    numbers: &Numbers,
    effects: &mut [u128],
    work: &mut Work,
) {
    let Objects {
        externs, methods, ..
    } = machine.objects;
    let Own { args, args_of, .. } = &mut *machine.own;
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
    let before = work.payload.len();
    let instance = machine.ir.calls[call.site].instance;
    let mut packet = Packet::of(&mut work.payload);
    externs[instance].call(methods[call.site], args, &mut packet, machine.now);
    debug_assert!(
        args.iter()
            .zip(0..)
            .all(|(arg, at)| !arg.changed || call.results.iter().any(|it| it.0 == at)),
        "an extern changes what it is only given"
    );
    for (arg, effect) in &call.results {
        effects[*effect as usize] = args[*arg as usize].as_u128();
    }
    effects[call.grown as usize] = (work.payload.len() as u128).wrapping_sub(before as u128);
}

/// Fills the headers in that a path ends with, where their template stands at the front of `out`.
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
        let of = |value: PlaceIx| scratch.number(value);
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
    path: &Path,
    exit: &Exit,
    scratch: &Scratch,
    entrance: &Entrance,
    layout: &Layout,
    work: &mut Work,
) {
    let ground = Ground {
        input: scratch.input.as_slice(),
        initial: &entrance.initial,
        len: work.ingress_len,
        effects: &scratch.effects,
    };
    let mut values: Vec<u128> = Vec::with_capacity(path.graph.len());
    for node in &path.graph {
        values.push(node.eval(&ground, |id| values[id as usize]));
    }
    work.phv.reset(layout);
    for header in &exit.valid {
        work.phv.validate(layout, *header);
    }
    for header in &exit.stale {
        work.phv.will_write(*header);
    }
    for (slot, node) in &exit.slots {
        work.phv.slots[*slot as usize] = values[*node as usize];
    }
    for wide in &exit.wide {
        let field = &mut work.phv.wide[wide.offset..wide.offset + wide.len];
        crate::parse::read_bytes(&scratch.input, wide.at, wide.width, field);
    }
    work.phv.next.copy_from_slice(&exit.next);
    work.len = values[exit.len as usize] as usize;
    work.signals = Signals {
        recirculate: exit.recirculate,
        ..Signals::default()
    };
}
