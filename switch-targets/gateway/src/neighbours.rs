//! Follows the MAC addresses of neighbours: whom to ask and when, and what was found. Pure.
//!
//! ```text
//!            each period: ask the known station ─► it answers ─► found
//!   another station uses the address ─┘   └─ no answer for 300 ms: ask all ─► first answer: found ─► moved, if another
//!                                                   └─ no answer, three times in a row: silent, and asked once a second
//! ```
//! A station that goes on answering keeps its address, whoever else claims it; and nothing counts that was not asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::arp::Mac;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Wan,
    Lan,
}

impl std::fmt::Display for Side {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(match self {
            Self::Wan => "WAN",
            Self::Lan => "LAN",
        })
    }
}

pub type Neighbour = (Side, IpAddr);

/// Whom to ask for a neighbour's MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Station(Mac),
    All,
}

const PATIENCE: Duration = Duration::from_millis(300);
const PERIOD: Duration = Duration::from_secs(1);
/// The most questions a second, so that a LAN of 1,022 hosts is asked every ten seconds.
const RATE: u32 = 100;
/// Unanswered questions after which a neighbour is silent.
const MISSES: u32 = 3;

#[derive(Debug)]
struct State {
    mac: Option<Mac>,
    /// The question that is not answered yet.
    asked: Option<Ask>,
    /// The time of the next question, or the end of the wait for an answer.
    due: Instant,
    misses: u32,
}

#[derive(Debug, Default)]
pub struct Neighbours {
    states: BTreeMap<Neighbour, State>,
}

impl Neighbours {
    /// Follows these neighbours, and no others.
    pub fn set(&mut self, wanted: &BTreeSet<Neighbour>, now: Instant) {
        self.states.retain(|it, _| wanted.contains(it));
        for it in wanted {
            self.states.entry(*it).or_insert(State {
                mac: None,
                asked: None,
                due: now,
                misses: 0,
            });
        }
    }

    /// The questions to send now.
    pub fn due(&mut self, now: Instant) -> Vec<(Neighbour, Ask)> {
        let mut questions = Vec::new();
        for (neighbour, state) in &mut self.states {
            if state.due > now {
                continue;
            }
            if state.asked.take().is_some() {
                state.misses = state.misses.saturating_add(1);
            }
            let ask = match state.mac {
                Some(mac) if state.misses == 0 => Ask::Station(mac),
                _ => Ask::All,
            };
            let wait = if state.misses < MISSES {
                PATIENCE
            } else {
                PERIOD
            };
            (state.asked, state.due) = (Some(ask), now + wait);
            questions.push((*neighbour, ask));
        }
        questions
    }

    /// A neighbour's answer.
    pub fn answered(&mut self, by: Neighbour, mac: Mac, now: Instant) {
        let period = self.period();
        let Some(state) = self.states.get_mut(&by) else {
            return;
        };
        match state.asked {
            Some(Ask::All) => {}
            Some(Ask::Station(asked)) if asked == mac => {}
            _ => return,
        }
        (state.mac, state.asked, state.misses, state.due) = (Some(mac), None, 0, now + period);
    }

    /// A station uses a neighbour's address: a host that begins to, or one that claims to.
    pub fn used(&mut self, address: Neighbour, mac: Mac, now: Instant) {
        if let Some(state) = self.states.get_mut(&address)
            && state.asked.is_none()
            && state.mac != Some(mac)
        {
            state.due = now;
        }
    }

    /// The time of the next question.
    pub fn next(&self) -> Option<Instant> {
        self.states.values().map(|it| it.due).min()
    }

    /// The neighbours' MAC addresses; None for those that are silent. Absent: not known yet.
    pub fn found(&self) -> BTreeMap<Neighbour, Option<Mac>> {
        let known = |state: &State| {
            if state.misses >= MISSES {
                Some(None)
            } else {
                state.mac.map(Some)
            }
        };
        self.states
            .iter()
            .filter_map(|(it, state)| Some((*it, known(state)?)))
            .collect()
    }

