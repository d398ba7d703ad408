//! A P4 pipeline from p4c's bmv2 JSON, sans-IO: packet in, packets out.
//!
//! [`Program::load`] turns the JSON into tables of indices and small expression trees; [`Switch`] holds what
//! changes (table entries, counters, extern objects) and runs packets through it as simple_switch does.

#![forbid(unsafe_code)]

mod bits;
mod bitstream;
mod calculation;
mod cells;
mod cond;
mod effects;
mod entry;
mod error;
mod expr;
mod externs;
mod hash;
mod idle;
mod interpreter;
mod ir;
mod journal;
mod lane;
mod layout;
mod load;
#[cfg(test)]
mod lookup_tests;
mod meter;
mod outcome;
mod packet_run;
mod packet_state;
mod parse;
mod pattern;
mod payload;
mod phv;
mod profile;
#[cfg(test)]
mod profile_tests;
mod program;
mod queue;
mod spec;
mod standard;
mod switch;
mod table;
mod trace_cache;
mod transfer;
mod tuple_space;
mod value_set;
mod wide;

pub use bits::{Bits, TooWide};
pub use cells::CounterValue;
pub use entry::{
    ActionCall, Entry, EntryAction, EntryView, Group, GroupMember, IdleView, MatchValue, Replica,
    WeightedAction,
};
pub use error::{LoadError, ProfileError, TableError};
pub use externs::{Extern, ExternArg, ExternRegistry, Packet};
pub use ir::Attributes;
pub use journal::{Named, Step};
pub use lane::Lane;
pub use meter::{Color, ColorCounts, Meter, MeterConfig};
pub use outcome::{Digest, Faults, Outcome, Sent};
pub use payload::Payload;
pub use profile::{GroupSize, ProfileLimits};
pub use program::Program;
pub use queue::Queue;
pub use spec::{
    ActionId, ActionSpec, CounterId, CounterSpec, DefaultSpec, DigestId, DigestSpec, FieldSpec,
    KeySpec, MatchKind, MeterId, MeterSpec, MeterUnit, ParamSpec, ProfileId, ProfileSpec,
    RegisterId, RegisterSpec, TableId, TableSpec, ValueSetId, ValueSetSpec,
};
pub use switch::Switch;
pub use switch::handover::{BadState, SwitchState};
