//! Meters of the P4Info beside the program's (section 6.4.5).

use std::ops::Range;

use sluice_pipeline::{MeterId, MeterUnit, Program};

use super::{Schema, Table};
use crate::fault::Fault;
use crate::proto::info::{self, meter_spec};
use crate::proto::p4rt;

pub use meter_spec::Type as MeterKind;

#[derive(Debug)]
pub struct Meter {
    pub name: String,
    pub index: MeterId,
    pub size: usize,
    pub kind: MeterKind,
}

pub fn join_meter(name: String, meter: &info::Meter, program: &Program) -> Result<Meter, Fault> {
    let index = program
        .meter(&name)
        .ok_or_else(|| Fault::invalid("the program has no such meter"))?;
    let spec = &program.meters()[index.0];
    Ok(Meter {
        name,
        index,
        size: spec.size,
        kind: kind(meter.spec.as_ref(), spec.unit)?,
    })
}

/// What kind the meter of `table` is.
pub fn join_direct_meter(
    meter: &info::DirectMeter,
    table: &Table,
    program: &Program,
) -> Result<MeterKind, Fault> {
    let unit = program.tables()[table.index.0].direct_meter;
    let unit = unit.ok_or_else(|| Fault::invalid("the program has no meter at its table"))?;
    kind(meter.spec.as_ref(), unit)
}

fn kind(spec: Option<&info::MeterSpec>, unit: MeterUnit) -> Result<MeterKind, Fault> {
    let spec = spec.ok_or_else(|| Fault::invalid("it has no spec"))?;
    let expected = match unit {
        MeterUnit::Packets => meter_spec::Unit::Packets,
        MeterUnit::Bytes => meter_spec::Unit::Bytes,
    };
    if spec.unit() != expected {
        return Err(Fault::invalid(format!(
            "the P4Info and the program differ on its unit, which is {}",
            expected.as_str_name()
        )));
    }
    MeterKind::try_from(spec.r#type)
        .map_err(|_| Fault::unsupported(format!("meter type {} is not known", spec.r#type)))
}

impl Schema {
    /// # Errors
    /// `NOT_FOUND` for an id that is not in the P4Info, `INVALID_ARGUMENT` for 0.
    pub fn meter(&self, id: u32) -> Result<&Meter, Fault> {
        self.known(&self.meters, id, "meter")
    }
}

impl Meter {
    /// The cells that an index names; without one, all of them.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a negative index, `OUT_OF_RANGE` for one beyond the array.
    pub fn cells(&self, index: Option<&p4rt::Index>) -> Result<Range<usize>, Fault> {
        super::cells(self.size, index).map_err(|fault| fault.at(&format!("meter '{}'", self.name)))
    }
}