    fn period(&self) -> Duration {
        let count = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        PERIOD.max(PERIOD * count / RATE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = [2, 0, 0, 0, 0, 0xa];
    const B: Mac = [2, 0, 0, 0, 0, 0xb];
    const HOP: Neighbour = (Side::Wan, IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));

    struct Lan {
        neighbours: Neighbours,
        now: Instant,
        /// The stations that answer.
        stations: Vec<Mac>,
        asked: Vec<Ask>,
    }

    impl Lan {
        fn new(stations: &[Mac]) -> Self {
            let now = Instant::now();
            let mut neighbours = Neighbours::default();
            neighbours.set(&BTreeSet::from([HOP]), now);
            Self {
                neighbours,
                now,
                stations: stations.to_vec(),
                asked: Vec::new(),
            }
        }

        fn run(&mut self, milliseconds: u64) {
            let end = self.now + Duration::from_millis(milliseconds);
            while self.now < end {
                for (it, ask) in self.neighbours.due(self.now) {
                    self.asked.push(ask);
                    for station in &self.stations {
                        if ask == Ask::All || ask == Ask::Station(*station) {
                            self.neighbours.answered(it, *station, self.now);
                        }
                    }
                }
                self.now += Duration::from_millis(10);
            }
        }

        fn found(&self) -> Option<Option<Mac>> {
            self.neighbours.found().get(&HOP).copied()
        }
    }

    #[test]
    fn a_station_that_answers_is_asked_alone_once_a_second() {
        let mut lan = Lan::new(&[A]);
        lan.run(3500);
        assert_eq!(lan.found(), Some(Some(A)));
        assert_eq!(
            lan.asked,
            [Ask::All, Ask::Station(A), Ask::Station(A), Ask::Station(A)]
        );
    }

    #[test]
    fn a_replaced_station_is_found_within_a_second_and_a_half() {
        let mut lan = Lan::new(&[A]);
        lan.run(2010);
        lan.stations = vec![B];
        lan.run(1400);
        assert_eq!(lan.found(), Some(Some(B)));
    }

    #[test]
    fn a_station_that_says_hello_is_found_at_once() {
        let mut lan = Lan::new(&[A]);
        lan.run(2010);
        lan.stations = vec![B];
        lan.neighbours.used(HOP, B, lan.now);
        lan.run(400);
        assert_eq!(lan.found(), Some(Some(B)));
    }

    #[test]
    fn an_address_stays_with_the_station_that_goes_on_answering() {
        let mut lan = Lan::new(&[A]);
        lan.run(2010);
        lan.stations = vec![B, A];
        lan.neighbours.answered(HOP, B, lan.now);
        assert_eq!(lan.found(), Some(Some(A)));
        for _ in 0..10 {
            lan.neighbours.used(HOP, B, lan.now);
            lan.run(500);
        }
        assert_eq!(lan.found(), Some(Some(A)));
        assert!(!lan.asked[1..].contains(&Ask::All));
    }

    #[test]
    fn a_silent_station_is_said_to_be_and_found_again() {
        let mut lan = Lan::new(&[]);
        assert_eq!(lan.found(), None);
        lan.run(1000);
        assert_eq!(lan.found(), Some(None));
        let before = lan.asked.len();
        lan.run(10_000);
        assert_eq!(lan.asked.len() - before, 10);
        lan.stations = vec![A];
        lan.run(1100);
        assert_eq!(lan.found(), Some(Some(A)));
    }

    #[test]
    fn a_large_lan_is_asked_at_a_limited_rate() {
        let mut lan = Lan::new(&[A]);
        let host = |it: u32| {
            (
                Side::Lan,
                IpAddr::V4(std::net::Ipv4Addr::from(0x0a14_0000 + it)),
            )
        };
        lan.neighbours.set(&(1..=1000).map(host).collect(), lan.now);
        lan.run(20_000);
        assert!(
            (1000..3100).contains(&lan.asked.len()),
            "{}",
            lan.asked.len()
        );
    }
}
