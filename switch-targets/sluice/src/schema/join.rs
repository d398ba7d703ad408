//! One table, action or counter of the P4Info beside the program's of the same name.

use std::collections::BTreeMap;

use sluice_pipeline::{MatchKind, Program, TableId};

use super::{Action, Counter, Field, Param, Table};
use crate::fault::Fault;
use crate::proto::info::{self, action_ref::Scope, match_field};

type Actions<'a> = BTreeMap<u32, &'a info::Action>;

pub fn join_table(
    name: String,
    table: &info::Table,
    actions: &Actions,
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
        same_width(&place, field.bitwidth, key.width)?;
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
        fields.push(Field {
            id: field.id,
            name: field.name.clone(),
            width: key.width,
            kind,
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
            join_action(action, action_ref.scope(), index, program)?,
        );
    }
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
        direct_meter: None,
        profile: spec.profile.map(|_| table.implementation_id),
        prioritised: spec.prioritised,
        name,
    })
}

fn join_action(
    action: &info::Action,
    scope: Scope,
    table: TableId,
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
        same_width(
            &format!("{place}: parameter '{}'", param.name),
            param.bitwidth,
            expected.width,
        )?;
        params.push(Param {
            id: param.id,
            name: param.name.clone(),
            width: expected.width,
        });
    }
    Ok(Action {
        name,
        index,
        scope,
        params,
    })
}

pub fn join_counter(
    name: String,
    counter: &info::Counter,
    program: &Program,
) -> Result<Counter, Fault> {
    let index = program
        .counter(&name)
        .ok_or_else(|| Fault::invalid("the program has no such counter"))?;
    let size = program.counters()[index.0].size;
    if i64::try_from(size) != Ok(counter.size) {
        return Err(Fault::invalid(format!(
            "the P4Info has size {}, the program {size}",
            counter.size
        )));
    }
    Ok(Counter { name, index, size })
}

/// The P4Info has no width for a type that is translated to a string, or is no bit string.
fn same_width(place: &str, info: i32, program: u32) -> Result<(), Fault> {
    match u32::try_from(info) {
        Ok(0) => Err(Fault::unsupported(format!(
            "{place}: its type is not supported: it must be a plain bit string"
        ))),
        Ok(width) if width == program => Ok(()),
        _ => Err(Fault::invalid(format!(
            "{place}: the P4Info has {info} bits, the program {program}"
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
