//! Table entries as a control plane writes and reads them.

use std::time::Duration;

use crate::bits::Bits;
use crate::cells::CounterValue;
use crate::meter::Meter;
use crate::spec::ActionId;

/// A field of an entry's key. A field that the control plane leaves out is the form that matches everything:
/// `Lpm` of length 0, `Ternary` of mask 0, the full `Range`, `Optional(None)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MatchValue {
    Exact(Bits),
    /// `len` in bits; bits of `value` behind it must be 0.
    Lpm {
        value: Bits,
        len: u16,
    },
    /// Bits of `value` outside `mask` must be 0.
    Ternary {
        value: Bits,
        mask: Bits,
    },
    /// Both ends belong to the range.
    Range {
        low: Bits,
        high: Bits,
    },
    Optional(Option<Bits>),
}

/// An action with the values of its parameters, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActionCall {
    pub action: ActionId,
    pub args: Vec<Bits>,
}

/// The action of a hit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EntryAction {
    Run(ActionCall),
    /// A member of the table's action profile.
    Member(u32),
    /// A group of the table's action profile, which must have a selector.
    Group(u32),
    /// A group of the entry's own.
    OneShot(Vec<WeightedAction>),
}

impl From<ActionCall> for EntryAction {
    fn from(call: ActionCall) -> EntryAction {
        EntryAction::Run(call)
    }
}

/// An action of a one-shot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightedAction {
    pub action: ActionCall,
    /// 1 at least, or 0 where the profile has no weights.
    pub weight: u32,
    /// Port of a member that is never taken while the port is down.
    pub watch: Option<u16>,
}

/// Members that a selector takes one of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// No member twice.
    pub members: Vec<GroupMember>,
    /// The group's size at most; 0 means what the profile allows. Fixed once the group exists.
    pub max_size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    pub member: u32,
    /// 1 at least, or 0 where the profile has no weights.
    pub weight: u32,
    /// Port of a member that is never taken while the port is down.
    pub watch: Option<u16>,
}

/// A table entry. Its key identifies it, and in a prioritised table its priority too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Values of the table's key fields, in the table's order.
    pub key: Vec<MatchValue>,
    /// The larger wins (P4Runtime section 9.1). 1 at least in a table with ternary, range or optional fields, 0 elsewhere.
    pub priority: i32,
    pub action: EntryAction,
}

/// An entry as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryView {
    pub entry: Entry,
    /// `None` when the table has no direct counter.
    pub counter: Option<CounterValue>,
    /// `None` when the table's entries have no idle timeout.
    pub idle: Option<IdleView>,
    /// `None` when the table has no direct meter.
    pub meter: Option<Meter>,
}

/// An entry's idle timeout, and when it was last hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleView {
    /// Zero: none.
    pub timeout: Duration,
    /// Time from the switch's start to the last hit; before the first hit, to the insertion.
    pub last_hit: Duration,
}

/// A copy that a multicast group or a clone session makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    pub port: u16,
    /// The copy's value of `standard_metadata.egress_rid`.
    pub instance: u16,
}
