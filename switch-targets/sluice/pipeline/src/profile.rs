//! Action profiles: members that entries share, and groups of which a selector takes one member for each flow.
//!
//! ```text
//!  entry ─┬─────────────────────────────► member ─► action, arguments
//!         └─► group ── hash, weights, ──────▲
//!              ▲       ports that are up    │
//!  entry ──────┴─ a one-shot: group and members of its own ─┘
//! ```

mod limits;
mod reference;

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;

use crate::entry::{ActionCall, Group, GroupMember};
use crate::error::ProfileError;
use crate::expr::Args;
use crate::spec::ProfileSpec;

pub use limits::{GroupSize, ProfileLimits};

/// Ids that a control plane gives are below; those of one-shots count on from here.
pub const ONE_SHOTS: u64 = 1 << 32;

/// The target of an entry in its table's profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    Member(u64),
    Group(u64),
}

/// A member's action, ready to run.
#[derive(Clone, Debug)]
pub struct Member {
    pub call: ActionCall,
    pub args: Args,
    /// Groups that have it, and entries that name it.
    users: usize,
}

#[derive(Debug)]
struct Choice {
    members: Vec<Weighted>,
    max_size: u32,
    /// Entries that name it.
    users: usize,
    /// The members that can be taken, each with the sum of weights up to and with it.
    live: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Weighted {
    member: u64,
    weight: u32,
    watch: Option<u16>,
}

#[derive(Debug)]
pub struct Profile {
    has_selector: bool,
    limits: ProfileLimits,
    members: HashMap<u64, Member, RandomState>,
    groups: HashMap<u64, Choice, RandomState>,
    /// Sum of the groups' sizes.
    used: u64,
    one_shots: usize,
    next: u64,
    down: BTreeSet<u16>,
}

impl ProfileSpec {
    pub(crate) fn empty(&self) -> Profile {
        Profile {
            has_selector: self.has_selector,
            limits: ProfileLimits {
                size: self.size,
                max_group_size: 0,
                measure: GroupSize::SumOfWeights,
                weights: true,
            },
            members: HashMap::default(),
            groups: HashMap::default(),
            used: 0,
            one_shots: 0,
            next: ONE_SHOTS,
            down: BTreeSet::new(),
        }
    }
}

impl Profile {
    pub fn limit(&mut self, limits: ProfileLimits) {
        self.limits = limits;
    }

    /// The member that a packet takes, whose hash decides within a group; `None` when no member of it is live.
    pub fn resolve(&self, reference: Reference, hash: impl FnOnce() -> u64) -> Option<&Member> {
        let member = match reference {
            Reference::Member(member) => member,
            Reference::Group(group) => {
                let live = &self.groups.get(&group)?.live;
                let at = hash() % live.last()?.0;
                live[live.partition_point(|(end, _)| *end <= at)].1
            }
        };
        self.members.get(&member)
    }

    /// Members in the order of their ids; without those of one-shots.
    pub fn members(&self) -> impl Iterator<Item = (u32, &ActionCall)> {
        let mut members: Vec<_> = self
            .members
            .iter()
            .filter_map(|(id, member)| Some((u32::try_from(*id).ok()?, &member.call)))
            .collect();
        members.sort_unstable_by_key(|(id, _)| *id);
        members.into_iter()
    }

    /// Groups in the order of their ids; without those of one-shots.
    pub fn groups(&self) -> impl Iterator<Item = (u32, Group)> {
        let mut groups: Vec<_> = self
            .groups
            .iter()
            .filter_map(|(id, choice)| Some((u32::try_from(*id).ok()?, choice.group())))
            .collect();
        groups.sort_unstable_by_key(|(id, _)| *id);
        groups.into_iter()
    }

    pub fn insert_member(
        &mut self,
        id: u32,
        call: ActionCall,
        args: Args,
    ) -> Result<(), ProfileError> {
        self.not_one_shot()?;
        if self.members.contains_key(&id.into()) {
            return Err(ProfileError::MemberExists { id });
        }
        if self.members.len() as u64 >= self.limits.size {
            return Err(ProfileError::Full {
                size: self.limits.size,
            });
        }
        let member = Member {
            call,
            args,
            users: 0,
        };
        self.members.insert(id.into(), member);
        Ok(())
    }

    /// Returns what the member did before.
    pub fn modify_member(
        &mut self,
        id: u32,
        call: ActionCall,
        args: Args,
    ) -> Result<ActionCall, ProfileError> {
        let member = self.members.get_mut(&id.into());
        let member = member.ok_or(ProfileError::NoMember { id })?;
        member.args = args;
        Ok(std::mem::replace(&mut member.call, call))
    }

    /// Returns what the member did.
    pub fn delete_member(&mut self, id: u32) -> Result<ActionCall, ProfileError> {
        match self.members.get(&id.into()) {
            None => return Err(ProfileError::NoMember { id }),
            Some(member) if member.users > 0 => return Err(ProfileError::MemberInUse { id }),
            Some(_) => {}
        }
        let removed = self.members.remove(&id.into());
        removed
            .map(|member| member.call)
            .ok_or(ProfileError::NoMember { id })
    }

