//! The places of all fields of all header instances while a packet is processed.
//!
//! ```text
//!  slots  [ scalars … │ standard_metadata … │ ethernet … │ ipv4 … ]   one u128 for a field of up to 128 bits
//!  wide   [ bytes of the wider fields and the varbits, big-endian  ]
//! ```
//! Instances of one type are laid out alike, so that a header is copied, shifted in a stack or addressed by a
//! computed index by moving its two ranges.

use std::ops::Range;

/// Index of a header instance.
pub type HeaderIx = usize;
/// Index of a header stack or header union stack.
pub type StackIx = usize;
/// Index of a header union.
pub type UnionIx = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    Slot(usize),
    /// Big-endian bytes that hold the width.
    Wide {
        offset: usize,
        len: usize,
    },
    /// A varbit: its current length is the header's.
    Var {
        offset: usize,
        max: usize,
    },
}

impl Home {
    /// A home relative to its header's ranges, made absolute.
    pub fn within(self, header: &Header) -> Home {
        match self {
            Home::Slot(slot) => Home::Slot(header.slots.start + slot),
            Home::Wide { offset, len } => Home::Wide {
                offset: header.wide.start + offset,
                len,
            },
            Home::Var { offset, max } => Home::Var {
                offset: header.wide.start + offset,
                max,
            },
        }
    }
}

#[derive(Clone, Debug)]
pub struct FieldLayout {
    pub name: String,
    /// Width in bits; for a varbit the most that it can have.
    pub width: u32,
    pub signed: bool,
    /// Relative to the header's ranges.
    pub home: Home,
}

#[derive(Clone, Debug, Default)]
pub struct HeaderType {
    pub name: String,
    pub fields: Vec<FieldLayout>,
    pub slots: usize,
    pub wide: usize,
    /// Bits of all fields but the varbit.
    pub fixed_bits: usize,
}

#[derive(Clone, Debug)]
pub struct Header {
    pub ty: usize,
    pub metadata: bool,
    pub slots: Range<usize>,
    pub wide: Range<usize>,
    pub union: Option<UnionIx>,
}

/// The members of each element: one header of a plain stack, all of a union's members in a union stack.
#[derive(Clone, Debug)]
pub struct Stack {
    pub elements: Vec<Vec<HeaderIx>>,
    /// The union of each element of a union stack.
    pub unions: Vec<UnionIx>,
}

#[derive(Clone, Debug)]
pub struct Union {
    pub members: Vec<HeaderIx>,
    /// Member names, as `union_stack_field` names them.
    pub member_names: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Layout {
    pub types: Vec<HeaderType>,
    pub headers: Vec<Header>,
    pub unions: Vec<Union>,
    pub stacks: Vec<Stack>,
    pub slots: usize,
    pub wide: usize,
}

impl Layout {
    pub fn type_of(&self, header: HeaderIx) -> &HeaderType {
        &self.types[self.headers[header].ty]
    }
}
