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
mod entry_state;
mod headers;
mod lower;
mod matched_bits;
mod node;
mod record;
mod record_action;
mod record_expression;
mod record_parser;
mod record_pass;
mod replay;
mod trace;

pub use cache::{TraceCache, TraceRef};
pub use entry_state::{INPUT, PassStart};
pub use replay::{Replayed, Scratch, fill_in, replay, restore};
pub use trace::{End, Resume};

use crate::effects::EffectLog;
use crate::ir::Ir;
use crate::table::Table;
use entry_state::Input;
use record::Recorder;
use record_pass::SymbolicEnd;
use trace::{MatchMask, Trace};

/// The interpreter's end of a pass.
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
    log: &mut EffectLog,
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
