//! The headers that a recorded pass ends with: runs of the packet's own bytes as copies, constants as a template, the rest one
//! by one.

use super::node::NodeId;
use super::record::{Recorded, Recorder, Unrecorded};
use super::trace::Copied;
use crate::bitstream::Writer;
use crate::layout::Home;

/// The headers at the end of the pass.
#[derive(Default)]
pub struct Headers {
    /// The template: the headers of the recorded packet.
    pub bytes: Vec<u8>,
    pub copies: Vec<Copied>,
    /// Fields that are not copied: node, first bit, bits.
    pub puts: Vec<(NodeId, usize, u32)>,
}

impl Recorder<'_> {
    /// The deparser's output: runs of the packet's own bytes as copies, constants in the template, the rest by itself.
    pub fn headers(&mut self) -> Recorded<Headers> {
        let ir = self.ir;
        let layout = &ir.layout;
        let mut headers = Headers::default();
        let mut runs = Runs::default();
        let mut writer = Writer::new(&mut headers.bytes);
        let mut at = 0;
        for header in &ir.deparser {
            if !self.valid[*header] {
                continue;
            }
            let instance = &layout.headers[*header];
            for field in &layout.types[instance.ty].fields {
                let (input, value) = match field.home.within(instance) {
                    Home::Slot(slot) => {
                        let value = self.slots[slot];
                        writer.put(self.graph.value(value), field.width);
                        let input = self.graph.input(value);
                        (input.filter(|input| input.1 == field.width), Some(value))
                    }
                    Home::Wide { offset, .. } => {
                        let wide = self.wide.iter().find(|wide| wide.offset == offset);
                        // A wide field that nothing was extracted into is 0.
                        match wide {
                            Some(wide) => {
                                self.copy_bits(&mut writer, wide.at, field.width)?;
                                (Some((wide.at as u32, field.width)), None)
                            }
                            None => {
                                (0..field.width).for_each(|_| writer.put(0, 1));
                                (None, None)
                            }
                        }
                    }
                    // No trace has a varbit that is not empty.
                    Home::Var { .. } => continue,
                };
                runs.add(input.map(|input| input.0 as usize), value, at, field.width);
                at += field.width as usize;
            }
        }
        writer.finish();
        if at % 8 != 0 {
            return Err(Unrecorded);
        }
        runs.finish();
        for run in runs.all {
            match run.aligned() {
                Some(copied) => headers.copies.push(copied),
                None => {
                    for (value, at, width) in run.fields {
                        let value = value.ok_or(Unrecorded)?;
                        if self.graph.constant(value).is_none() {
                            headers.puts.push((value, at, width));
                        }
                    }
                }
            }
        }
        Ok(headers)
    }

    fn copy_bits(&self, writer: &mut Writer, at: usize, width: u32) -> Recorded<()> {
        for bit in at..at + width as usize {
            let byte = self.input_byte(bit / 8).ok_or(Unrecorded)?;
            writer.put(u128::from(byte >> (7 - bit % 8) & 1), 1);
        }
        Ok(())
    }
}

/// Consecutive fields that are consecutive bits of the packet as it came.
#[derive(Default)]
struct Run {
    from: Option<usize>,
    to: usize,
    bits: usize,
    fields: Vec<(Option<NodeId>, usize, u32)>,
}

impl Run {
    fn aligned(&self) -> Option<Copied> {
        let from = self.from?;
        let aligned = [from, self.to, self.bits]
            .iter()
            .all(|it| it.is_multiple_of(8));
        aligned.then_some(Copied {
            from: (from / 8) as u32,
            to: (self.to / 8) as u32,
            len: (self.bits / 8) as u32,
        })
    }
}

#[derive(Default)]
struct Runs {
    all: Vec<Run>,
    open: Run,
}

impl Runs {
    fn add(&mut self, from: Option<usize>, value: Option<NodeId>, to: usize, width: u32) {
        let goes_on = self
            .open
            .from
            .zip(from)
            .is_some_and(|(run, from)| run + self.open.bits == from);
        if !goes_on {
            self.finish();
            (self.open.from, self.open.to) = (from, to);
        }
        self.open.bits += width as usize;
        self.open.fields.push((value, to, width));
    }

    fn finish(&mut self) {
        if !self.open.fields.is_empty() {
            self.all.push(std::mem::take(&mut self.open));
        }
    }
}
