//! P4Runtime section 5.3: who becomes primary, who is told, and which bids are refused.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::p4runtime::arbitration::*;

const A: StreamId = StreamId(1);
const B: StreamId = StreamId(2);
const C: StreamId = StreamId(3);

fn with_id(id: u128) -> Bid {
    Bid {
        device_id: 1,
        role: String::new(),
        config: None,
        election_id: Some(ElectionId(id)),
    }
}

fn standby() -> Bid {
    Bid {
        election_id: None,
        ..with_id(0)
    }
}

#[test]
fn the_highest_bid_is_primary_and_all_are_told_primary_last() {
    let mut arbitration = Arbitration::new(1);
    assert_eq!(arbitration.bid(A, with_id(10)), Ok(vec![A]));
    assert_eq!(arbitration.bid(B, with_id(5)), Ok(vec![B]));
    assert_eq!(arbitration.standing(B), Some(Standing::Backup));
    assert_eq!(arbitration.bid(C, with_id(20)), Ok(vec![A, B, C]));
    assert_eq!(arbitration.standing(A), Some(Standing::Backup));
    assert!(arbitration.is_primary("", Some(ElectionId(20))));
    assert!(!arbitration.is_primary("", Some(ElectionId(10))));
}

#[test]
fn without_a_primary_only_a_bid_of_at_least_the_highest_ever_wins() {
    let mut arbitration = Arbitration::new(1);
    arbitration.bid(A, with_id(10)).unwrap();
    arbitration.bid(B, with_id(5)).unwrap();
    assert_eq!(arbitration.disconnect(A), vec![B]);
    assert_eq!(arbitration.standing(B), Some(Standing::Vacant));
    assert!(
        !arbitration.is_primary("", Some(ElectionId(10))),
        "the id of a client that has gone"
    );
    assert_eq!(arbitration.bid(B, with_id(9)), Ok(vec![B]));
    assert_eq!(arbitration.standing(B), Some(Standing::Vacant));
    assert_eq!(arbitration.bid(B, with_id(10)), Ok(vec![B]));
    assert_eq!(arbitration.standing(B), Some(Standing::Primary));
}

#[test]
fn a_primary_that_bids_lower_leaves_the_post_vacant() {
    let mut arbitration = Arbitration::new(1);
    arbitration.bid(A, with_id(10)).unwrap();
    arbitration.bid(B, with_id(5)).unwrap();
    assert_eq!(arbitration.bid(A, with_id(7)), Ok(vec![A, B]));
    assert_eq!(arbitration.primary(""), None);
    assert_eq!(arbitration.highest(""), Some(ElectionId(10)));
}

#[test]
fn a_standby_never_becomes_primary() {
    let mut arbitration = Arbitration::new(1);
    assert_eq!(arbitration.bid(A, standby()), Ok(vec![A]));
    assert_eq!(
        arbitration.bid(B, standby()),
        Ok(vec![B]),
        "two standbys do not clash"
    );
    assert_eq!(arbitration.standing(A), Some(Standing::Vacant));
    assert!(!arbitration.is_primary("", None));
}

#[test]
fn refusals_change_nothing() {
    let mut arbitration = Arbitration::new(1);
    arbitration.bid(A, with_id(10)).unwrap();
    let other_device = Bid {
        device_id: 2,
        ..with_id(11)
    };
    let role = Bid {
        role: "r".into(),
        ..with_id(11)
    };
    let changed = Refusal::RoleChanged {
        own: String::new(),
        asked: "r".into(),
    };
    let long = Bid {
        role: "r".repeat(MAX_NAME + 1),
        ..with_id(11)
    };
    let table = [
        (
            B,
            other_device.clone(),
            Refusal::UnknownDevice { own: 1, asked: 2 },
        ),
        (A, other_device, Refusal::DeviceChanged { own: 1, asked: 2 }),
        (A, role, changed),
        (B, long, Refusal::NameTooLong),
        (B, with_id(10), Refusal::ElectionIdInUse),
    ];
    for (stream, bid, refusal) in table {
        assert_eq!(arbitration.bid(stream, bid), Err(refusal));
        assert_eq!(arbitration.primary(""), Some(A));
        assert_eq!(arbitration.standing(B), None);
    }
}

#[test]
fn each_role_has_its_own_primary() {
    let mut arbitration = Arbitration::new(1);
    let of = |role: &str, id| Bid {
        role: role.into(),
        ..with_id(id)
    };
    arbitration.bid(A, with_id(10)).unwrap();
    assert_eq!(arbitration.bid(B, of("r", 10)), Ok(vec![B]));
    assert_eq!(arbitration.standing(A), Some(Standing::Primary));
    assert_eq!(arbitration.standing(B), Some(Standing::Primary));
    assert_eq!(arbitration.bid(C, of("r", 11)), Ok(vec![B, C]));
    assert!(arbitration.is_primary("r", Some(ElectionId(11))));
    assert!(!arbitration.is_primary("", Some(ElectionId(11))));
    assert_eq!(arbitration.disconnect(A), vec![]);
    assert_eq!(arbitration.primaries().count(), 1);
}

#[test]
fn roles_are_bounded_and_those_without_a_history_are_forgotten() {
    let mut arbitration = Arbitration::new(1);
    let of = |role: usize, election_id| Bid {
        role: role.to_string(),
        election_id,
        ..standby()
    };
    for n in 1..MAX_ROLES {
        arbitration.bid(A, of(n, None)).unwrap();
        arbitration.disconnect(A);
    }
    for n in 1..MAX_ROLES {
        arbitration.bid(A, of(n, Some(ElectionId(1)))).unwrap();
        arbitration.disconnect(A);
    }
    let one_more = arbitration.bid(A, of(MAX_ROLES, None));
    assert_eq!(one_more, Err(Refusal::TooManyRoles(MAX_ROLES)));
    assert!(arbitration.bid(A, with_id(1)).is_ok());
}

#[test]
fn streams_are_bounded() {
    let mut arbitration = Arbitration::new(1);
    for n in 0..MAX_STREAMS as u64 {
        arbitration.bid(StreamId(n), standby()).unwrap();
    }
    let one_more = arbitration.bid(StreamId(99), standby());
    assert_eq!(one_more, Err(Refusal::TooManyStreams(MAX_STREAMS)));
}

proptest! {
    #[test]
    fn at_most_one_primary_and_the_highest_id_only_grows(
        steps in prop::collection::vec((0_u64..6, prop::option::of(0_u128..6), any::<bool>()), 0..60)
    ) {
        let mut arbitration = Arbitration::new(1);
        let role_of = |stream: u64| if stream.is_multiple_of(2) { "" } else { "r" };
        let mut highest = BTreeMap::new();
        for (stream, id, leaves) in steps {
            let (role, id) = (role_of(stream), id.map(ElectionId));
            if leaves {
                arbitration.disconnect(StreamId(stream));
            } else {
                let bid = Bid { role: role.into(), election_id: id, ..standby() };
                let _ = arbitration.bid(StreamId(stream), bid);
            }
            for role in ["", "r"] {
                let streams = (0..6).filter(|stream| role_of(*stream) == role);
                let primaries = streams.filter(|n| arbitration.standing(StreamId(*n)) == Some(Standing::Primary));
                prop_assert!(primaries.count() <= 1);
                let before = highest.insert(role, arbitration.highest(role)).flatten();
                prop_assert!(arbitration.highest(role) >= before);
            }
        }
    }
}
