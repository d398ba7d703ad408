//! Action profiles as a control plane writes and reads them.

use crate::entry::{ActionCall, EntryAction, Group};
use crate::error::TableError;
use crate::expr::Args;
use crate::profile::{Profile, ProfileLimits, Reference};
use crate::program::Program;
use crate::spec::{ProfileId, TableSpec};
use crate::switch::Switch;
use crate::table::bind_args;

impl Switch {
    /// Limits an empty profile. The program itself declares its size only.
    pub fn limit_profile(
        &mut self,
        profile: ProfileId,
        limits: ProfileLimits,
    ) -> Result<(), TableError> {
        self.profile_mut(profile)?.limit(limits);
        Ok(())
    }

    pub fn insert_member(
        &mut self,
        profile: ProfileId,
        id: u32,
        call: ActionCall,
    ) -> Result<(), TableError> {
        let args = bind_member(&self.program, profile, &call)?;
        Ok(self.profile_mut(profile)?.insert_member(id, call, args)?)
    }

    /// Gives a member another action, in all groups and entries. Returns the one that it had.
    pub fn modify_member(
        &mut self,
        profile: ProfileId,
        id: u32,
        call: ActionCall,
    ) -> Result<ActionCall, TableError> {
        let args = bind_member(&self.program, profile, &call)?;
        Ok(self.profile_mut(profile)?.modify_member(id, call, args)?)
    }

    /// Returns the action that it had.
    pub fn delete_member(&mut self, profile: ProfileId, id: u32) -> Result<ActionCall, TableError> {
        Ok(self.profile_mut(profile)?.delete_member(id)?)
    }

    pub fn insert_group(
        &mut self,
        profile: ProfileId,
        id: u32,
        group: &Group,
    ) -> Result<(), TableError> {
        Ok(self.profile_mut(profile)?.insert_group(id, group)?)
    }

    /// Returns the group as it was.
    pub fn modify_group(
        &mut self,
        profile: ProfileId,
        id: u32,
        group: &Group,
    ) -> Result<Group, TableError> {
        Ok(self.profile_mut(profile)?.modify_group(id, group)?)
    }

    /// Returns the group as it was.
    pub fn delete_group(&mut self, profile: ProfileId, id: u32) -> Result<Group, TableError> {
        Ok(self.profile_mut(profile)?.delete_group(id)?)
    }

    /// Members in the order of their ids, without those of one-shots. An unknown profile has none.
    pub fn members(&self, profile: ProfileId) -> impl Iterator<Item = (u32, &ActionCall)> {
        self.profiles
            .get(profile.0)
            .into_iter()
            .flat_map(Profile::members)
    }

    /// Groups in the order of their ids, without those of one-shots. An unknown profile has none.
    pub fn groups(&self, profile: ProfileId) -> impl Iterator<Item = (u32, Group)> {
        self.profiles
            .get(profile.0)
            .into_iter()
            .flat_map(Profile::groups)
    }

    /// Members that watch a port are taken only while it is up. All are up at first.
    pub fn set_port(&mut self, port: u16, up: bool) {
        for profile in &mut self.profiles {
            profile.set_port(port, up);
        }
    }

    fn profile_mut(&mut self, profile: ProfileId) -> Result<&mut Profile, TableError> {
        self.profiles
            .get_mut(profile.0)
            .ok_or(TableError::NoSuchObject)
    }
}

/// The new reference of an entry with `action` in place of `before`, if `spec` is of a table with an action profile.
pub fn acquire(
    profiles: &mut [Profile],
    program: &Program,
    spec: &TableSpec,
    action: &EntryAction,
    before: Option<Reference>,
) -> Result<Option<Reference>, TableError> {
    let Some(profile) = spec.profile else {
        return Ok(None);
    };
    let bind = |call: &ActionCall| bind_member(program, profile, call);
    profiles[profile.0].acquire(action, before, bind).map(Some)
}

pub fn release(profiles: &mut [Profile], spec: &TableSpec, reference: Option<Reference>) {
    if let (Some(profile), Some(reference)) = (spec.profile, reference) {
        profiles[profile.0].release(reference);
    }
}

fn bind_member(
    program: &Program,
    profile: ProfileId,
    call: &ActionCall,
) -> Result<Args, TableError> {
    let spec = program
        .profiles()
        .get(profile.0)
        .ok_or(TableError::NoSuchObject)?;
    let args = bind_args(program.actions(), &program.ir, call)?;
    match spec.actions.contains(&call.action) {
        true => Ok(args),
        false => Err(TableError::BadAction {
            action: program.actions()[call.action.0].name.clone(),
        }),
    }
}
