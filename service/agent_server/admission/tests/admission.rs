//! Limits and rates, which connection is closed at a limit, and which X-Forwarded-For addresses count.

#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::time::{Duration, Instant};

use culvert_admission::{
    Admission, Buckets, ConnectionLimits, Forwarded, Log, Prefix, Rate, Refused, Report, Shares,
    keys, shares,
};

const LIMITS: ConnectionLimits = ConnectionLimits {
    all: 10,
    each: 3,
    site: 5,
};
const RATE: Rate = Rate {
    per_second: 1000.0,
    burst: 1000.0,
};
const LONG: Duration = Duration::from_secs(5);

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

struct Port {
    admission: Admission<String>,
    now: Instant,
}

impl Port {
    fn new(rate: Rate) -> Self {
        Self {
            admission: Admission::new(LIMITS, rate),
            now: Instant::now(),
        }
    }

    /// Returns the new connection's id, and the name of the connection that is closed for it.
    fn admit(&mut self, from: &str) -> Result<(culvert_admission::Id, Option<String>), Refused> {
        self.now += Duration::from_millis(1);
        let until = self.now + LONG;
        let name = format!("{from} {}", self.admission.len());
        self.admission
            .admit(address(from), false, name, self.now, until)
    }
}

#[test]
fn at_the_limit_of_an_address_its_own_oldest_silent_connection_goes() {
    let mut port = Port::new(RATE);
    let (first, _) = port.admit("192.0.2.1").unwrap();
    port.admit("192.0.2.2").unwrap();
    port.admit("192.0.2.1").unwrap();
    port.admit("::ffff:192.0.2.1").unwrap();
    port.admission.busy(first);
    let (_, gone) = port.admit("192.0.2.1").unwrap();
    assert_eq!(gone.unwrap(), "192.0.2.1 2");
    assert_eq!(port.admission.len(), 4);
}

#[test]
fn connections_that_are_busy_are_never_pushed_out() {
    let mut port = Port::new(RATE);
    for _ in 0..LIMITS.each {
        let (id, _) = port.admit("192.0.2.1").unwrap();
        port.admission.busy(id);
    }
    assert_eq!(port.admit("192.0.2.1"), Err(Refused));
    for host in 2..=8 {
        let (id, _) = port.admit(&format!("192.0.2.{host}")).unwrap();
        port.admission.busy(id);
    }
    assert_eq!(port.admit("192.0.2.9"), Err(Refused));
}

#[test]
fn at_the_limit_of_all_the_oldest_silent_connection_of_all_goes() {
    let mut port = Port::new(RATE);
    let mut ids = Vec::new();
    for host in 1..=LIMITS.all {
        ids.push(port.admit(&format!("192.0.2.{host}")).unwrap().0);
    }
    port.admission.busy(ids[0]);
    let (_, gone) = port.admit("198.51.100.1").unwrap();
    assert_eq!(gone.unwrap(), "192.0.2.2 1");
    // A connection that becomes silent again counts as the youngest.
    port.admission.silent(ids[0], port.now, port.now + LONG);
    let (_, gone) = port.admit("198.51.100.2").unwrap();
    assert_eq!(gone.unwrap(), "192.0.2.3 2");
    assert_eq!(port.admission.len(), LIMITS.all);
}

#[test]
fn a_64_counts_as_one_address_and_a_48_has_a_sum() {
    let mut port = Port::new(RATE);
    for host in 1..=3 {
        port.admit(&format!("2001:db8:1:1::{host}")).unwrap();
    }
    assert!(port.admit("2001:db8:1:1::ffff").unwrap().1.is_some());
    assert!(port.admit("2001:db8:1:2::1").unwrap().1.is_none());
    assert!(port.admit("2001:db8:1:3::1").unwrap().1.is_none());
    assert!(port.admit("2001:db8:1:4::1").unwrap().1.is_some());
    assert!(port.admit("2001:db8:2:1::1").unwrap().1.is_none());
}

