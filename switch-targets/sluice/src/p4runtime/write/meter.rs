//! Writes to meter arrays and direct meters (section 9.4).

use sluice_pipeline::{ColorCounts, Meter, MeterConfig};

use super::on_switch::on_switch;
use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed};
use crate::p4runtime::translate::{EntryKey, entry_key};
use crate::proto::p4rt::{self, update::Type};
use crate::schema::{MeterKind, Table};

/// The change that a request makes to a meter.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    config: Option<MeterConfig>,
    clear: bool,
}

impl Setting {
    /// # Errors
    /// `INVALID_ARGUMENT` for rates that the kind of meter does not have, and for counts that are not 0.
    pub fn new(
        kind: MeterKind,
        config: Option<&p4rt::MeterConfig>,
        counts: Option<&p4rt::MeterCounterData>,
    ) -> Result<Self, Fault> {
        let config = config.map(|config| marker(kind, config)).transpose()?;
        if counts.is_some_and(|counts| !is_zero(counts)) {
            return Err(Fault::invalid("counts of colours can only be set to 0"));
        }
        Ok(Self {
            config,
            clear: counts.is_some(),
        })
    }

    pub fn apply(self, meter: &mut Meter) {
        meter.configure(self.config);
        if self.clear {
            meter.counts = ColorCounts::default();
        }
    }
}

pub fn meter(
    device: &Device,
    installed: &Installed,
    kind: Type,
    entry: &p4rt::MeterEntry,
) -> Result<(), Fault> {
    let meter = installed.schema.meter(entry.meter_id)?;
    let place = |fault: Fault| fault.at(&format!("meter '{}'", meter.name));
    if kind != Type::Modify {
        return Err(place(Fault::invalid("its cells can only be modified")));
    }
    let cells = meter.cells(entry.index.as_ref())?;
    let setting = Setting::new(
        meter.kind,
        entry.config.as_ref(),
        entry.counter_data.as_ref(),
    )
    .map_err(place)?;
    on_switch(device, |switch| {
        for cell in cells {
            setting.apply(switch.meter_mut(meter.index, cell)?);
        }
        Ok::<_, sluice_pipeline::TableError>(())
    })
    .map_err(place)
}

pub fn direct_meter(
    device: &Device,
    installed: &Installed,
    kind: Type,
    entry: &p4rt::DirectMeterEntry,
) -> Result<(), Fault> {
    let of = entry
        .table_entry
        .as_ref()
        .ok_or_else(|| Fault::invalid("direct meter: the table entry is not set"))?;
    let table = installed.schema.table(of.table_id)?;
    let place = |fault: Fault| fault.at(&format!("direct meter of table '{}'", table.name));
    if kind != Type::Modify {
        return Err(place(Fault::invalid("it can only be modified")));
    }
    let setting = setting_of(table, entry.config.as_ref(), entry.counter_data.as_ref());
    let Some(setting) = setting.map_err(place)? else {
        return Err(place(Fault::invalid("the table has none")));
    };
    if of.is_default_action {
        return Err(place(Fault::unsupported(
            "misses are not marked by this switch",
        )));
    }
    let EntryKey { fields, priority } = entry_key(table, of)?;
    on_switch(device, |switch| {
        let meter = switch.direct_meter_mut(table.index, &fields, priority)?;
        setting.apply(meter);
        Ok::<_, sluice_pipeline::TableError>(())
    })
    .map_err(place)
}

/// The change for the meter of an entry; `None` when its table has no meter.
///
/// # Errors
/// As [`Setting::new`]; `INVALID_ARGUMENT` for a table without a meter, if there is something to set.
pub fn setting_of(
    table: &Table,
    config: Option<&p4rt::MeterConfig>,
    counts: Option<&p4rt::MeterCounterData>,
) -> Result<Option<Setting>, Fault> {
    match table.direct_meter {
        Some(kind) => Setting::new(kind, config, counts).map(Some),
        None if config.is_some() || counts.is_some() => {
            Err(Fault::invalid("the table has no direct meter"))
        }
        None => Ok(None),
    }
}

fn marker(kind: MeterKind, config: &p4rt::MeterConfig) -> Result<MeterConfig, Fault> {
    let number = |name: &str, value: i64| {
        u64::try_from(value).map_err(|_| Fault::invalid(format!("{name} {value} is negative")))
    };
    let (cir, cburst) = (number("cir", config.cir)?, number("cburst", config.cburst)?);
    let (pir, pburst) = (number("pir", config.pir)?, number("pburst", config.pburst)?);
    let eburst = number("eburst", config.eburst)?;
    if kind != MeterKind::SingleRateThreeColor && eburst != 0 {
        return Err(Fault::invalid(format!(
            "eburst is not for a meter of type {}",
            kind.as_str_name()
        )));
    }
    if kind != MeterKind::TwoRateThreeColor && (pir, pburst) != (cir, cburst) {
        return Err(Fault::invalid(format!(
            "pir and pburst must equal cir and cburst for a meter of type {}",
            kind.as_str_name()
        )));
    }
    if pir < cir {
        return Err(Fault::invalid(format!("pir {pir} is below cir {cir}")));
    }
    Ok(match kind {
        MeterKind::SingleRateThreeColor => MeterConfig::SingleRate {
            cir,
            cburst,
            eburst,
        },
        // Both buckets hold the same at equal rates, and nothing is yellow.
        MeterKind::TwoRateThreeColor | MeterKind::SingleRateTwoColor => MeterConfig::TwoRate {
            cir,
            cburst,
            pir,
            pburst,
        },
    })
}

fn is_zero(counts: &p4rt::MeterCounterData) -> bool {
    let of_colors = [&counts.green, &counts.yellow, &counts.red];
    of_colors
        .into_iter()
        .flatten()
        .all(|count| *count == p4rt::CounterData::default())
}
