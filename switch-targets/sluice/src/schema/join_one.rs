//! Joins a table, action or counter of the P4Info with the program's of the same name.
//!
//! Sizes are the program's, as on bmv2: p4c writes the two files by different defaults.

use std::collections::{BTreeMap, BTreeSet};

use sluice_pipeline::{MatchKind, MeterUnit, Program, TableId, TableSpec};

use super::scalar::Scalar;
use super::{Action, Counter, Field, Meter, MeterKind, Param, Register, Table, ValueSet};
use crate::fault::Fault;
use crate::proto::info::{
    self, action_ref::Scope, match_field, meter_spec, table::IdleTimeoutBehavior,
};
use crate::schema::sdn::{Sdn, Types};

type Actions<'a> = BTreeMap<u32, &'a info::Action>;

pub fn join_table(
    name: String,
    table: &info::Table,
    actions: &Actions,
    types: &Types,
    program: &Program,
) -> Result<Table, Fault> {
    let index = program
        .table(&name)
        .ok_or_else(|| Fault::invalid("the program has no such table"))?;
    let spec = &program.tables()[index.0];
    if spec.profile.is_some() != (table.implementation_id != 0) {
        return Err(Fault::invalid(
            "the P4Info and the program differ on whether it has an action profile",
        ));
    }
    if spec.keys.len() != table.match_fields.len() {
        let (info, program) = (table.match_fields.len(), spec.keys.len());
        return Err(Fault::invalid(format!(
            "the P4Info has {info} match fields, the program {program}"
        )));
    }
    distinct("match field", table.match_fields.iter().map(|it| it.id))?;
    distinct("action", table.action_refs.iter().map(|it| it.id))?;
    let idle_timeout = table.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl;
    if idle_timeout && !spec.idle_timeout {
        let text = "the P4Info has an idle timeout for it, the program has none";
        return Err(Fault::invalid(text));
    }
    let mut fields = Vec::new();
    for key in &spec.keys {
        let field = table
            .match_fields
            .iter()
            .find(|field| field.name == key.name);
        let field = field.ok_or_else(|| {
            Fault::invalid(format!("match field '{}' is not in the P4Info", key.name))
        })?;
        let place = format!("match field '{}'", field.name);
        let sdn = types.sdn(field.type_name.as_ref());
        same_width(&place, field.bitwidth, sdn.info_width(key.width))?;
        let kind = match (match_kind(field), key.kind) {
            // p4c's bmv2 back end writes an optional field as a ternary one.
            (Some(MatchKind::Optional), MatchKind::Ternary) => MatchKind::Optional,
            (Some(info), program) if info == program => program,
            (_, program) => {
                let text =
                    format!("{place}: the program matches it as {program:?}, the P4Info does not");
                return Err(Fault::invalid(text));
            }
        };
        named_once(&place, &sdn, kind)?;
        fields.push(Field {
            id: field.id,
            name: field.name.clone(),
            width: key.width,
            kind,
            sdn,
        });
    }
    let mut joined = BTreeMap::new();
    for action_ref in &table.action_refs {
        let action = actions.get(&action_ref.id);
        let action = action.ok_or_else(|| {
            Fault::invalid(format!("action id {} is not in the P4Info", action_ref.id))
        })?;
        joined.insert(
            action_ref.id,
            join_action(action, action_ref.scope(), index, types, program)?,
        );
    }
    const_default(table, &joined, spec)?;
    Ok(Table {
        index,
        fields,
        actions: joined,
        is_const: table.is_const_table || spec.is_const,
        // The default entry of a table with an action profile is NoAction (section 9.1.3).
        const_default: table.const_default_action_id != 0
            || spec.profile.is_some()
            || spec.default.as_ref().is_some_and(|it| it.is_const),
        direct_counter: false,
        idle_timeout,
        direct_meter: None,
        profile: spec.profile.map(|_| table.implementation_id),
        prioritised: spec.prioritised,
        name,
    })
}

