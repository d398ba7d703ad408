//! The P4Info of the running program, joined with what the pipeline executes: P4Runtime ids on one side, indices on the other.
//!
//! The join is a check too: a P4Info that does not belong to the JSON is refused with the place where they part. p4c writes the P4Info
//! before it removes tables that do nothing, so what the program lacks is left out, and named to clients that ask for it.

mod controller_header;
mod distinct;
mod join;
mod meter;
mod profile;
pub mod scalar;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use sluice_pipeline::{ActionId, CounterId, MatchKind, Program, RegisterId, TableId, ValueSetId};

use crate::fault::Fault;
use crate::proto::info::{self, action_ref::Scope};
use crate::proto::p4rt;
use crate::role::{Owners, owners};
use crate::sdn::{Sdn, Types};

pub use controller_header::ControllerHeader;
use distinct::Preambles;
use join::{join_counter, join_direct_counter, join_register, join_table, join_value_set};
pub use meter::{Meter, MeterKind};
use meter::{join_direct_meter, join_meter};
pub use profile::Profile;
use profile::join_profile;
use scalar::Scalar;
pub use shape::Shape;
use shape::digest_shape;

/// Everything a request can name, by P4Runtime id.
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
    /// For each of the pipeline's digests its P4Runtime id; `None` when the P4Info does not name it.
    pub digest_ids: Vec<Option<u32>>,
    /// Which of its types are translated.
    pub types: Types,
    /// The entities that only one role may write.
    pub owners: Owners,
    pub packet_in: Option<Arc<ControllerHeader>>,
    pub packet_out: Option<ControllerHeader>,
    /// What the P4Info has and the program lacks, by id.
    pub absent: BTreeMap<u32, String>,
}

#[derive(Debug)]
pub struct Table {
    pub name: String,
    pub index: TableId,
    /// In the pipeline's order.
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
    /// In bits.
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
    /// In the pipeline's order.
    pub params: Vec<Param>,
}

#[derive(Clone, Debug)]
pub struct Param {
    pub id: u32,
    pub name: String,
    /// In bits.
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
    /// Of a cell, in bits.
    pub width: u32,
    pub cell: Scalar,
}

#[derive(Debug)]
pub struct ValueSet {
    pub name: String,
    pub index: ValueSetId,
    pub size: usize,
    /// In the order in which the parser selects by them.
    pub fields: Vec<Field>,
}

#[derive(Debug)]
pub struct Digest {
    pub name: String,
    pub shape: Shape,
}

