//! The ports of datagrams that come in fragments: only the first fragment has them (RFC 4301 section 7.4). No I/O.
//!
//! ```text
//!  first fragment ─► selectors ─► permitted: its ports are kept, KEPT_SECONDS, under addresses, protocol and identification
//!  later fragment ─► is given the ports of its first ─► selectors
//! ```
//!
//! A later fragment whose first was not permitted, or has not come yet, has no ports: a selector for all ports alone carries it.

use std::collections::{HashMap, VecDeque};

use crate::selector::{DatagramId, Flow, Part, Ports};

/// Datagrams remembered at once; one more displaces the oldest.
const DATAGRAMS: usize = 256;
/// Our tunable. A sender puts a datagram's fragments on the wire one after another.
const KEPT_SECONDS: f64 = 2.0;

#[derive(Default)]
pub struct Fragments {
    ports: HashMap<DatagramId, (Ports, f64)>,
    oldest: VecDeque<(DatagramId, f64)>,
}

impl Fragments {
    /// The flow, with its datagram's ports if it is a later fragment's.
    pub fn complete(&self, flow: Flow, now: f64) -> Flow {
        let Part::LaterFragment(datagram) = flow.part else {
            return flow;
        };
        let kept = self.ports.get(&datagram);
        let ports = kept.and_then(|&(ports, at)| (now - at <= KEPT_SECONDS).then_some(ports));
        Flow { ports, ..flow }
    }

    /// Call this for what the selectors permit.
    pub fn remember(&mut self, flow: &Flow, now: f64) {
        let (Part::FirstFragment(datagram), Some(ports)) = (flow.part, flow.ports) else {
            return;
        };
        if self.oldest.len() == DATAGRAMS
            && let Some((oldest, at)) = self.oldest.pop_front()
            && self.ports.get(&oldest).is_some_and(|kept| kept.1 == at)
        {
            self.ports.remove(&oldest);
        }
        self.ports.insert(datagram, (ports, now));
        self.oldest.push_back((datagram, now));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn flow(id: u16, offset: u16) -> Flow {
        let mut packet = [0; 28];
        packet[0] = 0x45;
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[6..8].copy_from_slice(&(0x2000 | offset).to_be_bytes());
        packet[9] = 17;
        packet[20..24].copy_from_slice(&[0, 7, 0, 53]);
        Flow::of(&packet).unwrap()
    }

    #[test]
    fn ports_are_kept_for_a_short_while() {
        let mut fragments = Fragments::default();
        let first = flow(1, 0);
        fragments.remember(&first, 10.0);
        assert_eq!(flow(1, 185).ports, None);
        let later = |now| fragments.complete(flow(1, 185), now).ports;
        assert_eq!([later(10.0), later(12.0)], [Some((7, 53)); 2]);
        assert_eq!(later(12.1), None);
        assert_eq!(fragments.complete(first, 99.0), first);
    }

    #[test]
    fn the_oldest_of_too_many_datagrams_goes() {
        let mut fragments = Fragments::default();
        let ids = 0..DATAGRAMS as u16;
        for id in ids.clone() {
            fragments.remember(&flow(id, 0), 0.0);
        }
        let kept = |fragments: &Fragments, id| fragments.complete(flow(id, 1), 1.0).ports.is_some();
        assert!(ids.clone().all(|id| kept(&fragments, id)));
        // A datagram that comes again gets the newest place.
        fragments.remember(&flow(0, 0), 1.0);
        fragments.remember(&flow(1000, 0), 1.0);
        let lost: Vec<u16> = ids.filter(|id| !kept(&fragments, *id)).collect();
        assert_eq!(lost, [1]);
        assert!(kept(&fragments, 1000));
        for id in 2000..5000 {
            fragments.remember(&flow(id, 0), 1.0);
        }
        assert!(fragments.ports.len() <= DATAGRAMS && fragments.oldest.len() <= DATAGRAMS);
    }
}