/// A default action that the P4Info fixes is the one that the program begins with. p4c leaves it out of the program for a table
/// with an action profile, and warns that it never runs.
fn const_default(
    table: &info::Table,
    actions: &BTreeMap<u32, Action>,
    spec: &TableSpec,
) -> Result<(), Fault> {
    let place = |fault: Fault| fault.at("const_default_action_id");
    let id = match table.const_default_action_id {
        0 => return Ok(()),
        id => id,
    };
    let action = actions
        .get(&id)
        .ok_or_else(|| place(Fault::invalid(format!("{id} is not one of its actions"))))?;
    match &spec.default {
        None if spec.profile.is_some() => Ok(()),
        Some(default) if default.action == action.index => Ok(()),
        _ => {
            let text = format!("action '{}' is not the program's default", action.name);
            Err(place(Fault::invalid(text)))
        }
    }
}

/// Makes the table's entries counted.
pub fn join_direct_counter(table: Option<&mut Table>, program: &Program) -> Result<(), Fault> {
    let table = table.ok_or_else(|| Fault::invalid("it belongs to no table of the P4Info"))?;
    if !program.tables()[table.index.0].direct_counter {
        return Err(Fault::invalid("the program has no counter at its table"));
    }
    table.direct_counter = true;
    Ok(())
}

fn join_action(
    action: &info::Action,
    scope: Scope,
    table: TableId,
    types: &Types,
    program: &Program,
) -> Result<Action, Fault> {
    let name = action
        .preamble
        .as_ref()
        .map(|preamble| preamble.name.clone())
        .unwrap_or_default();
    let place = format!("action '{name}'");
    let index = program.action(table, &name);
    let index = index.ok_or_else(|| {
        Fault::invalid(format!(
            "{place} is not one of the program's for this table"
        ))
    })?;
    let spec = &program.actions()[index.0];
    if spec.params.len() != action.params.len() {
        let (info, program) = (action.params.len(), spec.params.len());
        return Err(Fault::invalid(format!(
            "{place}: the P4Info has {info} parameters, the program {program}"
        )));
    }
    distinct("parameter", action.params.iter().map(|it| it.id))
        .map_err(|fault| fault.at(&place))?;
    let mut params = Vec::new();
    for expected in &spec.params {
        let param = action
            .params
            .iter()
            .find(|param| param.name == expected.name);
        let missing = || {
            Fault::invalid(format!(
                "{place}: parameter '{}' is not in the P4Info",
                expected.name
            ))
        };
        let param = param.ok_or_else(missing)?;
        let sdn = types.sdn(param.type_name.as_ref());
        same_width(
            &format!("{place}: parameter '{}'", param.name),
            param.bitwidth,
            sdn.info_width(expected.width),
        )?;
        params.push(Param {
            id: param.id,
            name: param.name.clone(),
            width: expected.width,
            sdn,
        });
    }
    Ok(Action {
        name,
        index,
        scope,
        params,
    })
}

pub fn join_counter(name: String, program: &Program) -> Result<Counter, Fault> {
    let index = program
        .counter(&name)
        .ok_or_else(|| Fault::invalid("the program has no such counter"))?;
    let size = program.counters()[index.0].size;
    Ok(Counter { name, index, size })
}

pub fn join_register(
    name: String,
    register: &info::Register,
    p4info: &info::P4Info,
    types: &Types,
    program: &Program,
) -> Result<Register, Fault> {
    let index = program
        .register(&name)
        .ok_or_else(|| Fault::invalid("the program has no such register"))?;
    let spec = &program.registers()[index.0];
    let cell = Scalar::new(
        register.type_spec.as_ref(),
        p4info.type_info.as_ref(),
        types,
    )
    .map_err(|fault| fault.at("type_spec"))?;
    if !cell.fits(spec.width) {
        let text = format!("the P4Info has {cell:?}, the program {} bits", spec.width);
        return Err(Fault::invalid(text).at("type_spec"));
    }
    Ok(Register {
        name,
        index,
        size: spec.size,
        width: spec.width,
        cell,
    })
}

