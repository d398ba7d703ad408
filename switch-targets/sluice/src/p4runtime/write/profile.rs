//! Writes to members and groups of action profiles, and what entries take from them (section 9.2).

use sluice_pipeline::{EntryAction, Group, GroupMember, GroupSize, ProfileLimits, WeightedAction};

use super::on_switch::on_switch;
use crate::dataplane::plane::DataPlane;
use crate::fault::Fault;
use crate::p4runtime::state::{Device, Installed};
use crate::p4runtime::translate::{action_call, call_of};
use crate::proto::p4rt::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
use crate::proto::p4rt::{
    self, action_profile_action, action_profile_group, table_action, update::Type,
};
use crate::schema::{Profile, Schema, Table};

pub fn member(
    device: &Device,
    installed: &Installed,
    kind: Type,
    member: &p4rt::ActionProfileMember,
) -> Result<(), Fault> {
    let profile = installed.schema.profile(member.action_profile_id)?;
    let (index, id) = (profile.index, member.member_id);
    let place =
        |fault: Fault| fault.at(&format!("member {id} of action profile '{}'", profile.name));
    if id == 0 {
        return Err(place(Fault::invalid("the id must not be 0")));
    }
    if kind == Type::Delete {
        return on_switch(device, |switch| switch.delete_member(index, id).map(drop))
            .map_err(place);
    }
    let action = member.action.as_ref();
    let action = action.ok_or_else(|| place(Fault::invalid("the action is not set")))?;
    let call = call_of(&profile.actions, action, false).map_err(place)?;
    on_switch(device, |switch| match kind {
        Type::Insert => switch.insert_member(index, id, call),
        _ => switch.modify_member(index, id, call).map(drop),
    })
    .map_err(place)
}

pub fn group(
    device: &Device,
    installed: &Installed,
    kind: Type,
    group: &p4rt::ActionProfileGroup,
) -> Result<(), Fault> {
    let profile = installed.schema.profile(group.action_profile_id)?;
    let (index, id) = (profile.index, group.group_id);
    let place =
        |fault: Fault| fault.at(&format!("group {id} of action profile '{}'", profile.name));
    if id == 0 {
        return Err(place(Fault::invalid("the id must not be 0")));
    }
    if kind == Type::Delete {
        return on_switch(device, |switch| switch.delete_group(index, id).map(drop)).map_err(place);
    }
    let wanted = wanted(&device.plane, group).map_err(place)?;
    on_switch(device, |switch| match kind {
        Type::Insert => switch.insert_group(index, id, &wanted),
        _ => switch.modify_group(index, id, &wanted).map(drop),
    })
    .map_err(place)
}

fn wanted(plane: &DataPlane, group: &p4rt::ActionProfileGroup) -> Result<Group, Fault> {
    use action_profile_group::member::WatchKind;
    let max_size = u32::try_from(group.max_size)
        .map_err(|_| Fault::invalid(format!("max_size {} is negative", group.max_size)))?;
    let member = |member: &action_profile_group::Member| {
        let place = format!("member {}", member.member_id);
        let watch = match &member.watch_kind {
            Some(WatchKind::WatchPort(port)) => watch_port(plane, port),
            Some(_) => Err(deprecated_watch()),
            None => Ok(None),
        };
        Ok(GroupMember {
            member: member.member_id,
            weight: weight(member.weight).map_err(|fault| fault.at(&place))?,
            watch: watch.map_err(|fault| fault.at(&place))?,
        })
    };
    Ok(Group {
        members: group.members.iter().map(member).collect::<Result<_, _>>()?,
        max_size,
    })
}

