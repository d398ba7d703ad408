//! Runs the parser: states extract headers from the front of the packet until one accepts.

use crate::bitstream::{mask, read};
use crate::expr::{Args, Num, Scope};
use crate::ir::{Accepts, Case, KeyPart, KeySource, ParserOp, State};
use crate::layout::{HeaderIx, Home, StackIx};
use crate::machine::Machine;
use crate::work::Work;

/// A parser visits this many states at most; each header stack and each loop in real programs is far shorter.
const MAX_STATES: usize = 4096;

/// A parser error, by the program's number.
struct Failed(u128);

/// Parses the packet, which is all payload now; what stays payload is what no state extracted. Returns the program's
/// number of the parser error. An error does not drop the packet.
pub fn parse(machine: &mut Machine, none: &Args, work: &mut Work) -> u128 {
    let mut run = Run {
        machine,
        none,
        work,
        cursor: 0,
    };
    let error = match run.states() {
        Ok(()) => run.machine.ir.errors.no_error,
        Err(Failed(error)) => error,
    };
    let cursor = run.cursor;
    work.payload.trim_front(cursor);
    error
}

struct Run<'a, 'm> {
    machine: &'a mut Machine<'m>,
    none: &'a Args,
    work: &'a mut Work,
    /// In bytes.
    cursor: usize,
}

impl Run<'_, '_> {
    fn states(&mut self) -> Result<(), Failed> {
        let ir = self.machine.ir;
        let mut next = ir.parser.start;
        for _ in 0..MAX_STATES {
            let Some(state) = next else { return Ok(()) };
            if let Some(journal) = &mut self.machine.journal {
                journal.state(state);
            }
            let state = &ir.parser.states[state];
            for op in &state.ops {
                self.op(op)?;
            }
            next = self.select(state)?;
        }
        Err(Failed(ir.errors.timeout))
    }