impl Schema {
    /// # Errors
    /// `INVALID_ARGUMENT`, or `UNIMPLEMENTED` for what this switch lacks, with the place in the P4Info.
    pub fn new(p4info: &info::P4Info, program: &Program) -> Result<Self, Fault> {
        if *p4info == info::P4Info::default()
            && let Some(table) = program.tables().iter().find(|it| !it.keys.is_empty())
        {
            let text = format!("it is empty, the program has table '{}'", table.name);
            return Err(Fault::invalid(text));
        }
        let mut schema = Self {
            types: Types::new(p4info.type_info.as_ref())?,
            ..Self::default()
        };
        let mut preambles = Preambles::default();
        let mut named = |kind, preamble: &Option<_>| preambles.take(kind, preamble.as_ref());
        let mut actions = BTreeMap::new();
        for action in &p4info.actions {
            actions.insert(named("action", &action.preamble)?.0, action);
        }
        for table in &p4info.tables {
            let (id, name) = named("table", &table.preamble)?;
            let place = format!("table '{name}'");
            if schema.lacks(id, &place, program.table(&name).is_none()) {
                continue;
            }
            schema.tables.insert(
                id,
                join_table(name, table, &actions, &schema.types, program)
                    .map_err(|fault| fault.at(&place))?,
            );
        }
        // p4c may have removed all tables that there are, if they have no key.
        let keyed = p4info.tables.iter().any(|it| !it.match_fields.is_empty())
            || program.tables().iter().any(|it| !it.keys.is_empty());
        if let (true, true, Some(first)) = (
            schema.tables.is_empty(),
            keyed,
            schema.absent.values().next(),
        ) {
            let text = format!(
                "it is another program's: the JSON has none of its tables, {first} for one"
            );
            return Err(Fault::invalid(text));
        }
        for counter in &p4info.counters {
            let (id, name) = named("counter", &counter.preamble)?;
            let place = format!("counter '{name}'");
            if schema.lacks(id, &place, program.counter(&name).is_none()) {
                continue;
            }
            schema.counters.insert(
                id,
                join_counter(name, program).map_err(|fault| fault.at(&place))?,
            );
        }
        for register in &p4info.registers {
            let (id, name) = named("register", &register.preamble)?;
            let place = format!("register '{name}'");
            if schema.lacks(id, &place, program.register(&name).is_none()) {
                continue;
            }
            let joined = join_register(name, register, p4info, &schema.types, program);
            let joined = joined.map_err(|fault| fault.at(&place))?;
            schema.registers.insert(id, joined);
        }
        for set in &p4info.value_sets {
            let (id, name) = named("value set", &set.preamble)?;
            let place = format!("value set '{name}'");
            if schema.lacks(id, &place, program.value_set(&name).is_none()) {
                continue;
            }
            let joined = join_value_set(name, set, &schema.types, program);
            schema
                .value_sets
                .insert(id, joined.map_err(|fault| fault.at(&place))?);
        }
        for counter in &p4info.direct_counters {
            let (id, name) = named("direct counter", &counter.preamble)?;
            if schema.absent.contains_key(&counter.direct_table_id) {
                continue;
            }
            let table = schema.tables.get_mut(&counter.direct_table_id);
            join_direct_counter(table, program)
                .map_err(|fault| fault.at(&format!("direct counter '{name}'")))?;
            schema.direct_counters.insert(id, counter.direct_table_id);
        }
        for meter in &p4info.meters {
            let (id, name) = named("meter", &meter.preamble)?;
            let place = format!("meter '{name}'");
            if schema.lacks(id, &place, program.meter(&name).is_none()) {
                continue;
            }
            schema.meters.insert(
                id,
                join_meter(name, meter, program).map_err(|fault| fault.at(&place))?,
            );
        }
        for meter in &p4info.direct_meters {
            let place = format!(
                "direct meter '{}'",
                named("direct meter", &meter.preamble)?.1
            );
            if schema.absent.contains_key(&meter.direct_table_id) {
                continue;
            }
            let table = schema.tables.get_mut(&meter.direct_table_id);
            let table = table
                .ok_or_else(|| Fault::invalid("it belongs to no table of the P4Info").at(&place))?;
            let kind = join_direct_meter(meter, table, program);
            table.direct_meter = Some(kind.map_err(|fault| fault.at(&place))?);
        }
        for profile in &p4info.action_profiles {
            let (id, name) = named("action profile", &profile.preamble)?;
            let place = format!("action profile '{name}'");
            let mut tables = profile.table_ids.iter();
            let lacks = program.profile(&name).is_none()
                && tables.all(|table| schema.absent.contains_key(table));
            if schema.lacks(id, &place, lacks) {
                continue;
            }
            let joined = join_profile(name, id, profile, &schema.tables, program);
            if let Some(profile) = joined.map_err(|fault| fault.at(&place))? {
                schema.profiles.insert(id, profile);
            }
        }
        if let Some(table) = schema.tables.values().find(|table| {
            table
                .profile
                .is_some_and(|id| !schema.profiles.contains_key(&id))
        }) {
            return Err(Fault::invalid(format!(
                "table '{}': its action profile is not in the P4Info",
                table.name
            )));
        }
        for header in &p4info.controller_packet_metadata {
            named("controller header", &header.preamble)?;
        }
        for digest in &p4info.digests {
            let (id, name) = named("digest", &digest.preamble)?;
            let shape = digest_shape(digest, p4info, &schema.types)
                .map_err(|fault| fault.at(&format!("digest '{name}'")))?;
            schema.digests.insert(id, Digest { name, shape });
        }
        schema.join_digests(program)?;
        schema.check_direct_resources(p4info)?;
        schema.owners = owners(p4info);
        schema.packet_in = ControllerHeader::new("packet_in", p4info)?.map(Arc::new);
        schema.packet_out = ControllerHeader::new("packet_out", p4info)?;
        Ok(schema)
    }

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

    /// Notes an object of the P4Info that the program lacks.
    fn lacks(&mut self, id: u32, name: &str, lacks: bool) -> bool {
        if lacks {
            self.absent.insert(id, name.to_owned());
        }
        lacks
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

    /// What a table of the P4Info lists as its own belongs to it.
    fn check_direct_resources(&self, p4info: &info::P4Info) -> Result<(), Fault> {
        let counters = p4info.direct_counters.iter();
        let counters = counters.map(|it| (&it.preamble, it.direct_table_id));
        let meters = p4info.direct_meters.iter();
        let meters = meters.map(|it| (&it.preamble, it.direct_table_id));
        let id = |preamble: &Option<info::Preamble>| preamble.as_ref().map_or(0, |it| it.id);
        let owned: BTreeSet<_> = counters
            .chain(meters)
            .map(|(preamble, table)| (table, id(preamble)))
            .collect();
        for table in &p4info.tables {
            let table_id = id(&table.preamble);
            let mut listed = table.direct_resource_ids.iter();
            if let Some(other) = listed.find(|resource| !owned.contains(&(table_id, **resource))) {
                let name = &self.table(table_id)?.name;
                let text = format!("direct resource {other} is not one of its counters or meters");
                return Err(Fault::invalid(text).at(&format!("table '{name}'")));
            }
        }
        Ok(())
    }

    fn join_digests(&mut self, program: &Program) -> Result<(), Fault> {
        for spec in program.digests() {
            let found = self
                .digests
                .iter()
                .find(|(_, digest)| digest.name == spec.name);
            if let Some((_, digest)) = found {
                let widths: Vec<u32> = spec.fields.iter().map(|field| field.width).collect();
                if !digest.shape.fits(&widths) {
                    return Err(Fault::invalid(format!(
                        "digest '{}': the P4Info has members {:?}, the program fields of {widths:?} bits",
                        spec.name,
                        digest.shape.members()
                    )));
                }
            }
            self.digest_ids.push(found.map(|(id, _)| *id));
        }
        Ok(())
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
    /// As [`Counter::cells`].
    ///
    /// # Errors
    /// As there.
    pub fn cells(&self, index: Option<&p4rt::Index>) -> Result<Range<usize>, Fault> {
        cells(self.size, index).map_err(|fault| fault.at(&format!("register '{}'", self.name)))
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
