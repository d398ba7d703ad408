//! Reads of members and groups of action profiles, and of entries that use them (section 9.2).

use sluice_pipeline::{EntryAction, WeightedAction};

use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed, no_program};
use crate::p4runtime::translate::{shown_call, table_action};
use crate::proto::p4rt::{
    self, action_profile_action, action_profile_group, entity::Entity, table_action,
};
use crate::schema::{Profile, Schema, Table};

pub fn members(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::ActionProfileMember,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    let running = device.plane.lock();
    let switch = &running.as_ref().ok_or_else(no_program)?.switch;
    let before = found.len();
    for (id, profile) in profiles(&installed.schema, asked.action_profile_id)? {
        let members = switch.members(profile.index);
        let members = members.filter(|(member, _)| is_asked(asked.member_id, *member));
        found.extend(members.map(|(member_id, call)| {
            Entity::ActionProfileMember(p4rt::ActionProfileMember {
                action_profile_id: id,
                member_id,
                action: shown_call(&profile.actions, call),
            })
        }));
    }
    exists("member", asked.member_id, found.len() > before)
}

pub fn groups(
    device: &Device,
    installed: &Installed,
    asked: &p4rt::ActionProfileGroup,
    found: &mut Vec<Entity>,
) -> Result<(), Fault> {
    use action_profile_group::{Member, member::WatchKind};
    let running = device.plane.lock();
    let switch = &running.as_ref().ok_or_else(no_program)?.switch;
    let before = found.len();
    for (id, profile) in profiles(&installed.schema, asked.action_profile_id)? {
        let groups = switch.groups(profile.index);
        let groups = groups.filter(|(group, _)| is_asked(asked.group_id, *group));
        found.extend(groups.map(|(group_id, group)| {
            let members = group.members.iter().map(|member| Member {
                member_id: member.member,
                weight: number(member.weight),
                watch_kind: member
                    .watch
                    .map(|port| WatchKind::WatchPort(shown_port(port))),
            });
            Entity::ActionProfileGroup(p4rt::ActionProfileGroup {
                action_profile_id: id,
                group_id,
                members: members.collect(),
                max_size: number(group.max_size),
            })
        }));
    }
    exists("group", asked.group_id, found.len() > before)
}

/// The action of an entry of `table`; `None` for an action that the P4Info does not list for it.
pub fn shown_action(
    schema: &Schema,
    table: &Table,
    action: &EntryAction,
) -> Option<p4rt::TableAction> {
    use table_action::Type;
    let shown = match action {
        EntryAction::Run(call) => return table_action(table, call),
        EntryAction::Member(id) => Type::ActionProfileMemberId(*id),
        EntryAction::Group(id) => Type::ActionProfileGroupId(*id),
        EntryAction::OneShot(set) => {
            let profile = schema.profiles.get(&table.profile?)?;
            Type::ActionProfileActionSet(p4rt::ActionProfileActionSet {
                action_profile_actions: set
                    .iter()
                    .map(|weighted| shown_weighted(profile, weighted))
                    .collect(),
                ..Default::default()
            })
        }
    };
    Some(p4rt::TableAction {
        r#type: Some(shown),
    })
}

fn shown_weighted(profile: &Profile, weighted: &WeightedAction) -> p4rt::ActionProfileAction {
    use action_profile_action::WatchKind;
    p4rt::ActionProfileAction {
        action: shown_call(&profile.actions, &weighted.action),
        weight: number(weighted.weight),
        watch_kind: weighted
            .watch
            .map(|port| WatchKind::WatchPort(shown_port(port))),
    }
}

fn profiles(schema: &Schema, asked: u32) -> Result<Vec<(u32, &Profile)>, Fault> {
    Ok(match asked {
        0 => schema.profiles.iter().map(|(id, it)| (*id, it)).collect(),
        id => vec![(id, schema.profile(id)?)],
    })
}

fn is_asked(asked: u32, id: u32) -> bool {
    asked == 0 || asked == id
}

fn exists(kind: &str, id: u32, found: bool) -> Result<(), Fault> {
    match id == 0 || found {
        true => Ok(()),
        false => Err(Fault::not_found(format!("no {kind} has the id {id}"))),
    }
}

fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn shown_port(port: u16) -> Vec<u8> {
    match port.to_be_bytes() {
        [0, low] => vec![low],
        both => both.to_vec(),
    }
}
