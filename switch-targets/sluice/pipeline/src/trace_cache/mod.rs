//! The trace cache: a trace records one pass of the pipeline and replays it for packets that take the same branches.
//!
//! ```text
//!  packet ─► cache ─┬─ a trace's mask and requirements match ─► replay ─┬─ its end: dropped, sent, recirculated
//!                   │                                                   └─ a guard fails: the interpreter continues
//!                   └─ none ─► interpreter, which logs the results of its effects for a sample of packets
//!                                      └─► record (symbols) ─► lower ─► cache
//! ```
//! The interpreter defines the program's behaviour; a trace must give the same result faster. The interpreter alone runs clones,
//! digests, multicast, meters, varbits that are not empty, and programs that read queues. A new trace is kept only if its output equals
//! the interpreter's.
//!
//! Terms are those of tracing compilers (trace, guard, exit) and of flow caches (mask: the bits that decide, as of a megaflow).

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

/// Bytes of a packet that a trace may read, from the first on. Headers are shorter.
pub const INPUT: usize = 256;

/// A packet's first bytes. Bytes behind its end are arbitrary. Eight bytes can be read from any offset below [`INPUT`].
pub type Input = [u8; INPUT + 8];

/// Where a pass starts: a packet from a port, or a recirculated packet.
#[derive(Debug, Default)]
pub struct PassStart {
    /// The field list that a recirculation kept; `None` for a packet from a port.
    pub list: Option<usize>,
    /// Microseconds since the start, then the ingress port or the kept fields.
    pub initial: Vec<u128>,
}

impl PassStart {
    /// Whether a recirculation with this field list can start a trace: all its fields must be narrow metadata.
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

    /// The start's index among the program's starts.
    pub fn index(&self) -> usize {
        self.list.map_or(0, |list| list + 1)
    }
}

/// The results of a pass's effects (register reads, extern calls), in their order.
#[derive(Debug, Default)]
pub struct Log {
    pub is_on: bool,
    /// The pass did something that no trace can hold.
    pub is_spoiled: bool,
    pub results: Vec<u128>,
    /// Extern calls in all traces so far.
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

/// Records the pass that the interpreter has just run. `None`: no trace can hold it.
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
