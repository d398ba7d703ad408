//! The P4Info of the running program, joined with what the pipeline executes: P4Runtime ids on one side, indices on the other.
//!
//! The join is a check too: a P4Info that does not belong to the JSON is refused with the place where they part. p4c writes the P4Info
//! before it removes tables that do nothing, so what the program lacks is left out, and named to clients that ask for it.

mod controller_header;
mod join;
mod join_one;
mod join_profile;
pub mod role;
pub mod scalar;
pub mod sdn;
mod shape;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use sluice_pipeline::{
    ActionId, CounterId, MatchKind, MeterId, ProfileId, ProfileLimits, RegisterId, Switch, TableId,
    ValueSetId,
};

use crate::fault::Fault;
use crate::proto::info::action_ref::Scope;
use crate::proto::p4rt;
use role::Owners;
use scalar::Scalar;
use sdn::{Sdn, Types};

pub use crate::proto::info::meter_spec::Type as MeterKind;
pub use controller_header::ControllerHeader;
pub use shape::DigestShape;

/// The objects that a request can name, by P4Runtime id.
#[derive(Debug, Default)]
pub struct Schema {
    pub tables: BTreeMap<u32, Table>,
    pub counters: BTreeMap<u32, Counter>,
    /// Direct counter id to table id.
    pub direct_counters: BTreeMap<u32, u32>,
    pub registers: BTreeMap<u32, Register>,
    pub value_sets: BTreeMap<u32, ValueSet>,
    pub meters: BTreeMap<u32, Meter>,
    pub profiles: BTreeMap<u32, Profile>,
    pub digests: BTreeMap<u32, Digest>,
    /// P4Runtime ids of the pipeline's digests; `None` when the P4Info does not name one.
    pub digest_ids: Vec<Option<u32>>,
    /// The translated types.
    pub types: Types,
    /// The entities that only one role may write.
    pub owners: Owners,
    pub packet_in: Option<Arc<ControllerHeader>>,
    pub packet_out: Option<ControllerHeader>,
    /// Objects of the P4Info that the program lacks, by id.
    pub absent: BTreeMap<u32, String>,
}

#[derive(Debug)]
pub struct Table {
    pub name: String,
    pub index: TableId,
    /// Match fields in the pipeline's order.
    pub fields: Vec<Field>,
    pub actions: BTreeMap<u32, Action>,
    pub is_const: bool,
    pub const_default: bool,
    pub direct_counter: bool,
    /// The primary is told of entries that are not hit.
    pub idle_timeout: bool,
    pub direct_meter: Option<MeterKind>,
    /// The action profile that its entries take their actions from.
    pub profile: Option<u32>,
    /// Entries carry a priority.
    pub prioritised: bool,
}

#[derive(Debug)]
pub struct Field {
    pub id: u32,
    pub name: String,
    /// Width in bits.
    pub width: u32,
    pub kind: MatchKind,
    pub sdn: Sdn,
}

/// An action as one table may use it.
#[derive(Clone, Debug)]
pub struct Action {
    pub name: String,
    pub index: ActionId,
    pub scope: Scope,
    /// Parameters in the pipeline's order.
    pub params: Vec<Param>,
}

#[derive(Clone, Debug)]
pub struct Param {
    pub id: u32,
    pub name: String,
    /// Width in bits.
    pub width: u32,
    pub sdn: Sdn,
}

#[derive(Debug)]
pub struct Counter {
    pub name: String,
    pub index: CounterId,
    pub size: usize,
}

#[derive(Debug)]
pub struct Register {
    pub name: String,
    pub index: RegisterId,
    pub size: usize,
    /// Width of a cell in bits.
    pub width: u32,
    pub cell: Scalar,
}

#[derive(Debug)]
pub struct ValueSet {
    pub name: String,
    pub index: ValueSetId,
    pub size: usize,
    /// Key fields in the order in which the parser selects by them.
    pub fields: Vec<Field>,
}

#[derive(Debug)]
pub struct Digest {
    pub name: String,
    pub shape: DigestShape,
}

#[derive(Debug)]
pub struct Meter {
    pub name: String,
    pub index: MeterId,
    pub size: usize,
    pub kind: MeterKind,
}

#[derive(Debug)]
pub struct Profile {
    pub name: String,
    pub index: ProfileId,
    /// Actions that members may have.
    pub actions: BTreeMap<u32, Action>,
    pub limits: ProfileLimits,
}