/// Translates the action of an entry of `table`.
///
/// # Errors
/// `INVALID_ARGUMENT` for an action of another form than the table's, and as [`action_call`].
pub fn entry_action(
    plane: &DataPlane,
    schema: &Schema,
    table: &Table,
    action: &p4rt::TableAction,
) -> Result<EntryAction, Fault> {
    use table_action::Type;
    let Some(profile) = table.profile else {
        return action_call(table, action, false).map(EntryAction::Run);
    };
    let place = |fault: Fault| fault.at(&format!("table '{}'", table.name));
    match &action.r#type {
        Some(Type::ActionProfileMemberId(id)) => Ok(EntryAction::Member(*id)),
        Some(Type::ActionProfileGroupId(id)) => Ok(EntryAction::Group(*id)),
        Some(Type::ActionProfileActionSet(set)) => {
            let profile = schema.profile(profile)?;
            one_shot(plane, profile, set)
                .map(EntryAction::OneShot)
                .map_err(place)
        }
        Some(Type::Action(_)) | None => Err(place(Fault::invalid(
            "the table has an action profile: its entries name a member or a group, or bring an action set",
        ))),
    }
}

fn one_shot(
    plane: &DataPlane,
    profile: &Profile,
    set: &p4rt::ActionProfileActionSet,
) -> Result<Vec<WeightedAction>, Fault> {
    use action_profile_action::WatchKind;
    if set.group_action.is_some() {
        return Err(Fault::unsupported("group_action is not supported"));
    }
    check_modes(set, profile.limits)?;
    let weighted = |(at, one): (usize, &p4rt::ActionProfileAction)| {
        let place = |fault: Fault| fault.at(&format!("action {at} of the set"));
        let action = one.action.as_ref();
        let action = action.ok_or_else(|| place(Fault::invalid("it is not set")))?;
        let watch = match &one.watch_kind {
            Some(WatchKind::WatchPort(port)) => watch_port(plane, port),
            Some(_) => Err(deprecated_watch()),
            None => Ok(None),
        };
        Ok(WeightedAction {
            action: call_of(&profile.actions, action, false).map_err(place)?,
            weight: weight(one.weight).map_err(place)?,
            watch: watch.map_err(place)?,
        })
    };
    let actions = set.action_profile_actions.iter().enumerate();
    actions.map(weighted).collect()
}

/// Checks that the modes of an action set are the profile's own.
fn check_modes(set: &p4rt::ActionProfileActionSet, limits: ProfileLimits) -> Result<(), Fault> {
    let unknown = |name: &str, value| Fault::invalid(format!("{name} {value} is not known"));
    let mode = ActionSelectionMode::try_from(set.action_selection_mode)
        .map_err(|_| unknown("action_selection_mode", set.action_selection_mode))?;
    let size = SizeSemantics::try_from(set.size_semantics)
        .map_err(|_| unknown("size_semantics", set.size_semantics))?;
    let same_size = match size {
        SizeSemantics::DefaultSizeDeterminedByActionSelector => true,
        SizeSemantics::SumOfWeights => limits.measure == GroupSize::SumOfWeights,
        SizeSemantics::SumOfMembers => limits.measure != GroupSize::SumOfWeights,
    };
    match mode {
        ActionSelectionMode::Random => Err(Fault::unsupported(
            "action_selection_mode RANDOM is not supported",
        )),
        _ if !same_size => Err(Fault::unsupported(
            "size_semantics other than the action profile's are not supported",
        )),
        _ => Ok(()),
    }
}

fn weight(weight: i32) -> Result<u32, Fault> {
    u32::try_from(weight).map_err(|_| Fault::invalid(format!("weight {weight} is negative")))
}

fn deprecated_watch() -> Fault {
    Fault::unsupported("watch is not supported: use watch_port")
}

fn watch_port(plane: &DataPlane, port: &[u8]) -> Result<Option<u16>, Fault> {
    if port.is_empty() {
        return Ok(None);
    }
    let number = port.iter().try_fold(0_u16, |number, byte| {
        Some(number.checked_mul(256)? + u16::from(*byte))
    });
    match number.filter(|number| plane.has_port(*number)) {
        Some(number) => Ok(Some(number)),
        None => Err(Fault::invalid(format!(
            "watch_port {port:02x?} is not a port of this switch"
        ))),
    }
}
