//! Action profiles of the P4Info beside the program's (section 6.4.3).

use std::collections::BTreeMap;

use sluice_pipeline::{GroupSize, ProfileLimits, Program};

use super::{Action, Profile, Table};
use crate::fault::Fault;
use crate::proto::info::{self, action_profile::SelectorSizeSemantics};

/// `None` for a profile of no table, which the program does not have.
pub fn join_profile(
    name: String,
    id: u32,
    profile: &info::ActionProfile,
    tables: &BTreeMap<u32, Table>,
    program: &Program,
) -> Result<Option<Profile>, Fault> {
    let mut users = tables
        .iter()
        .filter(|(_, table)| table.profile == Some(id))
        .peekable();
    let Some((_, table)) = users.peek() else {
        return match profile.table_ids.is_empty() {
            true => Ok(None),
            false => Err(Fault::invalid("none of its tables names it")),
        };
    };
    let index = program.profile(&name);
    let index = index.ok_or_else(|| Fault::invalid("the program has no such action profile"))?;
    let spec = &program.profiles()[index.0];
    let mut actions = BTreeMap::new();
    for (action_id, action) in &table.actions {
        let shared = spec.actions.iter().copied();
        let shared = shared
            .into_iter()
            .find(|shared| program.actions()[shared.0].name == action.name);
        if let Some(index) = shared {
            let action = Action {
                index,
                ..action.clone()
            };
            actions.insert(*action_id, action);
        }
    }
    for (table_id, table) in users {
        let of_program = program.tables()[table.index.0].profile;
        if of_program != Some(index) || !profile.table_ids.contains(table_id) {
            let text = format!("table '{}' is not one of its tables", table.name);
            return Err(Fault::invalid(text));
        }
    }
    if spec.has_selector != profile.with_selector {
        return Err(Fault::invalid(
            "the P4Info and the program differ on whether it has a selector",
        ));
    }
    Ok(Some(Profile {
        name,
        index,
        actions,
        limits: limits(profile, spec.size)?,
    }))
}

fn limits(profile: &info::ActionProfile, size: u64) -> Result<ProfileLimits, Fault> {
    let measure = match &profile.selector_size_semantics {
        Some(SelectorSizeSemantics::SumOfMembers(it)) => GroupSize::SumOfMembers {
            max_weight: not_negative("max_member_weight", it.max_member_weight)?,
        },
        _ => GroupSize::SumOfWeights,
    };
    let max_group_size = not_negative("max_group_size", profile.max_group_size)?;
    if u64::from(max_group_size) > size {
        let text = format!("max_group_size {max_group_size} is above its size {size}");
        return Err(Fault::invalid(text));
    }
    Ok(ProfileLimits {
        size,
        max_group_size,
        measure,
        weights: !profile.weights_disallowed,
    })
}

fn not_negative(name: &str, value: i32) -> Result<u32, Fault> {
    u32::try_from(value).map_err(|_| Fault::invalid(format!("{name} is negative")))
}