    fn op(&mut self, op: &ParserOp) -> Result<(), Failed> {
        let ir = self.machine.ir;
        match op {
            ParserOp::Extract(header) => self.extract(*header, 0),
            ParserOp::ExtractVar { header, bits } => {
                let len = self.var_len(*header, bits)?;
                self.extract(*header, len)
            }
            ParserOp::ExtractNext { stack, member } => {
                let header = self.next_of(*stack, *member)?;
                self.extract(header, 0)?;
                self.work.phv.next[*stack] += 1;
                Ok(())
            }
            ParserOp::ExtractNextVar {
                stack,
                member,
                bits,
            } => {
                let header = self.next_of(*stack, *member)?;
                let len = self.var_len(header, bits)?;
                self.extract(header, len)?;
                self.work.phv.next[*stack] += 1;
                Ok(())
            }
            ParserOp::Set { target, source } => {
                target.assign(&ir.layout, &mut self.work.phv, self.none, source);
                Ok(())
            }
            ParserOp::Lookahead { target, at, width } => {
                let value = self.lookahead(*at, *width)?;
                target.set(&ir.layout, &mut self.work.phv, self.none, value);
                Ok(())
            }
            ParserOp::Verify { cond, error } => {
                let scope = self.scope();
                if cond.eval(&scope) {
                    Ok(())
                } else {
                    Err(Failed(error.eval(&scope)))
                }
            }
            ParserOp::Advance(bits) => {
                let len = self.whole_bytes(bits)?;
                self.ahead(len)?;
                self.cursor += len;
                Ok(())
            }
            ParserOp::Run(ops) => {
                self.machine.run(ops, self.none, self.work);
                Ok(())
            }
        }
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            layout: &self.machine.ir.layout,
            phv: &self.work.phv,
            args: self.none,
        }
    }

    fn too_short(&self) -> Failed {
        Failed(self.machine.ir.errors.packet_too_short)
    }

    /// The next `len` bytes.
    fn ahead(&self, len: usize) -> Result<&[u8], Failed> {
        let bytes = self
            .work
            .payload
            .bytes()
            .get(self.cursor..)
            .unwrap_or_default();
        bytes.get(..len).ok_or_else(|| self.too_short())
    }

    fn lookahead(&self, at: usize, width: u32) -> Result<u128, Failed> {
        read(self.work.payload.bytes(), self.cursor * 8 + at, width).ok_or_else(|| self.too_short())
    }

    fn whole_bytes(&self, bits: &Num) -> Result<usize, Failed> {
        let bits = bits.eval(&self.scope());
        if !bits.is_multiple_of(8) {
            return Err(Failed(self.machine.ir.errors.invalid_argument));
        }
        usize::try_from(bits / 8).map_err(|_| self.too_short())
    }

    fn var_len(&self, header: HeaderIx, bits: &Num) -> Result<usize, Failed> {
        let len = self.whole_bytes(bits)?;
        let fields = &self.machine.ir.layout.type_of(header).fields;
        let fits = fields
            .iter()
            .any(|field| matches!(field.home, Home::Var { max, .. } if len <= max));
        if fits {
            Ok(len)
        } else {
            Err(Failed(self.machine.ir.errors.header_too_short))
        }
    }

    fn next_of(&self, stack: StackIx, member: usize) -> Result<HeaderIx, Failed> {
        let ir = self.machine.ir;
        let element = ir.layout.stacks[stack]
            .elements
            .get(self.work.phv.next[stack]);
        element
            .and_then(|element| element.get(member))
            .copied()
            .ok_or(Failed(ir.errors.stack_out_of_bounds))
    }

    /// `var_len`: bytes of its varbit, if it has one.
    fn extract(&mut self, header: HeaderIx, var_len: usize) -> Result<(), Failed> {
        let layout = &self.machine.ir.layout;
        let instance = &layout.headers[header];
        let header_type = &layout.types[instance.ty];
        let len = header_type.fixed_bits / 8 + var_len;
        let start = self.cursor;
        self.ahead(len)?;
        let Work { phv, payload, .. } = &mut *self.work;
        phv.validate(layout, header);
        phv.set_var_len(header, var_len);
        // The whole packet: what follows the header makes reading its last fields fast.
        let bytes = payload.bytes();
        let mut at = start * 8;
        for field in &header_type.fields {
            match field.home.within(instance) {
                Home::Slot(slot) => {
                    phv.slots[slot] = read(bytes, at, field.width).unwrap_or(0);
                    at += field.width as usize;
                }
                Home::Wide { offset, len } => {
                    read_bytes(bytes, at, field.width, &mut phv.wide[offset..offset + len]);
                    at += field.width as usize;
                }
                Home::Var { offset, .. } => {
                    read_bytes(
                        bytes,
                        at,
                        var_len as u32 * 8,
                        &mut phv.wide[offset..offset + var_len],
                    );
                    at += var_len * 8;
                }
            }
        }
        self.cursor += len;
        if let Some(journal) = &mut self.machine.journal {
            journal.extracted(header, phv);
        }
        Ok(())
    }

    fn select(&mut self, state: &State) -> Result<crate::ir::Next, Failed> {
        if let [
            Case {
                accepts: Accepts::All,
                next,
            },
            ..,
        ] = state.cases.as_slice()
        {
            return Ok(*next);
        }
        if state.cases.is_empty() {
            return Ok(None);
        }
        if state.narrow {
            let key = self.number(&state.key)?;
            let accepts = |case: &&Case| match case.accepts {
                Accepts::Narrow { value, mask } => key & mask == value,
                _ => true,
            };
            let case = state.cases.iter().find(accepts);
            return case
                .map(|case| case.next)
                .ok_or(Failed(self.machine.ir.errors.no_match));
        }
        let mut key = std::mem::take(&mut self.machine.own.scratch);
        key.clear();
        let result = self.pack(&state.key, &mut key).and_then(|()| {
            let case = state
                .cases
                .iter()
                .find(|case| self.accepts(&case.accepts, &key));
            case.map(|case| case.next)
                .ok_or(Failed(self.machine.ir.errors.no_match))
        });
        self.machine.own.scratch = key;
        result
    }

    fn number(&self, parts: &[KeyPart]) -> Result<u128, Failed> {
        let mut key = 0;
        for part in parts {
            let value = match &part.source {
                KeySource::Value(source) => source.low(&self.scope()) & mask(part.width),
                KeySource::Lookahead { at } => self.lookahead(*at, part.width)?,
            };
            // A part of 16 bytes is the only one.
            key = if part.len == 16 {
                value
            } else {
                key << (8 * part.len) | value
            };
        }
        Ok(key)
    }

    fn pack(&self, parts: &[KeyPart], key: &mut Vec<u8>) -> Result<(), Failed> {
        for part in parts {
            let start = key.len();
            key.resize(start + part.len, 0);
            match &part.source {
                KeySource::Value(source) => {
                    source.write(&self.scope(), part.width, &mut key[start..])
                }
                KeySource::Lookahead { at } => {
                    crate::bits::write_low(&mut key[start..], self.lookahead(*at, part.width)?);
                }
            }
        }
        Ok(())
    }

    fn accepts(&self, accepts: &Accepts, key: &[u8]) -> bool {
        let masked = |mask: &[u8], value: &[u8]| {
            key.iter()
                .zip(mask)
                .zip(value)
                .all(|((key, mask), value)| key & mask == *value)
        };
        match accepts {
            Accepts::Wide { value, mask } => masked(mask, value),
            Accepts::All | Accepts::Narrow { .. } => true,
            Accepts::ValueSet { set, mask } => {
                let mask = mask.as_deref();
                self.machine.objects.value_sets[*set].matches(key, mask)
            }
        }
    }
}

/// `width` bits from bit `at` on, right-aligned into `out`.
pub fn read_bytes(bytes: &[u8], at: usize, width: u32, out: &mut [u8]) {
    let mut at = at;
    let mut left = width;
    for byte in out {
        let take = if left.is_multiple_of(8) {
            8.min(left)
        } else {
            left % 8
        };
        *byte = read(bytes, at, take).unwrap_or(0) as u8;
        at += take as usize;
        left -= take;
    }
}
