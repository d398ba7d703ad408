//! The objects that a loaded program offers to a control plane: tables, actions, counters, digests, by index and by name.

use crate::bits::Bits;

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub usize);
    )*};
}

index!(
    /// Index into [`crate::Program::tables`].
    TableId,
    /// Index into [`crate::Program::actions`].
    ActionId,
    /// Index into [`crate::Program::counters`].
    CounterId,
    /// Index into [`crate::Program::digests`].
    DigestId,
    /// Index into [`crate::Program::meters`].
    MeterId,
    /// Index into [`crate::Program::profiles`].
    ProfileId,
    /// Index into [`crate::Program::registers`].
    RegisterId,
    /// Index into [`crate::Program::value_sets`].
    ValueSetId
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Name in the P4Info.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    pub kind: MatchKind,
}

/// The default action as the program sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultSpec {
    pub action: ActionId,
    pub args: Vec<Bits>,
    /// The control plane may not change it.
    pub is_const: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// Fully qualified: `GatewayIngress.inbound.sad_in`.
    pub name: String,
    pub keys: Vec<KeySpec>,
    pub actions: Vec<ActionId>,
    /// `None`: a miss does nothing.
    pub default: Option<DefaultSpec>,
    /// Entries that the table holds at most.
    pub size: usize,
    /// Every lookup is counted, packets and bytes: a hit for its entry, a miss for the default entry.
    pub direct_counter: bool,
    /// Entries have an idle timeout, and the time of their last hit is kept.
    pub idle_timeout: bool,
    /// Unit of the meter that marks each hit, see [`crate::Meter`].
    pub direct_meter: Option<MeterUnit>,
    /// Entries name members or groups of it instead of actions.
    pub profile: Option<ProfileId>,
    /// The program fixes the entries.
    pub is_const: bool,
    /// Entries need a priority: a key field is ternary, range or optional.
    pub prioritised: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamSpec {
    pub name: String,
    /// Width in bits.
    pub width: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionSpec {
    /// Fully qualified: `GatewayIngress.inbound.open`.
    pub name: String,
    pub params: Vec<ParamSpec>,
}

/// An indexed counter array; direct counters belong to their tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSpec {
    pub name: String,
    pub size: usize,
}

/// Unit of a meter's rates and bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterUnit {
    Packets,
    Bytes,
}

impl MeterUnit {
    /// Units of a packet of `bytes`.
    pub(crate) fn of(self, bytes: u64) -> u64 {
        match self {
            MeterUnit::Packets => 1,
            MeterUnit::Bytes => bytes,
        }
    }
}

/// An indexed meter array; direct meters belong to their tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterSpec {
    pub name: String,
    pub size: usize,
    pub unit: MeterUnit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSpec {
    /// Fully qualified: `Ingress.balancer`.
    pub name: String,
    /// Size that the program declares, see [`crate::ProfileLimits`].
    pub size: u64,
    /// The profile has groups.
    pub has_selector: bool,
    /// Actions that members may have. The tables that share the profile list the same actions under ids of their own.
    pub actions: Vec<ActionId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterSpec {
    pub name: String,
    /// Width of a cell in bits.
    pub width: u32,
    pub size: usize,
}

/// A parser value set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSetSpec {
    pub name: String,
    /// Members that it holds at most.
    pub size: usize,
    /// Widths in bits of the fields that select compares with a member; empty when no state selects by the set.
    pub widths: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    pub name: String,
    /// Width in bits.
    pub width: u32,
}

/// A digest call site. Several sites of one digest share the name and the widths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestSpec {
    /// Name in the P4Info: `bad_spi_t`.
    pub name: String,
    pub fields: Vec<FieldSpec>,
}