impl Schema {
    /// # Errors
    /// `NOT_FOUND` for an id that is not in the P4Info, `INVALID_ARGUMENT` for 0.
    pub fn table(&self, id: u32) -> Result<&Table, Fault> {
        self.known(&self.tables, id, "table")
    }

    /// # Errors
    /// `NOT_FOUND` for an id that is not in the P4Info, `INVALID_ARGUMENT` for 0.
    pub fn counter(&self, id: u32) -> Result<&Counter, Fault> {
        self.known(&self.counters, id, "counter")
    }

    /// # Errors
    /// `NOT_FOUND` for an id that is not in the P4Info, `INVALID_ARGUMENT` for 0.
    pub fn register(&self, id: u32) -> Result<&Register, Fault> {
        self.known(&self.registers, id, "register")
    }

    /// # Errors
    /// `NOT_FOUND` for an id that is not in the P4Info, `INVALID_ARGUMENT` for 0.
    pub fn value_set(&self, id: u32) -> Result<&ValueSet, Fault> {
        self.known(&self.value_sets, id, "value set")
    }

    /// # Errors
    /// `NOT_FOUND` for an id that is not in the P4Info, `INVALID_ARGUMENT` for 0.
    pub fn digest(&self, id: u32) -> Result<&Digest, Fault> {
        self.known(&self.digests, id, "digest")
    }

    /// # Errors
    /// `NOT_FOUND` for an id that is not in the P4Info, `INVALID_ARGUMENT` for 0.
    pub fn meter(&self, id: u32) -> Result<&Meter, Fault> {
        self.known(&self.meters, id, "meter")
    }

    /// # Errors
    /// `NOT_FOUND` for an id that is not in the P4Info, `INVALID_ARGUMENT` for 0.
    pub fn profile(&self, id: u32) -> Result<&Profile, Fault> {
        self.known(&self.profiles, id, "action profile")
    }

    /// Tells a new switch what its profiles hold at most.
    ///
    /// # Errors
    /// The switch runs another program.
    pub fn limit_profiles(&self, switch: &mut Switch) -> Result<(), Fault> {
        for profile in self.profiles.values() {
            let limited = switch.limit_profile(profile.index, profile.limits);
            limited.map_err(|error| Fault::invalid(error.to_string()))?;
        }
        Ok(())
    }

    /// The object of that id. 0 stands for an id that is not set (section 7.1.1).
    fn known<'a, T>(
        &self,
        objects: &'a BTreeMap<u32, T>,
        id: u32,
        kind: &str,
    ) -> Result<&'a T, Fault> {
        if id == 0 {
            return Err(Fault::invalid(format!("the id of the {kind} is not set")));
        }
        objects.get(&id).ok_or_else(|| match self.absent.get(&id) {
            Some(name) => Fault::not_found(format!(
                "{name} is in the P4Info, but not in the program: the compiler has removed it, or the files are of two programs"
            )),
            None => Fault::not_found(format!("no {kind} has the id {id}")),
        })
    }
}

impl Counter {
    /// The cells that an index names; without one, all of them.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a negative index, `OUT_OF_RANGE` for one beyond the array.
    pub fn cells(&self, index: Option<&p4rt::Index>) -> Result<Range<usize>, Fault> {
        cells(self.size, index).map_err(|fault| fault.at(&format!("counter '{}'", self.name)))
    }
}

impl Register {
    /// The cells of an index, as [`Counter::cells`].
    ///
    /// # Errors
    /// As of [`Counter::cells`].
    pub fn cells(&self, index: Option<&p4rt::Index>) -> Result<Range<usize>, Fault> {
        cells(self.size, index).map_err(|fault| fault.at(&format!("register '{}'", self.name)))
    }
}

impl Meter {
    /// The cells that an index names; without one, all of them.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a negative index, `OUT_OF_RANGE` for one beyond the array.
    pub fn cells(&self, index: Option<&p4rt::Index>) -> Result<Range<usize>, Fault> {
        cells(self.size, index).map_err(|fault| fault.at(&format!("meter '{}'", self.name)))
    }
}

fn cells(size: usize, index: Option<&p4rt::Index>) -> Result<Range<usize>, Fault> {
    let Some(index) = index.map(|it| it.index) else {
        return Ok(0..size);
    };
    let place = format!("index {index}");
    match usize::try_from(index) {
        Err(_) => Err(Fault::invalid("it is negative").at(&place)),
        Ok(index) if index < size => Ok(index..index + 1),
        Ok(_) => Err(Fault::out_of_range(format!("the array has {size} cells")).at(&place)),
    }
}
