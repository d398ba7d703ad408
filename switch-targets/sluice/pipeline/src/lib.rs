//! A P4 pipeline from p4c's bmv2 JSON, sans-IO: packet in, packets out.
//!
//! [`Program::load`] turns the JSON into tables of indices and small expression trees; [`Switch`] holds what
//! changes (table entries, counters, extern objects) and runs packets through it as simple_switch does.

#![forbid(unsafe_code)]

mod bits;
mod entry;
mod error;
mod externs;
mod outcome;
mod payload;
mod program;
mod spec;
mod switch;

pub use bits::{Bits, TooWide};
pub use entry::{ActionCall, CounterValue, Entry, EntryView, MatchValue, Replica};
pub use error::{LoadError, TableError};
pub use externs::{Attributes, Extern, ExternArg, ExternRegistry};
pub use outcome::{Digest, Outcome, Sent};
pub use payload::Payload;
pub use program::Program;
pub use spec::{
    ActionId, ActionRef, ActionSpec, CounterId, CounterSpec, DefaultSpec, DigestId, DigestSpec,
    FieldSpec, KeySpec, MatchKind, ParamSpec, TableId, TableSpec,
};
pub use switch::{Faults, Switch};
