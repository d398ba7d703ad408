//! Does what a recorded path left to do.

use super::node::{Ground, Node};
use super::path::{Call, CallArg, Emit, Exit, Instr, Path};
use super::{Entrance, INPUT};
use crate::bits;
use crate::bitstream::mask;
use crate::layout::Layout;
use crate::machine::{Machine, Objects};
use crate::packet::Packet;
use crate::table::Table;
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
    tables: &mut [Table],
    work: &mut Work,
) -> Replayed {
    let Scratch {
        input,
        numbers,
        effects,
    } = scratch;
    let len = work.ingress_len;
    numbers.clear();
    numbers.extend_from_slice(&path.constants);
    if effects.len() < path.effects {
        effects.resize(path.effects, 0);
    }
    for instr in &path.code {
        let eval = |node: &Node, numbers: &[u128], effects: &[u128]| {
            let ground = Ground {
                input: input.as_slice(),
                initial: &entrance.initial,
                len,
                effects,
            };
            node.eval(&ground, |at| numbers[at as usize])
        };
        match instr {
            Instr::Compute(node) => numbers.push(eval(node, numbers, effects)),
            Instr::Require { cond, holds } => {
                if (eval(cond, numbers, effects) != 0) != *holds {
                    return Replayed::Unmet;
                }
            }
            Instr::Guard { cond, holds, exit } => {
                if (eval(cond, numbers, effects) != 0) != *holds {
                    return Replayed::Exited(*exit as usize);
                }
            }
            Instr::Trim(headers) => work.payload.trim_front(*headers),
            Instr::CountRow { table, row } => tables[*table].count(*row, len as u64),
            Instr::Count { counter, index } => {
                machine.count(*counter, numbers[*index as usize], len);
            }
            Instr::ReadRegister {
                register,
                index,
                effect,
            } => {
                let index = numbers[*index as usize] as usize;
                let cell = machine.objects.registers[*register].get(index);
                effects[*effect as usize] = cell.copied().unwrap_or(0);
            }
            Instr::WriteRegister {
                register,
                index,
                value,
            } => {
                let (index, value) = (numbers[*index as usize], numbers[*value as usize]);
                machine.write_register(*register, index, value);
            }
            Instr::Call(at) => call(&path.calls[*at as usize], machine, numbers, effects, work),
        }
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
        externs,
        methods,
        args,
        ..
    } = &mut *machine.objects;
    let args = &mut args[..call.args.len()];
    for (given, arg) in call.args.iter().zip(args.iter_mut()) {
        match given {
            CallArg::Number { from, width } => arg.fill(*width, numbers[*from as usize]),
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
        let value = scratch.numbers[put.value as usize] & mask(put.width);
        let (at, width) = (put.at as usize, put.width as usize);
        if at % 8 == 0 && width % 8 == 0 {
            bits::write_low(&mut out[at / 8..(at + width) / 8], value);
            continue;
        }
        for bit in 0..width {
            if value >> (width - 1 - bit) & 1 == 1 {
                out[(at + bit) / 8] |= 0x80 >> ((at + bit) % 8);
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
