//! Values between fields, parameters, and bytes of a given width.

use crate::bits::{self, Bits, byte_len};
use crate::bitstream::mask;
use crate::expr::{Args, Scope};
use crate::externs::ExternArg;
use crate::ir::{Place, Source, Target};
use crate::layout::{Home, Layout};
use crate::phv::Phv;
use crate::wide;

impl Source {
    /// Big-endian into `out`, which holds `width` bits; what does not fit is cut off.
    #[inline]
    pub fn write(&self, scope: &Scope, width: u32, out: &mut [u8]) {
        match self {
            Source::Num(num) if width <= 128 => bits::write_low(out, num.eval(scope) & mask(width)),
            Source::Num(num) => bits::write_low(out, num.eval(scope)),
            Source::Field { offset, len } => copy_low(&scope.phv.wide[*offset..offset + len], out),
            Source::Param { offset, len } => copy_low(&scope.args.wide[*offset..offset + len], out),
            Source::Wide(value) => {
                wide::store(&value.eval(scope), out);
                if let Some(first) = out.first_mut() {
                    *first &= bits::first_byte_mask(width);
                }
            }
        }
    }

    pub fn to_bits(&self, scope: &Scope, width: u32) -> Bits {
        if let (Source::Num(num), 0..=128) = (self, width) {
            return Bits::from_u128(width, num.eval(scope));
        }
        let mut bytes = vec![0; byte_len(width)];
        self.write(scope, width, &mut bytes);
        Bits::new(width, &bytes).unwrap_or_else(|_| Bits::zero(width))
    }

    pub fn fill(&self, scope: &Scope, width: u32, arg: &mut ExternArg) {
        match self {
            Source::Num(num) if width <= 128 => arg.fill(width, num.eval(scope)),
            _ => arg.fill_with(width, |bytes| self.write(scope, width, bytes)),
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Source::Num(_))
    }

    /// The low 128 bits.
    fn low(&self, scope: &Scope) -> u128 {
        match self {
            Source::Num(num) => num.eval(scope),
            Source::Wide(value) => value.eval_low(scope),
            Source::Field { offset, len } => bits::read_low(&scope.phv.wide[*offset..offset + len]),
            Source::Param { offset, len } => {
                bits::read_low(&scope.args.wide[*offset..offset + len])
            }
        }
    }
}

/// Copies the low bytes; zeros go before them.
fn copy_low(from: &[u8], to: &mut [u8]) {
    let take = from.len().min(to.len());
    let (zeros, low) = to.split_at_mut(to.len() - take);
    zeros.fill(0);
    low.copy_from_slice(&from[from.len() - take..]);
}

/// A target with its place found: the header of a [`Target::Member`] is known.
enum Found {
    Slot {
        slot: usize,
        width: u32,
    },
    Bytes {
        offset: usize,
        len: usize,
        width: u32,
    },
    Nowhere,
}

impl Target {
    fn find(&self, scope: &Scope) -> Found {
        match self {
            Target::Slot { slot, mask } => Found::Slot {
                slot: *slot,
                width: mask.count_ones(),
            },
            Target::Wide { offset, len, width } => Found::Bytes {
                offset: *offset,
                len: *len,
                width: *width,
            },
            Target::Member {
                header,
                home,
                width,
            } => match header.resolve(scope) {
                Some(header) => found(home.within(&scope.layout.headers[header]), *width),
                None => Found::Nowhere,
            },
        }
    }

    /// Assigns `source`, cut to the target's width.
    pub fn assign(&self, layout: &Layout, phv: &mut Phv, args: &Args, source: &Source) {
        let scope = Scope { layout, phv, args };
        match self.find(&scope) {
            Found::Slot { slot, width } => {
                let value = source.low(&scope) & mask(width);
                phv.slots[slot] = value;
            }
            Found::Bytes { offset, len, width } if source.is_number() => {
                let value = source.low(&scope);
                bits::write_low(&mut phv.wide[offset..offset + len], value);
                trim(&mut phv.wide[offset..offset + len], width);
            }
            Found::Bytes { offset, len, width } => {
                let mut bytes = vec![0; len];
                source.write(&scope, width, &mut bytes);
                phv.wide[offset..offset + len].copy_from_slice(&bytes);
            }
            Found::Nowhere => {}
        }
    }

    /// Assigns a number, cut to the target's width.
    pub fn set(&self, layout: &Layout, phv: &mut Phv, args: &Args, value: u128) {
        let found = self.find(&Scope { layout, phv, args });
        store(found, phv, value);
    }

    /// Assigns big-endian bytes, cut to the target's width.
    pub fn set_bytes(&self, layout: &Layout, phv: &mut Phv, args: &Args, value: &[u8]) {
        match self.find(&Scope { layout, phv, args }) {
            Found::Bytes { offset, len, width } => {
                copy_low(value, &mut phv.wide[offset..offset + len]);
                trim(&mut phv.wide[offset..offset + len], width);
            }
            found => store(found, phv, bits::read_low(value)),
        }
    }
}

fn found(home: Home, width: u32) -> Found {
    match home {
        Home::Slot(slot) => Found::Slot { slot, width },
        Home::Wide { offset, len } => Found::Bytes { offset, len, width },
        // The loader lets no number be assigned to a varbit.
        Home::Var { .. } => Found::Nowhere,
    }
}

fn store(found: Found, phv: &mut Phv, value: u128) {
    match found {
        Found::Slot { slot, width } => phv.slots[slot] = value & mask(width),
        Found::Bytes { offset, len, width } => {
            bits::write_low(&mut phv.wide[offset..offset + len], value);
            trim(&mut phv.wide[offset..offset + len], width);
        }
        Found::Nowhere => {}
    }
}

fn trim(bytes: &mut [u8], width: u32) {
    if let Some(first) = bytes.first_mut() {
        *first &= bits::first_byte_mask(width);
    }
}

impl Place {
    pub fn set(&self, phv: &mut Phv, value: u128) {
        store(found(self.home, self.width), phv, value);
    }

    /// The field of `from`, copied into the same field of `to`.
    pub fn copy(&self, to: &mut Phv, from: &Phv) {
        match self.home {
            Home::Slot(slot) => to.slots[slot] = from.slots[slot],
            Home::Wide { offset, len } => {
                to.wide[offset..offset + len].copy_from_slice(&from.wide[offset..offset + len])
            }
            Home::Var { offset, max } => {
                to.wide[offset..offset + max].copy_from_slice(&from.wide[offset..offset + max]);
                to.set_var_len(self.header, from.var_len(self.header));
            }
        }
    }
}
