//! Joins a P4Info with a program, object by object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_pipeline::Program;

use super::join_one::{
    join_counter, join_direct_counter, join_direct_meter, join_meter, join_register, join_table,
    join_value_set,
};
use super::join_profile::join_profile;
use super::role::owners;
use super::sdn::Types;
use super::shape::digest_shape;
use super::{ControllerHeader, Digest, Schema};
use crate::fault::Fault;
use crate::proto::info::{self, Preamble};

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

    /// Notes an object of the P4Info that the program lacks.
    fn lacks(&mut self, id: u32, name: &str, lacks: bool) -> bool {
        if lacks {
            self.absent.insert(id, name.to_owned());
        }
        lacks
    }

    /// Checks that the direct resources that a table of the P4Info lists belong to it.
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

/// Ids and names of a P4Info so far, none of which may stand for two things (section 6.2).
#[derive(Default)]
struct Preambles {
    ids: BTreeSet<u32>,
    names: BTreeSet<(&'static str, String)>,
}

impl Preambles {
    /// The id and the name of the next object of this kind.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an object without them, and when another has the same.
    fn take(
        &mut self,
        kind: &'static str,
        preamble: Option<&Preamble>,
    ) -> Result<(u32, String), Fault> {
        let preamble = preamble
            .ok_or_else(|| Fault::invalid(format!("a {kind} of the P4Info has no preamble")))?;
        let Preamble { id, name, .. } = preamble;
        let place = format!("{kind} '{name}'");
        if *id == 0 || !self.ids.insert(*id) {
            return Err(Fault::invalid("id 0, or used twice").at(&place));
        }
        if name.is_empty() || !self.names.insert((kind, name.clone())) {
            return Err(Fault::invalid("it has no name, or another has the same").at(&place));
        }
        Ok((*id, name.clone()))
    }
}
