//! Runs the parser: states extract headers from the front of the packet until one accepts.

use crate::bitstream::{mask, read, read_bytes};
use crate::expr::{Args, Num, Scope};
use crate::interpreter::Interpreter;
use crate::ir::{Accepts, Case, KeyPart, KeySource, ParserOp, ParserState};
use crate::layout::{HeaderIx, Home, StackIx};
use crate::packet_state::PacketState;

/// A parser visits this many states at most; each header stack and each loop in real programs is far shorter.
const MAX_STATES: usize = 4096;

/// A parser error, by the program's number.
struct Failed(u128);

/// Parses the packet, which is all payload now; what stays payload is what no state extracted. Returns the program's
/// number of the parser error. An error does not drop the packet.
pub fn parse(interpreter: &mut Interpreter, none: &Args, packet: &mut PacketState) -> u128 {
    let mut run = ParserRun {
        interpreter,
        none,
        packet,
        cursor: 0,
    };
    let error = match run.states() {
        Ok(()) => run.interpreter.ir.errors.no_error,
        Err(Failed(error)) => error,
    };
    let cursor = run.cursor;
    packet.payload.trim_front(cursor);
    error
}

struct ParserRun<'a, 'm> {
    interpreter: &'a mut Interpreter<'m>,
    none: &'a Args,
    packet: &'a mut PacketState,
    /// Bytes that the parser has read.
    cursor: usize,
}

impl ParserRun<'_, '_> {
    fn states(&mut self) -> Result<(), Failed> {
        let ir = self.interpreter.ir;
        let mut next = ir.parser.start;
        for _ in 0..MAX_STATES {
            let Some(state) = next else { return Ok(()) };
            if let Some(journal) = &mut self.interpreter.journal {
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
        let ir = self.interpreter.ir;
        match op {
            ParserOp::Extract(header) => self.extract(*header, 0),
            ParserOp::ExtractVar { header, bits } => {
                let len = self.var_len(*header, bits)?;
                self.extract(*header, len)
            }
            ParserOp::ExtractNext { stack, member } => {
                let header = self.next_of(*stack, *member)?;
                self.extract(header, 0)?;
                self.packet.phv.next[*stack] += 1;
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
                self.packet.phv.next[*stack] += 1;
                Ok(())
            }
            ParserOp::Set { target, source } => {
                target.assign(&ir.layout, &mut self.packet.phv, self.none, source);
                Ok(())
            }
            ParserOp::Lookahead { target, at, width } => {
                let value = self.lookahead(*at, *width)?;
                target.set(&ir.layout, &mut self.packet.phv, self.none, value);
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
                self.interpreter.run(ops, self.none, self.packet);
                Ok(())
            }
        }
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            layout: &self.interpreter.ir.layout,
            phv: &self.packet.phv,
            args: self.none,
        }
    }

    fn too_short(&self) -> Failed {
        Failed(self.interpreter.ir.errors.packet_too_short)
    }

    /// The next `len` bytes.
    fn ahead(&self, len: usize) -> Result<&[u8], Failed> {
        let bytes = self
            .packet
            .payload
            .bytes()
            .get(self.cursor..)
            .unwrap_or_default();
        bytes.get(..len).ok_or_else(|| self.too_short())
    }

    fn lookahead(&self, at: usize, width: u32) -> Result<u128, Failed> {
        read(self.packet.payload.bytes(), self.cursor * 8 + at, width)
            .ok_or_else(|| self.too_short())
    }

    fn whole_bytes(&self, bits: &Num) -> Result<usize, Failed> {
        let bits = bits.eval(&self.scope());
        if !bits.is_multiple_of(8) {
            return Err(Failed(self.interpreter.ir.errors.invalid_argument));
        }
        usize::try_from(bits / 8).map_err(|_| self.too_short())
    }

    fn var_len(&self, header: HeaderIx, bits: &Num) -> Result<usize, Failed> {
        let len = self.whole_bytes(bits)?;
        let fields = &self.interpreter.ir.layout.type_of(header).fields;
        let fits = fields
            .iter()
            .any(|field| matches!(field.home, Home::Var { max, .. } if len <= max));
        if fits {
            Ok(len)
        } else {
            Err(Failed(self.interpreter.ir.errors.header_too_short))
        }
    }

    fn next_of(&self, stack: StackIx, member: usize) -> Result<HeaderIx, Failed> {
        let ir = self.interpreter.ir;
        let element = ir.layout.stacks[stack]
            .elements
            .get(self.packet.phv.next[stack]);
        element
            .and_then(|element| element.get(member))
            .copied()
            .ok_or(Failed(ir.errors.stack_out_of_bounds))
    }

    /// `var_len`: bytes of its varbit, if it has one.
    fn extract(&mut self, header: HeaderIx, var_len: usize) -> Result<(), Failed> {
        let layout = &self.interpreter.ir.layout;
        let instance = &layout.headers[header];
        let header_type = &layout.types[instance.ty];
        let len = header_type.fixed_bits / 8 + var_len;
        let start = self.cursor;
        self.ahead(len)?;
        let PacketState { phv, payload, .. } = &mut *self.packet;
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
        if let Some(journal) = &mut self.interpreter.journal {
            journal.extracted(header, phv);
        }
        Ok(())
    }

    fn select(&mut self, state: &ParserState) -> Result<crate::ir::Next, Failed> {
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
                .ok_or(Failed(self.interpreter.ir.errors.no_match));
        }
        let mut key = std::mem::take(&mut self.interpreter.lane_scratch.scratch);
        key.clear();
        let result = self.pack(&state.key, &mut key).and_then(|()| {
            let case = state
                .cases
                .iter()
                .find(|case| self.accepts(&case.accepts, &key));
            case.map(|case| case.next)
                .ok_or(Failed(self.interpreter.ir.errors.no_match))
        });
        self.interpreter.lane_scratch.scratch = key;
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
                self.interpreter.objects.value_sets[*set].matches(key, mask)
            }
        }
    }
}