/// The JSON tells the widths alone; what kinds of members there are is the P4Info's to say.
pub fn join_value_set(
    name: String,
    set: &info::ValueSet,
    types: &Types,
    program: &Program,
) -> Result<ValueSet, Fault> {
    let index = program
        .value_set(&name)
        .ok_or_else(|| Fault::invalid("the program has no such value set"))?;
    let spec = &program.value_sets()[index.0];
    if !spec.widths.is_empty() && spec.widths.len() != set.r#match.len() {
        let (info, program) = (set.r#match.len(), spec.widths.len());
        return Err(Fault::invalid(format!(
            "the P4Info has {info} match fields, the program selects by {program}"
        )));
    }
    distinct("match field", set.r#match.iter().map(|it| it.id))?;
    let mut fields = Vec::new();
    for (at, field) in set.r#match.iter().enumerate() {
        let place = format!("match field {} '{}'", field.id, field.name);
        let sdn = types.sdn(field.type_name.as_ref());
        // A set that no state selects by has no width of its own.
        let unused = field.bitwidth.unsigned_abs();
        let width = spec.widths.get(at).copied().unwrap_or(unused);
        same_width(&place, field.bitwidth, sdn.info_width(width))?;
        let kind = match_kind(field).ok_or_else(|| {
            Fault::unsupported(format!("{place}: its match kind is not supported"))
        })?;
        named_once(&place, &sdn, kind)?;
        fields.push(Field {
            id: field.id,
            name: field.name.clone(),
            width,
            kind,
            sdn,
        });
    }
    Ok(ValueSet {
        name,
        index,
        size: spec.size,
        fields,
    })
}

/// p4c writes no width, which is 0, where a field's type is an error.
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

/// The kind of the meter of `table`.
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

fn same_width(place: &str, info: i32, expected: u32) -> Result<(), Fault> {
    match info == 0 || u32::try_from(info) == Ok(expected) {
        true => Ok(()),
        false => Err(Fault::invalid(format!(
            "{place}: the P4Info has {info} bits, not {expected}"
        ))),
    }
}

/// A name has no bits to mask and no order.
fn named_once(place: &str, sdn: &Sdn, kind: MatchKind) -> Result<(), Fault> {
    match (sdn, kind) {
        (Sdn::Plain | Sdn::Bits(_), _) | (_, MatchKind::Exact | MatchKind::Optional) => Ok(()),
        (Sdn::Name(_), kind) => Err(Fault::unsupported(format!(
            "{place}: it is translated to a string, which can't be matched as {kind:?}"
        ))),
    }
}

fn match_kind(field: &info::MatchField) -> Option<MatchKind> {
    use match_field::MatchType;
    let Some(match_field::Match::MatchType(kind)) = field.r#match else {
        return None;
    };
    match MatchType::try_from(kind).ok()? {
        MatchType::Exact => Some(MatchKind::Exact),
        MatchType::Lpm => Some(MatchKind::Lpm),
        MatchType::Ternary => Some(MatchKind::Ternary),
        MatchType::Range => Some(MatchKind::Range),
        MatchType::Optional => Some(MatchKind::Optional),
        MatchType::Unspecified => None,
    }
}

/// Checks the ids of one object's parts: match fields, parameters.
///
/// # Errors
/// `INVALID_ARGUMENT` for the id 0, and for one that two parts have.
fn distinct(kind: &str, ids: impl IntoIterator<Item = u32>) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    match ids.into_iter().find(|id| *id == 0 || !seen.insert(*id)) {
        None => Ok(()),
        Some(0) => Err(Fault::invalid(format!("a {kind} has the id 0"))),
        Some(id) => Err(Fault::invalid(format!("two {kind}s have the id {id}"))),
    }
}
