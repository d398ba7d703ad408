//! Recorded paths: a pass of the pipeline, folded into what is left to do for packets that take the same way.
//!
//! ```text
//!  packet ─► cache ─┬─ a path's bits and requirements are met ─► replay ─┬─ its end: dropped, sent, recirculated
//!                   │                                                    └─ a guard fails: the interpreter goes on
//!                   └─ none ─► interpreter, which now and then logs what its effects gave
//!                                      └─► record (symbols) ─► lower ─► cache
//! ```
//! The interpreter defines what a program does; a path is a faster way to the same. What a path can't hold (clones,
//! digests, multicast, meters, varbits that are not empty …) is interpreted. After a recording, what the path would have sent is
//! compared with what the interpreter has sent.

mod cache;
mod headers;
mod lower;
mod node;
mod path;
mod pin;
mod record;
mod record_action;
mod record_expression;
mod record_parser;
mod replay;
mod run;
mod walk;

pub use cache::PathCache;
pub use replay::Scratch;

use crate::ir::Ir;
use crate::layout::Home;
use crate::process::instance;
use crate::table::Table;
use path::{Path, Shape};
use record::Recorder;
use walk::Ended;

/// Bytes of a packet that a path may look at. Headers are shorter.
pub const INPUT: usize = 256;

/// A packet's first bytes, what is behind its end arbitrary; with room to read eight bytes at any of them.
pub type Input = [u8; INPUT + 8];

/// How a packet comes into a pass: from a port, or recirculated.
#[derive(Debug, Default)]
pub struct Entrance {
    /// The list of the fields that it has kept.
    pub list: Option<usize>,
    /// Microseconds since the start, then the ingress port or the kept fields.
    pub initial: Vec<u128>,
}

impl Entrance {
    /// Whether a recirculation that keeps the fields of a list can be an entrance: all are narrow metadata.
    pub fn takes(ir: &Ir, list: usize) -> bool {
        ir.field_lists[list].iter().all(|place| {
            matches!(place.home, Home::Slot(_)) && ir.layout.headers[place.header].metadata
        })
    }

    /// The slots that the initial values go to, and their widths.
    pub fn slots<'a>(&self, ir: &'a Ir) -> impl Iterator<Item = (Option<usize>, u32)> + 'a {
        let kept = self.list.map_or(&[][..], |list| &ir.field_lists[list]);
        let port = self
            .list
            .is_none()
            .then_some((ir.standard.ingress_port, 16));
        let kept = kept.iter().map(|place| match place.home {
            Home::Slot(slot) => (Some(slot), place.width),
            _ => (None, place.width),
        });
        std::iter::once((ir.standard.ingress_timestamp, 48))
            .chain(port)
            .chain(kept)
    }

    pub fn instance_type(&self) -> u128 {
        match self.list {
            None => instance::NORMAL,
            Some(_) => instance::RECIRCULATED,
        }
    }

    /// Its number among the program's entrances.
    pub fn index(&self) -> usize {
        self.list.map_or(0, |list| list + 1)
    }
}

/// What the effects of a pass gave, in their order.
#[derive(Debug, Default)]
pub struct Log {
    pub is_on: bool,
    /// The pass did what no path can hold.
    pub is_spoiled: bool,
    pub results: Vec<u128>,
    /// Calls in all paths so far.
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
pub enum Actual<'a> {
    Dropped,
    Sent { port: u16, headers: &'a [u8] },
    Recirculated { list: usize, headers: &'a [u8] },
}

/// The path of a pass that the interpreter has just made. `None`: no path can hold it.
pub fn record(
    ir: &Ir,
    tables: &[Table],
    log: &mut Log,
    entrance: &Entrance,
    input: &Input,
    len: usize,
    actual: &Actual,
) -> Option<(Shape, Path)> {
    let results = &log.results;
    let mut recorder = Recorder::new(ir, tables, results, entrance, input, len).ok()?;
    let ended = recorder.pass().ok()?;
    let expected = match &ended {
        Ended::Drop => Actual::Dropped,
        Ended::Send { port, headers } => Actual::Sent {
            port: *port,
            headers: &headers.bytes,
        },
        Ended::Recirculate { list, headers, .. } => Actual::Recirculated {
            list: *list,
            headers: &headers.bytes,
        },
    };
    if expected != *actual || !recorder.is_complete() {
        return None;
    }
    let shape = recorder.pins.shape();
    Some((shape, lower::lower(recorder, ended, &mut log.calls)?))
}
