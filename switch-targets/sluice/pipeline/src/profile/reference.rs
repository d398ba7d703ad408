//! References of entries to a profile: to members and groups by id, or to a group of their own.

use crate::entry::{ActionCall, EntryAction, WeightedAction};
use crate::error::ProfileError;
use crate::expr::Args;
use crate::profile::{Choice, Member, ONE_SHOTS, Profile, Reference, Weighted, live};

impl Profile {
    /// The new reference of an entry with `action`, in place of `before`. `bind` readies an action.
    pub fn acquire<E: From<ProfileError>>(
        &mut self,
        action: &EntryAction,
        before: Option<Reference>,
        bind: impl Fn(&ActionCall) -> Result<Args, E>,
    ) -> Result<Reference, E> {
        let reference = match action {
            EntryAction::Run(_) => return Err(ProfileError::Direct.into()),
            EntryAction::Member(id) => {
                let member = self.members.get_mut(&u64::from(*id));
                member.ok_or(ProfileError::NoMember { id: *id })?.users += 1;
                Reference::Member(u64::from(*id))
            }
            EntryAction::Group(id) => {
                if !self.has_selector {
                    return Err(ProfileError::NoSelector.into());
                }
                let group = self.groups.get_mut(&u64::from(*id));
                group.ok_or(ProfileError::NoGroup { id: *id })?.users += 1;
                Reference::Group(u64::from(*id))
            }
            EntryAction::OneShot(set) => {
                self.check_one_shot(set, before)?;
                let args = set.iter().map(|weighted| bind(&weighted.action));
                let args = args.collect::<Result<Vec<_>, E>>()?;
                self.put_one_shot(set, args)
            }
        };
        if let Some(before) = before {
            self.release(before);
        }
        Ok(reference)
    }

    /// An entry points to this no more.
    pub fn release(&mut self, reference: Reference) {
        match reference {
            Reference::Member(member) => self.let_go(member),
            Reference::Group(group) if group < ONE_SHOTS => {
                if let Some(choice) = self.groups.get_mut(&group) {
                    choice.users = choice.users.saturating_sub(1);
                }
            }
            Reference::Group(group) => {
                for weighted in self.take_group(group) {
                    self.members.remove(&weighted.member);
                }
                self.one_shots -= 1;
            }
        }
    }

    fn check_one_shot(
        &self,
        set: &[WeightedAction],
        before: Option<Reference>,
    ) -> Result<(), ProfileError> {
        if !self.has_selector {
            return Err(ProfileError::NoSelector);
        }
        // Members and groups that belong to no one-shot were written by themselves.
        if self.one_shots == 0 && !(self.members.is_empty() && self.groups.is_empty()) {
            return Err(ProfileError::NotOneShots);
        }
        for weighted in set {
            self.limits.check_weight(weighted.weight)?;
        }
        let size = self
            .limits
            .measure(set.iter().map(|weighted| weighted.weight));
        let most = self.limits.max_group_size;
        if most > 0 && size > u64::from(most) {
            return Err(ProfileError::SetTooLarge { size, most });
        }
        let freed = match before {
            Some(Reference::Group(group)) => self.groups.get(&group).map_or(0, |choice| {
                self.limits
                    .measure(choice.members.iter().map(|weighted| weighted.weight))
            }),
            _ => 0,
        };
        self.fits(size, freed)
    }

    fn put_one_shot(&mut self, set: &[WeightedAction], args: Vec<Args>) -> Reference {
        let mut members = Vec::new();
        for (weighted, args) in set.iter().zip(args) {
            let member = Member {
                call: weighted.action.clone(),
                args,
                users: 1,
            };
            members.push(Weighted {
                member: self.next,
                weight: weighted.weight,
                watch: weighted.watch,
            });
            self.members.insert(self.next, member);
            self.next += 1;
        }
        self.used += self
            .limits
            .measure(members.iter().map(|weighted| weighted.weight));
        let key = self.next;
        self.next += 1;
        let choice = Choice {
            live: live(&members, &self.down),
            members,
            max_size: 0,
            users: 1,
        };
        self.groups.insert(key, choice);
        self.one_shots += 1;
        Reference::Group(key)
    }
}