#[test]
fn a_source_that_connects_too_often_is_refused_unless_it_is_no_stranger() {
    let slow = Rate {
        per_second: 1.0,
        burst: 2.0,
    };
    let mut port = Port::new(slow);
    let (first, _) = port.admit("192.0.2.1").unwrap();
    port.admit("192.0.2.1").unwrap();
    assert_eq!(port.admit("192.0.2.1"), Err(Refused));
    port.admit("192.0.2.2").unwrap();
    port.admission.refund(first);
    port.admit("192.0.2.1").unwrap();
    port.now += Duration::from_secs(1);
    port.admit("192.0.2.1").unwrap();
}

#[test]
fn a_connection_that_is_silent_for_too_long_gives_its_place_back() {
    let mut port = Port::new(RATE);
    let (busy, _) = port.admit("192.0.2.1").unwrap();
    port.admit("192.0.2.1").unwrap();
    port.admission.busy(busy);
    assert!(port.admission.expire(port.now).is_empty());
    assert_eq!(port.admission.expire(port.now + LONG), ["192.0.2.1 1"]);
    assert_eq!(port.admission.len(), 1);
    assert!(port.admission.leave(busy).is_some());
    assert!(port.admission.leave(busy).is_none());
    assert!(port.admission.is_empty());
}

#[test]
fn a_trusted_proxy_has_only_the_limit_for_all() {
    let mut port = Port::new(RATE);
    for _ in 0..LIMITS.all {
        let until = port.now + LONG;
        let admitted =
            port.admission
                .admit(address("192.0.2.1"), true, String::new(), port.now, until);
        assert!(admitted.unwrap().1.is_none());
    }
    assert!(port.admit("192.0.2.1").unwrap().1.is_some());
}

#[test]
fn a_bucket_owes_what_was_charged_and_fills_again() {
    let now = Instant::now();
    let mut buckets = Buckets::new(Rate {
        per_second: 2.0,
        burst: 4.0,
    });
    buckets.charge("a", 100.0, now);
    assert!(!buckets.take("a", 1.0, now + Duration::from_secs(2)));
    assert!(buckets.take("b", 4.0, now));
    assert!(!buckets.take("b", 1.0, now));
    assert!(buckets.take("a", 1.0, now + Duration::from_secs(3)));
    assert!(buckets.take("a", 4.0, now + Duration::from_secs(60)));
}

#[test]
fn a_bucket_that_is_not_full_outlives_a_sweep_of_the_full_ones() {
    let now = Instant::now();
    let mut buckets = Buckets::new(Rate {
        per_second: 1.0,
        burst: 4.0,
    });
    let later = now + Duration::from_secs(3);
    assert!(buckets.take(0, 4.0, now));
    // These are more keys than a sweep waits for; all but the first are full again at the end.
    for key in 1..=10_000 {
        assert!(buckets.take(key, 1.0, now));
    }
    for key in 10_001..=20_000 {
        assert!(buckets.take(key, 1.0, later));
    }
    assert!(!buckets.take(0, 4.0, later));
    assert!(buckets.take(1, 4.0, later));
}

#[test]
fn the_source_is_the_last_address_that_is_no_trusted_proxys() {
    let prefixes = ["10.0.0.0/8", "2001:db8:f::/48", "127.0.0.1/32"];
    let forwarded = Forwarded::by(
        prefixes
            .iter()
            .map(|it| Prefix::parse(it).unwrap())
            .collect(),
    );
    let told = [
        ("192.0.2.1", vec!["198.51.100.7"], "192.0.2.1"),
        ("10.0.0.1", vec!["198.51.100.7"], "198.51.100.7"),
        ("::ffff:10.0.0.1", vec!["198.51.100.7:4711"], "198.51.100.7"),
        (
            "10.0.0.1",
            vec!["203.0.113.9, 198.51.100.7", "10.2.3.4 "],
            "198.51.100.7",
        ),
        (
            "2001:db8:f::1",
            vec!["x", "[2001:db8::5]:443"],
            "2001:db8::5",
        ),
        ("10.0.0.1", vec!["198.51.100.7, unknown"], "10.0.0.1"),
        ("10.0.0.1", vec!["10.0.0.2,127.0.0.1"], "10.0.0.2"),
        ("10.0.0.1", vec![], "10.0.0.1"),
    ];
    for (peer, said, source) in told {
        let found = forwarded.source(address(peer), said.iter().copied());
        assert_eq!(found, address(source), "{peer} {said:?}");
    }
    assert_eq!(
        Forwarded::default().source(address("127.0.0.1"), ["192.0.2.1"].into_iter()),
        address("127.0.0.1")
    );
}

