//! Does what a recorded path left to do.

use super::node::Ground;
use super::path::{Call, CallArg, Check, Emit, Exit, Instr, Path, Put};
use super::{Entrance, INPUT};
use crate::bitstream::{mask, read};
use crate::expr::{BinOp, binary};
use crate::layout::Layout;
use crate::machine::{Machine, Objects, Own};
use crate::packet::Packet;
use crate::work::{Signals, Work};

/// The numbers of a run.
#[derive(Debug)]
pub struct Scratch {
    /// The packet's first bytes; what is behind its end is arbitrary.
    pub input: [u8; INPUT],
    pub numbers: Vec<u128>,
    effects: Vec<u128>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            input: [0; INPUT],
            numbers: Vec::new(),
            effects: Vec::new(),
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
    let constants = path.constants.len();
    if numbers.len() < path.places {
        numbers.resize(path.places, 0);
    }
    if effects.len() < path.effects {
        effects.resize(path.effects, 0);
    }
    let numbers = &mut numbers[..path.places];
    numbers[..constants].copy_from_slice(&path.constants);
    let mut next = constants;
    for instr in &path.code {
        let of = |at: u32| numbers[at as usize];
        let value = match *instr {
            Instr::Input { at, width } => read(input, at as usize, width).unwrap_or(0),
            Instr::Add(left, right) => of(left).wrapping_add(of(right)),
            Instr::And(left, right) => of(left) & of(right),
            Instr::Shl(left, right) => binary(BinOp::Shl, false, of(left), of(right)),
            Instr::Shr(left, right) => binary(BinOp::Shr, false, of(left), of(right)),
            Instr::Compute(at) => {
                let ground = Ground {
                    input: input.as_slice(),
                    initial: &entrance.initial,
                    len,
                    effects,
                };
                path.nodes[at as usize].eval(&ground, of)
            }
            Instr::Require(Check { op, left, right }) => {
                if !op.holds(&of(left), &of(right)) {
                    return Replayed::Unmet;
                }
                continue;
            }
            Instr::Guard(Check { op, left, right }, exit) => {
                if !op.holds(&of(left), &of(right)) {
                    return Replayed::Exited(exit as usize);
                }
                continue;
            }
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
        numbers[next] = value;
        next += 1;
    }
    Replayed::Done
}

fn call(
    call: &Call,
    machine: &mut Machine,
    numbers: &[u128],
    effects: &mut [u128],
    work: &mut Work,
) {
    let Objects {
        externs, methods, ..
    } = machine.objects;
    let Own { args, args_of, .. } = &mut *machine.own;
    let args = &mut args[call.site];
    let constants_are_there = std::mem::replace(&mut args_of[call.site], call.id) == call.id;
    for (given, arg) in call.args.iter().zip(args.iter_mut()) {
        match given {
            CallArg::Number { from, width } => arg.fill(*width, numbers[*from as usize]),
            _ if constants_are_there && !arg.changed => {}
            CallArg::Constant { value, width } => arg.fill(*width, *value),
            CallArg::Bytes { value, width } => {
                arg.fill_with(*width, |bytes| bytes.copy_from_slice(value));
            }
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

/// The headers that a path ends with.
pub fn emit(headers: &Emit, scratch: &Scratch, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&headers.template);
    for copied in &headers.copies {
        let (from, to, len) = (
            copied.from as usize,
            copied.to as usize,
            copied.len as usize,
        );
        out[to..to + len].copy_from_slice(&scratch.input[from..from + len]);
    }
    for put in &headers.puts {
        let of = |value: u32| scratch.numbers[value as usize];
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
