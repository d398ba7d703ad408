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
            Source::Field { offset, len } => {
                bits::copy_low(&scope.phv.wide[*offset..offset + len], out)
            }
            Source::Param { offset, len } => {
                bits::copy_low(&scope.args.wide[*offset..offset + len], out)
            }
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
    pub fn low(&self, scope: &Scope) -> u128 {
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

impl Target {
    /// The field, if there is one to write to.
    fn find(&self, scope: &Scope) -> Option<Place> {
        Some(match self {
            Target::Field(place) => *place,
            Target::Member {
                header,
                home,
                width,
            } => {
                let header = header.resolve(scope)?;
                let home = home.within(&scope.layout.headers[header]);
                Place {
                    header,
                    home,
                    width: *width,
                }
            }
        })
    }

    /// Assigns `source`, cut to the target's width.
    pub fn assign(&self, layout: &Layout, phv: &mut Phv, args: &Args, source: &Source) {
        let scope = Scope { layout, phv, args };
        let Some(place) = self.find(&scope) else {
            return;
        };
        match place.home {
            Home::Wide { offset, len } if !source.is_number() => {
                let mut bytes = vec![0; len];
                source.write(&scope, place.width, &mut bytes);
                phv.will_write(place.header);
                phv.wide[offset..offset + len].copy_from_slice(&bytes);
            }
            _ => {
                let value = source.low(&scope);
                place.set(phv, value);
            }
        }
    }

    /// Assigns a number, cut to the target's width.
    pub fn set(&self, layout: &Layout, phv: &mut Phv, args: &Args, value: u128) {
        if let Some(place) = self.find(&Scope { layout, phv, args }) {
            place.set(phv, value);
        }
    }

    /// Assigns big-endian bytes, cut to the target's width.
    pub fn set_bytes(&self, layout: &Layout, phv: &mut Phv, args: &Args, value: &[u8]) {
        let Some(place) = self.find(&Scope { layout, phv, args }) else {
            return;
        };
        match place.home {
            Home::Wide { offset, len } => {
                phv.will_write(place.header);
                bits::copy_low(value, &mut phv.wide[offset..offset + len]);
                trim(&mut phv.wide[offset..offset + len], place.width);
            }
            _ => place.set(phv, bits::read_low(value)),
        }
    }

    pub fn width(&self) -> u32 {
        match self {
            Target::Field(place) => place.width,
            Target::Member { width, .. } => *width,
        }
    }
}

fn trim(bytes: &mut [u8], width: u32) {
    if let Some(first) = bytes.first_mut() {
        *first &= bits::first_byte_mask(width);
    }
}

impl Place {
    /// Assigns a number, cut to the field's width.
    pub fn set(&self, phv: &mut Phv, value: u128) {
        phv.will_write(self.header);
        match self.home {
            Home::Slot(slot) => phv.slots[slot] = value & mask(self.width),
            Home::Wide { offset, len } => {
                bits::write_low(&mut phv.wide[offset..offset + len], value);
                trim(&mut phv.wide[offset..offset + len], self.width);
            }
            // The loader lets no number be assigned to a varbit.
            Home::Var { .. } => {}
        }
    }

    /// The field of `from`, copied into the same field of `to`.
    pub fn copy(&self, to: &mut Phv, from: &Phv) {
        if !to.is_valid(self.header) {
            return;
        }
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