#[test]
fn prefixes_are_parsed_and_their_keys_differ() {
    for wrong in ["", "10.0.0.0", "10.0.0.0/33", "2001:db8::/129", "x/8"] {
        assert!(Prefix::parse(wrong).is_none(), "{wrong}");
    }
    assert!(
        Prefix::parse("0.0.0.0/0")
            .unwrap()
            .contains(address("192.0.2.1"))
    );
    assert!(
        !Prefix::parse("0.0.0.0/0")
            .unwrap()
            .contains(address("2001:db8::1"))
    );
    assert_eq!(
        keys(address("::ffff:192.0.2.1")),
        keys(address("192.0.2.1"))
    );
    assert_eq!(keys(address("2001:db8::1")), keys(address("2001:db8::2")));
}

#[test]
fn a_condition_is_reported_once_with_a_count_and_when_it_has_ended() {
    let began = Instant::now();
    let at = |seconds| began + Duration::from_secs(seconds);
    let report = |count, ended| Some(Report { count, ended });
    let mut log = Log::default();
    assert_eq!(log.met(at(0)), report(1, false));
    for second in 0..59 {
        assert_eq!(log.met(at(second)), None);
        assert_eq!(log.due(at(second)), None);
    }
    assert_eq!(log.due(at(60)), report(59, false));
    assert_eq!(log.due(at(70)), report(0, true));
    assert_eq!(log.due(at(80)), None);
    assert_eq!(log.met(at(80)), report(1, false));
}

#[test]
fn descriptors_are_shared_out_and_some_are_left() {
    for files in [64, 1024, 20_000, 1 << 20] {
        let Shares {
            rest,
            handshakes,
            devices,
        } = shares(files);
        assert!(3 * rest + handshakes + devices + files.min(8000) / 8 <= files);
        assert!(devices >= 3 * handshakes);
    }
    assert_eq!(shares(20_000).rest, 2048);
    assert_eq!(
        (shares(20_000).devices, shares(65_536).devices),
        (10_808, 56_344)
    );
}

#[test]
fn an_introduced_connection_counts_for_its_client() {
    let mut port = Port::new(RATE);
    let (balancer, client) = (address("10.0.0.1"), address("192.0.2.7"));
    let until = port.now + LONG;
    let mut admission = std::mem::replace(&mut port, Port::new(RATE)).admission;
    let now = port.now;
    let mut introduced = Vec::new();
    for number in 0..LIMITS.each {
        let (id, _) = admission
            .admit(balancer, true, format!("{number}"), now, until)
            .unwrap();
        introduced.push(
            admission
                .introduce(id, client, false, now, until)
                .unwrap()
                .0,
        );
    }
    for id in &introduced {
        admission.busy(*id);
    }
    let (id, _) = admission
        .admit(balancer, true, "one too many".into(), now, until)
        .unwrap();
    assert!(admission.introduce(id, client, false, now, until).is_err());
    assert_eq!(admission.len(), LIMITS.each);
    let (id, _) = admission
        .admit(balancer, true, "another client's".into(), now, until)
        .unwrap();
    let other = admission.introduce(id, address("192.0.2.8"), false, now, until);
    assert!(other.is_ok());
}
