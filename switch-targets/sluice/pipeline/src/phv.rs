//! The values of all headers and metadata of one packet (the packet header vector).

use crate::bits;
use crate::layout::{Header, HeaderIx, Home, Layout, StackIx};

/// A header that becomes invalid keeps its values until the pass ends or it becomes valid again, as on bmv2. No pass sees
/// those of another: bmv2's do.
#[derive(Clone, Debug, Default)]
pub struct Phv {
    pub slots: Vec<u128>,
    pub wide: Vec<u8>,
    states: Vec<HeaderState>,
    /// Bytes of each header's varbit.
    var_len: Vec<usize>,
    /// Elements that have been extracted, by stack: the index of `next`.
    pub next: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderState {
    /// Invalid, and all its fields are 0.
    Blank,
    /// Invalid, with values.
    Stale,
    Valid,
}

/// The state at the start of a pass.
fn initial(header: &Header) -> HeaderState {
    match header.metadata {
        true => HeaderState::Valid,
        false => HeaderState::Blank,
    }
}

impl Phv {
    pub fn new(layout: &Layout) -> Phv {
        Phv {
            slots: vec![0; layout.slots],
            wide: vec![0; layout.wide],
            states: layout.headers.iter().map(initial).collect(),
            var_len: vec![0; layout.headers.len()],
            next: vec![0; layout.stacks.len()],
        }
    }

    /// Sets all fields to zero, and makes every header invalid but the metadata.
    pub fn reset(&mut self, layout: &Layout) {
        for header in 0..layout.headers.len() {
            if self.states[header] != HeaderState::Blank {
                self.clear(layout, header);
                self.states[header] = initial(&layout.headers[header]);
            }
        }
        // A store of nothing at a dangling address would still be a masked store, which costs the processor a microcode assist.
        if !self.next.is_empty() {
            self.next.fill(0);
        }
    }

    pub fn reset_metadata(&mut self, layout: &Layout) {
        for (at, header) in layout.headers.iter().enumerate() {
            if header.metadata {
                self.clear(layout, at);
            }
        }
    }

    pub fn is_valid(&self, header: HeaderIx) -> bool {
        self.states[header] == HeaderState::Valid
    }

    /// Makes a header valid. One that was not starts with zeros; in a union it ends the others.
    pub fn validate(&mut self, layout: &Layout, header: HeaderIx) {
        if self.is_valid(header) {
            return;
        }
        if self.states[header] == HeaderState::Stale {
            self.clear(layout, header);
        }
        if let Some(union) = layout.headers[header].union {
            for member in &layout.unions[union].members {
                self.invalidate(*member);
            }
        }
        self.states[header] = HeaderState::Valid;
    }

    /// Makes a header invalid. It keeps its values.
    pub fn invalidate(&mut self, header: HeaderIx) {
        if self.is_valid(header) {
            self.states[header] = HeaderState::Stale;
        }
    }

    /// Must be called before a field of the header is written to.
    #[inline]
    pub fn will_write(&mut self, header: HeaderIx) {
        if self.states[header] == HeaderState::Blank {
            self.states[header] = HeaderState::Stale;
        }
    }

    fn clear(&mut self, layout: &Layout, header: HeaderIx) {
        let header_layout = &layout.headers[header];
        self.slots[header_layout.slots.clone()].fill(0);
        if !header_layout.wide.is_empty() {
            self.wide[header_layout.wide.clone()].fill(0);
        }
        self.var_len[header] = 0;
    }

    /// Copies fields and validity between headers of one type.
    pub fn copy_header(&mut self, layout: &Layout, to: HeaderIx, from: HeaderIx) {
        if to == from {
            return;
        }
        if !self.is_valid(from) {
            return self.invalidate(to);
        }
        self.validate(layout, to);
        let (target, source) = (&layout.headers[to], &layout.headers[from]);
        self.slots
            .copy_within(source.slots.clone(), target.slots.start);
        self.wide
            .copy_within(source.wide.clone(), target.wide.start);
        self.var_len[to] = self.var_len[from];
    }

    /// Bytes of the header on the wire.
    pub fn header_len(&self, layout: &Layout, header: HeaderIx) -> usize {
        layout.type_of(header).fixed_bits / 8 + self.var_len[header]
    }

    pub fn var_len(&self, header: HeaderIx) -> usize {
        self.var_len[header]
    }

    pub fn set_var_len(&mut self, header: HeaderIx, len: usize) {
        self.var_len[header] = len;
    }

    /// Moves all elements `by` places towards the back; the first ones become invalid, the last ones are lost.
    pub fn push_front(&mut self, layout: &Layout, stack: StackIx, by: usize) {
        let elements = &layout.stacks[stack].elements;
        for at in (0..elements.len()).rev() {
            self.replace_element(
                layout,
                &elements[at],
                at.checked_sub(by).map(|from| elements[from].as_slice()),
            );
        }
        self.next[stack] = self.next[stack].saturating_add(by).min(elements.len());
    }

    /// Moves all elements `by` places towards the front; the first ones are lost, the last ones become invalid.
    pub fn pop_front(&mut self, layout: &Layout, stack: StackIx, by: usize) {
        let elements = &layout.stacks[stack].elements;
        for at in 0..elements.len() {
            let from = at.checked_add(by).and_then(|from| elements.get(from));
            self.replace_element(layout, &elements[at], from.map(Vec::as_slice));
        }
        self.next[stack] = self.next[stack].saturating_sub(by);
    }

    fn replace_element(&mut self, layout: &Layout, to: &[HeaderIx], from: Option<&[HeaderIx]>) {
        to.iter().for_each(|header| self.invalidate(*header));
        for (to, from) in to.iter().zip(from.unwrap_or_default()) {
            if self.is_valid(*from) {
                self.copy_header(layout, *to, *from);
            }
        }
    }

    /// The low 128 bits of a field.
    pub fn low(&self, home: Home, header: HeaderIx) -> u128 {
        match home {
            Home::Slot(slot) => self.slots[slot],
            Home::Wide { offset, len } => bits::read_low(&self.wide[offset..offset + len]),
            Home::Var { offset, .. } => {
                bits::read_low(&self.wide[offset..offset + self.var_len[header]])
            }
        }
    }
}
