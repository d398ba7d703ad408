//! Action profiles as packets meet them, with `tests/programs/selectors.p4`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sluice_pipeline::{
    ActionCall, Bits, Entry, EntryAction, ExternRegistry, Group, GroupMember, MatchValue, Outcome,
    ProfileError, ProfileId, Program, Switch, TableError, TableId, WeightedAction,
};

const JSON: &[u8] = include_bytes!("../../tests/programs/selectors.json");

struct Bench {
    switch: Switch,
    profile: ProfileId,
    balancer: ProfileId,
}

impl Bench {
    fn new() -> Bench {
        let program = Program::load(JSON).unwrap();
        let named = |name: &str| program.profile(&format!("SelectorIngress.{name}")).unwrap();
        let (profile, balancer) = (named("profile"), named("balancer"));
        let switch = Switch::new(program, &ExternRegistry::new()).unwrap();
        Bench {
            switch,
            profile,
            balancer,
        }
    }

    fn table(&self, name: &str) -> TableId {
        let name = format!("SelectorIngress.{name}");
        self.switch.program().table(&name).unwrap()
    }

    /// `to(port, member)` with the same number twice, or an action without parameters.
    fn call(&self, of: ProfileId, name: &str, number: u128) -> ActionCall {
        let program = self.switch.program();
        let listed = &program.profiles()[of.0].actions;
        let action = listed
            .iter()
            .copied()
            .find(|id| program.actions()[id.0].name.ends_with(name))
            .unwrap();
        let args = match name {
            ".to" => vec![Bits::from_u128(9, number), Bits::from_u128(8, number)],
            _ => vec![],
        };
        ActionCall { action, args }
    }

    fn member(&mut self, of: ProfileId, id: u32, name: &str, number: u128) {
        let call = self.call(of, name, number);
        self.switch.insert_member(of, id, call).unwrap();
    }

    fn point(&mut self, table: &str, key: u128, action: EntryAction) -> Result<(), TableError> {
        let entry = Entry {
            key: vec![exact(key)],
            priority: 0,
            action,
        };
        self.switch.insert(self.table(table), entry)
    }

    fn one_shot(&self, weighted: &[(u128, u32, Option<u16>)]) -> EntryAction {
        let set = weighted
            .iter()
            .map(|(number, weight, watch)| WeightedAction {
                action: self.call(self.balancer, ".to", *number),
                weight: *weight,
                watch: *watch,
            });
        EntryAction::OneShot(set.collect())
    }

    /// The port that a packet leaves at.
    fn sends(&mut self, key: u16, flow: u32) -> Option<u16> {
        let mut packet = vec![0; 64];
        packet[..2].copy_from_slice(&key.to_be_bytes());
        packet[2..6].copy_from_slice(&flow.to_be_bytes());
        let mut out = Outcome::new();
        self.switch.process(1, &packet, Duration::ZERO, &mut out);
        let sent = out.sent.first()?;
        assert_eq!(u16::from(sent.bytes[6]), sent.port);
        Some(sent.port)
    }

    fn spread(&mut self, key: u16) -> BTreeMap<Option<u16>, u32> {
        let mut spread = BTreeMap::new();
        for flow in 0..4000_u32 {
            let port = self.sends(key, flow.wrapping_mul(2_654_435_761));
            *spread.entry(port).or_default() += 1;
        }
        spread
    }
}

