//! A profile against a naive one: lists that are searched for everything.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;

use crate::entry::{ActionCall, EntryAction, Group, GroupMember, WeightedAction};
use crate::error::ProfileError;
use crate::expr::Args;
use crate::profile::{GroupSize, Profile, ProfileLimits, Reference};
use crate::spec::{ActionId, ProfileSpec};

const SIZE: u64 = 8;
const MOST: u32 = 5;

#[derive(Clone, Debug)]
enum Step {
    InsertMember(u32),
    DeleteMember(u32),
    InsertGroup(u32, Vec<(u32, u32)>),
    ModifyGroup(u32, Vec<(u32, u32)>),
    DeleteGroup(u32),
    Point(EntryAction),
    /// Entry `.0` of those that there are.
    Repoint(usize, EntryAction),
    Remove(usize),
}

fn call() -> ActionCall {
    ActionCall {
        action: ActionId(0),
        args: Vec::new(),
    }
}

fn group(members: &[(u32, u32)]) -> Group {
    let members = members.iter().map(|(member, weight)| GroupMember {
        member: *member,
        weight: *weight,
        watch: None,
    });
    Group {
        members: members.collect(),
        max_size: 0,
    }
}

fn entry_action() -> BoxedStrategy<EntryAction> {
    let set = prop::collection::vec(0..4_u32, 0..4).prop_map(|weights| {
        let weighted = weights.into_iter().map(|weight| WeightedAction {
            action: call(),
            weight,
            watch: None,
        });
        EntryAction::OneShot(weighted.collect())
    });
    let id = 0..4_u32;
    prop_oneof![
        id.clone().prop_map(EntryAction::Member),
        id.prop_map(EntryAction::Group),
        set,
    ]
    .boxed()
}

fn step() -> BoxedStrategy<Step> {
    let id = 0..4_u32;
    let members = prop::collection::vec((0..4_u32, 0..4_u32), 0..4);
    prop_oneof![
        id.clone().prop_map(Step::InsertMember),
        id.clone().prop_map(Step::DeleteMember),
        (id.clone(), members.clone()).prop_map(|(id, members)| Step::InsertGroup(id, members)),
        (id.clone(), members).prop_map(|(id, members)| Step::ModifyGroup(id, members)),
        id.prop_map(Step::DeleteGroup),
        entry_action().prop_map(Step::Point),
        (0..4_usize, entry_action()).prop_map(|(at, action)| Step::Repoint(at, action)),
        (0..4_usize).prop_map(Step::Remove),
    ]
    .boxed()
}

#[derive(Clone, Debug, Default)]
struct Naive {
    members: Vec<u32>,
    groups: Vec<(u32, Vec<(u32, u32)>)>,
    entries: Vec<EntryAction>,
}

fn sum(weights: impl Iterator<Item = u32>) -> u64 {
    weights.map(u64::from).sum()
}

impl Naive {
    fn valid(&self) -> bool {
        let one_shots = self
            .entries
            .iter()
            .any(|entry| matches!(entry, EntryAction::OneShot(_)));
        if one_shots && !(self.members.is_empty() && self.groups.is_empty()) {
            return false;
        }
        let sets = self.entries.iter().filter_map(|entry| match entry {
            EntryAction::OneShot(set) => Some(set.iter().map(|it| it.weight).collect()),
            _ => None,
        });
        let weights: Vec<Vec<u32>> = self
            .groups
            .iter()
            .map(|(_, members)| members.iter().map(|(_, weight)| *weight).collect())
            .chain(sets)
            .collect();
        let sums = || weights.iter().map(|group| sum(group.iter().copied()));
        let unique = |ids: Vec<u32>| {
            let mut sorted = ids.clone();
            sorted.sort_unstable();
            sorted.dedup();
            sorted.len() == ids.len()
        };
        let members_of = |group: &(u32, Vec<(u32, u32)>)| group.1.iter().map(|it| it.0).collect();
        weights.iter().flatten().all(|weight| *weight > 0)
            && sums().all(|sum| sum <= MOST.into())
            && sums().sum::<u64>() <= SIZE
            && unique(self.members.clone())
            && unique(self.groups.iter().map(|group| group.0).collect())
            && self.groups.iter().map(members_of).all(unique)
            && self
                .groups
                .iter()
                .flat_map(|group| &group.1)
                .all(|(member, _)| self.members.contains(member))
            && self.entries.iter().all(|entry| match entry {
                EntryAction::Member(id) => self.members.contains(id),
                EntryAction::Group(id) => self.groups.iter().any(|group| group.0 == *id),
                _ => true,
            })
    }