    pub fn insert_group(&mut self, id: u32, group: &Group) -> Result<(), ProfileError> {
        self.not_one_shot()?;
        if !self.has_selector {
            return Err(ProfileError::NoSelector);
        }
        if self.groups.contains_key(&id.into()) {
            return Err(ProfileError::GroupExists { id });
        }
        let most = self.limits.max_group_size;
        if most > 0 && group.max_size > most {
            return Err(ProfileError::BadMaxSize { most });
        }
        let size = self.size_of_group(group, 0)?;
        if self.groups.len() as u64 >= self.limits.size
            || u64::from(group.max_size) > self.limits.size
        {
            return Err(ProfileError::Full {
                size: self.limits.size,
            });
        }
        self.put_group(id, group, size, 0);
        Ok(())
    }

    /// Returns the group as it was.
    pub fn modify_group(&mut self, id: u32, group: &Group) -> Result<Group, ProfileError> {
        let old = self.group(id)?;
        if old.max_size != group.max_size {
            return Err(ProfileError::OtherMaxSize { was: old.max_size });
        }
        let (before, users) = (old.group(), old.users);
        let size = self.size_of_group(group, self.size(&before))?;
        self.take_group(id.into());
        self.put_group(id, group, size, users);
        Ok(before)
    }

    /// Returns the group as it was.
    pub fn delete_group(&mut self, id: u32) -> Result<Group, ProfileError> {
        let old = self.group(id)?;
        if old.users > 0 {
            return Err(ProfileError::GroupInUse { id });
        }
        let before = old.group();
        self.take_group(id.into());
        Ok(before)
    }

    /// Members that watch this port are taken only while it is up.
    pub fn set_port(&mut self, port: u16, up: bool) {
        let changed = match up {
            true => self.down.remove(&port),
            false => self.down.insert(port),
        };
        if changed {
            for choice in self.groups.values_mut() {
                choice.live = live(&choice.members, &self.down);
            }
        }
    }

    fn group(&self, id: u32) -> Result<&Choice, ProfileError> {
        let group = self.groups.get(&id.into());
        group.ok_or(ProfileError::NoGroup { id })
    }

    fn not_one_shot(&self) -> Result<(), ProfileError> {
        match self.one_shots {
            0 => Ok(()),
            _ => Err(ProfileError::OneShots),
        }
    }

    fn size(&self, group: &Group) -> u64 {
        self.limits
            .measure(group.members.iter().map(|member| member.weight))
    }

    fn fits(&self, size: u64, freed: u64) -> Result<(), ProfileError> {
        match self.used - freed + size > self.limits.size {
            true => Err(ProfileError::Full {
                size: self.limits.size,
            }),
            false => Ok(()),
        }
    }

    /// `freed` is the size of the group that this one replaces.
    fn size_of_group(&self, group: &Group, freed: u64) -> Result<u64, ProfileError> {
        let mut ids = BTreeSet::new();
        for member in &group.members {
            let id = member.member;
            self.limits.check_weight(member.weight)?;
            if !self.members.contains_key(&id.into()) {
                return Err(ProfileError::NoMember { id });
            }
            if !ids.insert(id) {
                return Err(ProfileError::MemberTwice { id });
            }
        }
        let size = self.size(group);
        let most = match group.max_size {
            0 => self.limits.max_group_size,
            most => most,
        };
        if most > 0 && size > u64::from(most) {
            return Err(ProfileError::GroupFull { size, most });
        }
        self.fits(size, freed)?;
        Ok(size)
    }

    fn put_group(&mut self, id: u32, group: &Group, size: u64, users: usize) {
        let members: Vec<_> = group.members.iter().map(Weighted::from).collect();
        for weighted in &members {
            if let Some(member) = self.members.get_mut(&weighted.member) {
                member.users += 1;
            }
        }
        self.used += size;
        let choice = Choice {
            live: live(&members, &self.down),
            members,
            max_size: group.max_size,
            users,
        };
        self.groups.insert(id.into(), choice);
    }

    /// Removes a group, and returns the members that it had.
    fn take_group(&mut self, key: u64) -> Vec<Weighted> {
        let members = self
            .groups
            .remove(&key)
            .map_or(Vec::new(), |choice| choice.members);
        self.used -= self
            .limits
            .measure(members.iter().map(|weighted| weighted.weight));
        for weighted in &members {
            self.let_go(weighted.member);
        }
        members
    }

    fn let_go(&mut self, member: u64) {
        if let Some(member) = self.members.get_mut(&member) {
            member.users = member.users.saturating_sub(1);
        }
    }
}

impl Choice {
    fn group(&self) -> Group {
        let members = self.members.iter().map(|weighted| GroupMember {
            // A named group has named members.
            member: weighted.member as u32,
            weight: weighted.weight,
            watch: weighted.watch,
        });
        Group {
            members: members.collect(),
            max_size: self.max_size,
        }
    }
}

impl From<&GroupMember> for Weighted {
    fn from(member: &GroupMember) -> Weighted {
        Weighted {
            member: member.member.into(),
            weight: member.weight,
            watch: member.watch,
        }
    }
}

fn live(members: &[Weighted], down: &BTreeSet<u16>) -> Vec<(u64, u64)> {
    let up = members
        .iter()
        .filter(|member| member.watch.is_none_or(|port| !down.contains(&port)));
    let mut end = 0;
    up.map(|member| {
        end += u64::from(member.weight.max(1));
        (end, member.member)
    })
    .collect()
}