fn exact(key: u128) -> MatchValue {
    MatchValue::Exact(Bits::from_u128(16, key))
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

fn refused<T>(error: ProfileError) -> Result<T, TableError> {
    Err(TableError::Profile(error))
}

#[test]
fn entries_share_a_member_and_follow_its_changes() {
    let mut bench = Bench::new();
    let profile = bench.profile;
    assert_eq!(
        bench.point("by_member", 7, EntryAction::Member(1)),
        refused(ProfileError::NoMember { id: 1 })
    );
    bench.member(profile, 1, ".to", 2);
    for key in [7, 8] {
        bench
            .point("by_member", key, EntryAction::Member(1))
            .unwrap();
        assert_eq!(bench.sends(key as u16, 0), Some(2));
    }
    let drop = bench.call(profile, ".drop", 0);
    let before = bench.switch.modify_member(profile, 1, drop).unwrap();
    assert_eq!(before, bench.call(profile, ".to", 2));
    assert_eq!((bench.sends(7, 0), bench.sends(8, 0)), (None, None));
    let in_use = refused(ProfileError::MemberInUse { id: 1 });
    assert_eq!(bench.switch.delete_member(profile, 1), in_use);
    let table = bench.table("by_member");
    bench.switch.delete(table, &[exact(7)], 0).unwrap();
    assert_eq!(bench.switch.delete_member(profile, 1), in_use);
    bench.switch.delete(table, &[exact(8)], 0).unwrap();
    assert!(bench.switch.delete_member(profile, 1).is_ok());
}

#[test]
fn what_a_table_does_not_take_is_refused() {
    let mut bench = Bench::new();
    let (profile, balancer) = (bench.profile, bench.balancer);
    bench.member(profile, 1, ".to", 2);
    let call = bench.call(profile, ".to", 2);
    assert_eq!(
        bench.point("by_member", 7, EntryAction::Run(call.clone())),
        refused(ProfileError::Direct)
    );
    assert_eq!(
        bench.point("by_member", 7, EntryAction::Group(1)),
        refused(ProfileError::NoSelector)
    );
    assert_eq!(
        bench.switch.insert_group(profile, 1, &group(&[(1, 1)])),
        refused(ProfileError::NoSelector)
    );
    let entry = Entry {
        key: vec![MatchValue::Exact(Bits::from_u128(8, 0))],
        priority: 0,
        action: EntryAction::Member(1),
    };
    let rest = bench.table("rest");
    assert_eq!(bench.switch.insert(rest, entry), Err(TableError::NoProfile));
    assert!(matches!(
        bench.switch.insert_member(balancer, 1, call.clone()),
        Err(TableError::BadAction { .. })
    ));
    let by_member = bench.table("by_member");
    assert_eq!(
        bench.switch.set_default(by_member, call),
        Err(TableError::ConstDefault)
    );
}

#[test]
fn a_group_spreads_flows_by_weight_and_keeps_each() {
    let mut bench = Bench::new();
    let balancer = bench.balancer;
    for id in 1..=3 {
        bench.member(balancer, id, ".to", id.into());
    }
    bench
        .switch
        .insert_group(balancer, 5, &group(&[(1, 1), (2, 2), (3, 5)]))
        .unwrap();
    bench.point("by_group", 7, EntryAction::Group(5)).unwrap();
    let spread = bench.spread(7);
    for (port, share) in [(1, 500), (2, 1000), (3, 2500)] {
        assert!(spread[&Some(port)].abs_diff(share) < 150, "{spread:?}");
    }
    let port = bench.sends(7, 77);
    assert!((0..10).all(|_| bench.sends(7, 77) == port));

    let before = bench
        .switch
        .modify_group(balancer, 5, &group(&[(2, 1)]))
        .unwrap();
    assert_eq!(before, group(&[(1, 1), (2, 2), (3, 5)]));
    assert_eq!(bench.spread(7), BTreeMap::from([(Some(2), 4000)]));
    assert_eq!(
        bench.switch.delete_group(balancer, 5),
        refused(ProfileError::GroupInUse { id: 5 })
    );
    assert_eq!(
        bench.switch.delete_member(balancer, 2),
        refused(ProfileError::MemberInUse { id: 2 })
    );
    assert!(bench.switch.delete_member(balancer, 1).is_ok());
}

#[test]
fn tables_that_share_a_profile_each_go_on_their_own_way() {
    let mut bench = Bench::new();
    let balancer = bench.balancer;
    bench.member(balancer, 1, ".again", 0);
    bench.member(balancer, 2, ".to", 3);
    bench.point("by_group", 7, EntryAction::Member(1)).unwrap();
    let prefix = Entry {
        key: vec![MatchValue::Lpm {
            value: Bits::zero(16),
            len: 8,
        }],
        priority: 0,
        action: EntryAction::Member(2),
    };
    let by_prefix = bench.table("by_prefix");
    bench.switch.insert(by_prefix, prefix).unwrap();
    assert_eq!(bench.sends(7, 0), Some(3));
}

#[test]
fn an_empty_group_does_nothing_and_goes_on_as_no_action_does() {
    let mut bench = Bench::new();
    let balancer = bench.balancer;
    bench.switch.insert_group(balancer, 5, &group(&[])).unwrap();
    bench.point("by_group", 7, EntryAction::Group(5)).unwrap();
    assert_eq!(bench.sends(7, 0), None);
    let rest = bench.table("rest");
    let action = bench.switch.program().tables()[rest.0].actions[0];
    let entry = Entry {
        key: vec![MatchValue::Exact(Bits::zero(8))],
        priority: 0,
        action: ActionCall {
            action,
            args: vec![Bits::from_u128(9, 4), Bits::from_u128(8, 4)],
        }
        .into(),
    };
    bench.switch.insert(rest, entry).unwrap();
    assert_eq!(bench.sends(7, 0), Some(4), "an empty group");
    assert_eq!(bench.sends(9, 0), Some(4), "a miss");
}

#[test]
fn members_whose_port_is_down_are_not_taken() {
    let mut bench = Bench::new();
    let set = bench.one_shot(&[(1, 1, Some(1)), (2, 1, Some(2)), (3, 1, None)]);
    bench.point("by_group", 7, set).unwrap();
    let ports =
        |bench: &mut Bench| -> BTreeSet<_> { bench.spread(7).into_keys().flatten().collect() };
    assert_eq!(ports(&mut bench), BTreeSet::from([1, 2, 3]));
    bench.switch.set_port(1, false);
    assert_eq!(ports(&mut bench), BTreeSet::from([2, 3]));
    bench.switch.set_port(2, false);
    assert_eq!(ports(&mut bench), BTreeSet::from([3]));
    bench.switch.set_port(1, true);
    assert_eq!(ports(&mut bench), BTreeSet::from([1, 3]));
}

#[test]
fn a_one_shot_lives_and_dies_with_its_entry() {
    let mut bench = Bench::new();
    let (balancer, table) = (bench.balancer, bench.table("by_group"));
    let set = bench.one_shot(&[(1, 8, None), (2, 8, None)]);
    bench.point("by_group", 7, set.clone()).unwrap();
    assert_eq!(
        bench.switch.entries(table).next().unwrap().entry.action,
        set
    );
    assert_eq!(bench.switch.members(balancer).count(), 0);
    assert_eq!(bench.switch.groups(balancer).count(), 0);
    let call = bench.call(balancer, ".to", 1);
    assert_eq!(
        bench.switch.insert_member(balancer, 1, call.clone()),
        refused(ProfileError::OneShots)
    );
    let more = bench.one_shot(&[(1, 1, None)]);
    assert_eq!(
        bench.point("by_group", 8, more.clone()),
        refused(ProfileError::Full { size: 16 })
    );
    assert_eq!(
        bench.point("by_group", 7, more.clone()),
        refused(ProfileError::Full { size: 16 })
    );
    let other = Entry {
        key: vec![exact(7)],
        priority: 0,
        action: bench.one_shot(&[(3, 16, None)]),
    };
    bench.switch.modify(table, other).unwrap();
    assert_eq!(bench.sends(7, 0), Some(3), "it takes the old one's room");
    bench.switch.delete(table, &[exact(7)], 0).unwrap();
    bench.point("by_group", 8, more.clone()).unwrap();
    assert_eq!(
        bench.point("by_group", 8, more.clone()),
        Err(TableError::Exists)
    );
    bench.switch.delete(table, &[exact(8)], 0).unwrap();
    bench.switch.insert_member(balancer, 1, call).unwrap();
    assert_eq!(
        bench.point("by_group", 8, more),
        refused(ProfileError::NotOneShots)
    );
}

#[test]
fn malformed_profiles_are_refused_with_their_place() {
    let json = String::from_utf8(JSON.to_vec()).unwrap();
    for (from, to, place) in [
        (
            r#""algo" : "crc32""#,
            r#""algo" : "dice""#,
            "pipelines[0].action_profiles[1].selector.algo",
        ),
        (
            r#""action_profile" : "SelectorIngress.profile""#,
            r#""action_profile" : "SelectorIngress.none""#,
            "pipelines[0].tables[1].action_profile",
        ),
        (
            r#""type" : "indirect""#,
            r#""type" : "indirect_ws""#,
            "pipelines[0].tables[1].action_profile",
        ),
        (
            r#""action_ids" : [6, 10, 12, 2]"#,
            r#""action_ids" : [6, 10, 12]"#,
            "pipelines[0].tables[3].action_profile",
        ),
    ] {
        assert!(json.contains(from), "{from}");
        let error = Program::load(json.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert_eq!(error.place, place);
    }
}
