//! Meters: arrays, and those that belong to a table.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::ir::{DirectMeter, Target};
use crate::load::expr::Context;
use crate::load::json::Node;
use crate::load::objects::Objects;
use crate::spec::{MeterSpec, MeterUnit};

/// A meter, configured, takes the memory of this many counters.
const CELLS: u64 = 12;

#[derive(Debug, Default)]
pub struct Meters {
    pub arrays: HashMap<String, usize>,
    pub specs: Vec<MeterSpec>,
    direct: HashMap<String, DirectMeter>,
}

pub fn load(root: &Node, context: &Context, objects: &mut Objects) -> Result<(), LoadError> {
    for node in root.list("meter_arrays")? {
        let name = node.get("name")?.str()?.to_owned();
        let kind = node.get("type")?;
        let unit = match kind.str()? {
            "packets" => MeterUnit::Packets,
            "bytes" => MeterUnit::Bytes,
            other => return Err(kind.error(format!("a meter of {other} is not supported"))),
        };
        let rates = node.get("rate_count")?;
        if rates.number(u64::MAX)? != 2 {
            return Err(rates.error("a meter has two rates"));
        }
        if node.flag("is_direct")? {
            let target = Target::Field(context.place(&node.get("result_target")?)?);
            objects
                .meters
                .direct
                .insert(name, DirectMeter { unit, target });
        } else {
            let size = objects.take(&node.get("size")?, CELLS)?;
            let meters = &mut objects.meters;
            meters.arrays.insert(name.clone(), meters.specs.len());
            meters.specs.push(MeterSpec { name, size, unit });
        }
    }
    Ok(())
}

impl Meters {
    /// The one that `table` names.
    pub fn of_table(&self, table: &Node) -> Result<Option<DirectMeter>, LoadError> {
        let Some(name) = table.find("direct_meters") else {
            return Ok(None);
        };
        let found = self.direct.get(name.str()?);
        found
            .cloned()
            .map(Some)
            .ok_or_else(|| name.error("no such direct meter"))
    }
}
