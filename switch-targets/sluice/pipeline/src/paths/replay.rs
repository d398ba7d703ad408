//! Does what a recorded path left to do.

use super::node::Ground;
use super::path::{Call, Constant, Emit, Exit, Instr, Number, PLACES, Path, PlaceIx, Put};
use super::{Entrance, INPUT, Input};
use crate::bitstream::mask;
use crate::hash;
use crate::layout::Layout;
use crate::machine::{Machine, Objects, Own};
use crate::packet::Packet;
use crate::work::{Signals, Work};

/// The numbers of a run.
#[derive(Debug)]
pub struct Scratch {
    pub input: Input,
    numbers: Box<[u128; PLACES]>,
    effects: Vec<u128>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            input: [0; INPUT + 8],
            numbers: Box::new([0; PLACES]),
            effects: Vec::new(),
        }
    }
}

impl Scratch {
    #[inline]
    pub fn number(&self, at: PlaceIx) -> u128 {
        number(&self.numbers, at)
    }
}

/// The remainder is the place itself, and tells the compiler that it exists.
#[inline]
fn number(numbers: &[u128; PLACES], at: PlaceIx) -> u128 {
    numbers[usize::from(at) % PLACES]
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
    let numbers = &mut **numbers;
    let len = work.ingress_len;
    if effects.len() < path.effects {
        effects.resize(path.effects, 0);
    }
    if !path.constants.is_empty() {
        numbers[PLACES - path.constants.len()..].copy_from_slice(&path.constants);
    }
    let mut next = 0;
    for instr in &path.code {
        let of = |at: PlaceIx| number(numbers, at);
        let sum = |count: u16, first: u32, by: i64| {
            let terms = &path.terms[first as usize..first as usize + usize::from(count)];
            let by = i128::from(by) as u128;
            terms.iter().fold(by, |sum, at| sum.wrapping_add(of(*at)))
        };
        let value = match *instr {
            Instr::Input {
                first,
                right,
                width,
            } => u128::from(eight(input, first) >> (right & 63) & u64::MAX >> ((64 - width) & 63)),
            Instr::Len => len as u128,
            Instr::Initial(index) => entrance.initial[usize::from(index)],
            Instr::Effect(index) => effects[usize::from(index)],
            Instr::Words { at, len } => u128::from(hash::words_sum(
                &input[usize::from(at)..usize::from(at) + usize::from(len)],
            )),
            Instr::Sum { count, first, by } => sum(count, first, by),
            Instr::Checksum { count, first, by } => {
                u128::from(hash::fold(sum(count, first, by) as u64))
            }
            Instr::AddBy { left, by } => of(left).wrapping_add(i128::from(by) as u128),
            Instr::AddAndBy { left, add, by } => {
                of(left).wrapping_add(i128::from(add) as u128) & u128::from(by)
            }
            Instr::AndBy { left, by } => of(left) & u128::from(by),
            Instr::ShlBy { left, by } => of(left) << (by & 127),
            Instr::ShrBy { left, by } => of(left) >> (by & 127),
            Instr::Compute(at) => {
                let ground = Ground {
                    input: input.as_slice(),
                    initial: &entrance.initial,
                    len,
                    effects,
                };
                path.nodes[at as usize].eval(&ground, |at| of(at as PlaceIx))
            }
            Instr::Require { op, left, right } => match op.holds(&of(left), &of(right)) {
                true => continue,
                false => return Replayed::Unmet,
            },
            Instr::RequireBy { op, left, by } => match op.holds(&of(left), &by.into()) {
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
            Instr::GuardBy { op, left, exit, by } => match op.holds(&of(left), &by.into()) {
                true => continue,
                false => return Replayed::Exited(exit.into()),
            },
            Instr::Trim(headers) => {
                work.payload.trim_front(headers as usize);
                continue;
            }
            Instr::Count { counter, index } => {
                machine.count(counter as usize, of(index), len);
                continue;
            }
            Instr::ReadRegister {
                register,
                index,
                effect,
            } => {
                let cells = &machine.objects.registers[register as usize];
                effects[effect as usize] = cells.read(of(index) as usize).unwrap_or(0);
                continue;
            }
            Instr::WriteRegister {
                register,
                index,
                value,
            } => {
                machine.write_register(register as usize, of(index), of(value));
                continue;
            }
            Instr::Call(at) => {
                call(&path.calls[at as usize], machine, numbers, effects, work);
                continue;
            }
        };
        numbers[next % PLACES] = value;
        next += 1;
    }
    Replayed::Done
}

#[inline]
fn eight(input: &Input, first: u8) -> u64 {
    let bytes = input[usize::from(first)..].first_chunk();
    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn call(
    call: &Call,
    machine: &mut Machine,
    numbers: &[u128; PLACES],
    effects: &mut [u128],
    work: &mut Work,
) {
    let Objects {
        externs, methods, ..
    } = machine.objects;
    let Own { args, args_of, .. } = &mut *machine.own;
    let args = &mut args[call.site];
    let constants_are_there = std::mem::replace(&mut args_of[call.site], call.id) == call.id;
    for (at, Number { from, width }) in &call.numbers {
        args[*at as usize].fill(*width, number(numbers, *from));
    }
    for (constant, arg) in call.constants.iter().zip(args.iter_mut()) {
        if constants_are_there && !arg.changed {
            continue;
        }
        match constant {
            Some(Constant::Number { value, width }) => arg.fill(*width, *value),
            Some(Constant::Bytes { value, width }) => {
                arg.fill_with(*width, |bytes| bytes.copy_from_slice(value));
            }
            None => {}
        }
    }
    let before = work.payload.len();
    let instance = machine.ir.calls[call.site].instance;
    let mut packet = Packet::of(&mut work.payload);
    externs[instance].call(methods[call.site], args, &mut packet, machine.now);
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
        out[to..to + len].copy_from_slice(&scratch.input[from..from + len]);
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