    /// The state after the step; `None` when the step's object is not there.
    fn after(&self, step: &Step) -> Option<Naive> {
        let mut after = self.clone();
        match step.clone() {
            Step::InsertMember(id) => after.members.push(id),
            Step::DeleteMember(id) => {
                let at = after.members.iter().position(|member| *member == id)?;
                after.members.remove(at);
            }
            Step::InsertGroup(id, members) => after.groups.push((id, members)),
            Step::ModifyGroup(id, members) => {
                after.groups.iter_mut().find(|group| group.0 == id)?.1 = members;
            }
            Step::DeleteGroup(id) => {
                let at = after.groups.iter().position(|group| group.0 == id)?;
                after.groups.remove(at);
            }
            Step::Point(action) => after.entries.push(action),
            Step::Repoint(at, action) => *after.entries.get_mut(at)? = action,
            Step::Remove(at) => {
                after.entries.get(at)?;
                after.entries.remove(at);
            }
        }
        after.valid().then_some(after)
    }
}

fn take(
    profile: &mut Profile,
    references: &mut Vec<Reference>,
    step: &Step,
) -> Result<(), ProfileError> {
    let none = |_: &ActionCall| Ok::<_, ProfileError>(Args::default());
    match step {
        Step::InsertMember(id) => profile.insert_member(*id, call(), Args::default()),
        Step::DeleteMember(id) => profile.delete_member(*id).map(drop),
        Step::InsertGroup(id, members) => profile.insert_group(*id, &group(members)),
        Step::ModifyGroup(id, members) => profile.modify_group(*id, &group(members)).map(drop),
        Step::DeleteGroup(id) => profile.delete_group(*id).map(drop),
        Step::Point(action) => {
            references.push(profile.acquire(action, None, none)?);
            Ok(())
        }
        Step::Repoint(at, action) => {
            references[*at] = profile.acquire(action, Some(references[*at]), none)?;
            Ok(())
        }
        Step::Remove(at) => {
            profile.release(references.remove(*at));
            Ok(())
        }
    }
}

fn empty() -> Profile {
    let spec = ProfileSpec {
        name: String::new(),
        size: SIZE,
        has_selector: true,
        actions: Vec::new(),
    };
    let mut profile = spec.empty();
    profile.limit(ProfileLimits {
        size: SIZE,
        max_group_size: MOST,
        measure: GroupSize::SumOfWeights,
        weights: true,
    });
    profile
}

proptest! {
    #[test]
    fn a_profile_takes_what_keeps_it_consistent_and_nothing_else(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let (mut profile, mut naive, mut references) = (empty(), Naive::default(), Vec::new());
        for step in steps {
            if let Step::Repoint(at, _) | Step::Remove(at) = &step
                && *at >= references.len()
            {
                continue;
            }
            let expected = naive.after(&step);
            let taken = take(&mut profile, &mut references, &step);
            prop_assert_eq!(taken.is_ok(), expected.is_some(), "{:?}: {:?}", step, taken);
            naive = expected.unwrap_or(naive);
            let mut members = naive.members.clone();
            members.sort_unstable();
            prop_assert_eq!(profile.members().map(|(id, _)| id).collect::<Vec<_>>(), members);
            let mut groups = naive.groups.clone();
            groups.sort_unstable();
            let groups: Vec<_> = groups.iter().map(|(id, members)| (*id, group(members))).collect();
            prop_assert_eq!(profile.groups().collect::<Vec<_>>(), groups);
        }
    }

    #[test]
    fn every_hash_takes_a_live_member_as_often_as_its_weight(
        weights in prop::collection::vec(1..5_u32, 1..5), down in 0..5_u16
    ) {
        let mut profile = empty();
        profile.limit(ProfileLimits {
            size: 64,
            max_group_size: 0,
            measure: GroupSize::SumOfMembers { max_weight: 0 },
            weights: true,
        });
        let set = weights.iter().enumerate().map(|(port, weight)| WeightedAction {
            action: ActionCall { action: ActionId(port), args: Vec::new() },
            weight: *weight,
            watch: Some(port as u16),
        });
        profile.set_port(down, false);
        let none = |_: &ActionCall| Ok::<_, ProfileError>(Args::default());
        let reference = profile.acquire(&EntryAction::OneShot(set.collect()), None, none).unwrap();
        let live = || weights.iter().enumerate().filter(|(port, _)| *port != usize::from(down));
        let total = sum(live().map(|(_, weight)| *weight));
        let mut seen = vec![0; weights.len()];
        for hash in 7 * total..8 * total {
            let member = profile.resolve(reference, || hash).unwrap();
            seen[member.call.action.0] += 1;
        }
        prop_assert_eq!(profile.resolve(reference, || 0).is_none(), total == 0);
        for (port, weight) in live() {
            prop_assert_eq!(seen[port], *weight);
        }
    }
}
