use std::time::{Duration, Instant};

use culvert_admission::Denials;

const KEEP: Duration = Duration::from_secs(86_400);
const TOLD_EVERY: Duration = Duration::from_secs(2);

fn denials() -> Denials<u32> {
    Denials::new(3, KEEP, TOLD_EVERY)
}

#[test]
fn a_denied_name_connects_once_in_a_while() {
    let (mut denials, now) = (denials(), Instant::now());
    denials.deny(1, now);
    assert!(denials.may_connect(1, now));
    assert!(!denials.may_connect(1, now + TOLD_EVERY / 2));
    assert!(denials.may_connect(1, now + TOLD_EVERY));
    assert!(denials.may_connect(2, now));
}

#[test]
fn the_connections_of_a_denied_name_end_when_it_has_had_time_to_hear_why() {
    let (mut denials, now) = (denials(), Instant::now());
    denials.deny(1, now);
    assert!(!denials.ends(1, now));
    assert!(denials.ends(1, now + TOLD_EVERY));
    assert!(!denials.ends(2, now + TOLD_EVERY));
}

#[test]
fn over_the_limit_the_name_that_was_met_longest_ago_is_forgotten() {
    let (mut denials, now) = (denials(), Instant::now());
    for name in 0..3 {
        denials.deny(name, now + Duration::from_secs(name.into()));
    }
    // The oldest tries again.
    denials.may_connect(0, now + Duration::from_secs(5));
    denials.deny(3, now + Duration::from_secs(6));
    assert_eq!(denials.len(), 3);
    let later = now + Duration::from_secs(6);
    assert!(
        !denials.may_connect(0, later)
            && denials.may_connect(1, later)
            && denials.may_connect(1, later)
    );
}

#[test]
fn a_name_that_is_not_met_for_long_is_forgotten() {
    let (mut denials, now) = (denials(), Instant::now());
    denials.deny(1, now);
    denials.deny(2, now);
    denials.may_connect(2, now + KEEP / 2);
    denials.expire(now + KEEP);
    assert_eq!(denials.len(), 1);
    denials.expire(now + KEEP + KEEP / 2);
    assert!(denials.is_empty());
}

#[test]
fn a_second_denial_of_a_name_does_not_lengthen_its_connections() {
    let (mut denials, now) = (denials(), Instant::now());
    denials.deny(1, now);
    denials.deny(1, now + TOLD_EVERY / 2);
    assert!(denials.ends(1, now + TOLD_EVERY));
    assert_eq!(denials.len(), 1);
}
