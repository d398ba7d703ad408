//! Traces: a pass of the pipeline, folded into what is left to do for packets that take the same way.
//!
//! ```text
//!  packet ─► cache ─┬─ a trace's bits and requirements are met ─► replay ─┬─ its end: dropped, sent, recirculated
//!                   │                                                    └─ a guard fails: the interpreter goes on
//!                   └─ none ─► interpreter, which now and then logs what its effects gave
//!                                      └─► record (symbols) ─► lower ─► cache
//! ```
//! The interpreter defines what a program does; a trace is a faster way to the same. What a trace can't hold (clones,
//! digests, multicast, meters, varbits that are not empty …) is interpreted. After a recording, what the trace would have sent is
//! compared with what the interpreter has sent.

mod cache;
mod headers;
mod lower;
mod matched_bits;
mod node;
mod pass;
mod record;
mod record_action;
mod record_expression;
mod record_parser;
mod record_pass;
mod replay;
mod trace;

pub use cache::TraceCache;
pub use replay::Scratch;

use crate::ir::Ir;
use crate::layout::Home;
use crate::packet_run::instance;
use crate::table::Table;
use record::Recorder;
use record_pass::SymbolicEnd;
use trace::{MatchMask, Trace};

/// Bytes of a packet that a trace may look at. Headers are shorter.
pub const INPUT: usize = 256;

/// A packet's first bytes, what is behind its end arbitrary; with room to read eight bytes at any of them.
pub type Input = [u8; INPUT + 8];

/// How a packet comes into a pass: from a port, or recirculated.
#[derive(Debug, Default)]
pub struct PassStart {
    /// The list of the fields that a recirculation kept.
    pub list: Option<usize>,
    /// Microseconds since the start, then the ingress port or the kept fields.
    pub initial: Vec<u128>,
}

impl PassStart {
    /// Whether a recirculation that keeps the fields of a list can be a start: all are narrow metadata.
    pub fn takes(ir: &Ir, list: usize) -> bool {
        ir.field_lists[list].iter().all(|place| {
            matches!(place.home, Home::Slot(_)) && ir.layout.headers[place.header].metadata
        })
    }

    /// The slots that the initial values go to, and their widths.
    pub fn slots<'a>(&self, ir: &'a Ir) -> impl Iterator<Item = (Option<usize>, u32)> + 'a {
        let cached = self.list.map_or(&[][..], |list| &ir.field_lists[list]);
        let port = self
            .list
            .is_none()
            .then_some((ir.standard.ingress_port, 16));
        let cached = cached.iter().map(|place| match place.home {
            Home::Slot(slot) => (Some(slot), place.width),
            _ => (None, place.width),
        });
        std::iter::once((ir.standard.ingress_timestamp, 48))
            .chain(port)
            .chain(cached)
    }

    pub fn instance_type(&self) -> u128 {
        match self.list {
            None => instance::NORMAL,
            Some(_) => instance::RECIRCULATED,
        }
    }

    /// Its number among the program's starts.
    pub fn index(&self) -> usize {
        self.list.map_or(0, |list| list + 1)
    }
}

/// What the effects of a pass gave, in their order.
#[derive(Debug, Default)]
pub struct Log {
    pub is_on: bool,
    /// The pass did what no trace can hold.
    pub is_spoiled: bool,
    pub results: Vec<u128>,
    /// Calls in all traces so far.
    calls: u64,
}

impl Log {
    #[inline]
    pub fn note(&mut self, result: u128) {
        if self.is_on {
            self.results.push(result);
        }
    }
}

/// How the interpreter ended a pass.
#[derive(Debug, PartialEq, Eq)]
pub enum PassEnd<'a> {
    Dropped,
    Sent { port: u16, headers: &'a [u8] },
    Recirculated { list: usize, headers: &'a [u8] },
}

/// The trace of a pass that the interpreter has just made. `None`: no trace can hold it.
pub fn record(
    ir: &Ir,
    tables: &[Table],
    log: &mut Log,
    start: &PassStart,
    input: &Input,
    len: usize,
    interpreted: &PassEnd,
) -> Option<(MatchMask, Trace)> {
    let results = &log.results;
    let mut recorder = Recorder::new(ir, tables, results, start, input, len).ok()?;
    let end = recorder.pass().ok()?;
    let expected = match &end {
        SymbolicEnd::Drop => PassEnd::Dropped,
        SymbolicEnd::Send { port, headers } => PassEnd::Sent {
            port: *port,
            headers: &headers.bytes,
        },
        SymbolicEnd::Recirculate { list, headers, .. } => PassEnd::Recirculated {
            list: *list,
            headers: &headers.bytes,
        },
    };
    if expected != *interpreted || !recorder.is_complete() {
        return None;
    }
    let match_mask = recorder.matched.match_mask();
    Some((match_mask, lower::lower(recorder, end, &mut log.calls)?))
}
