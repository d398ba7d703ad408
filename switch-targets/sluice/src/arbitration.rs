//! Who may write: P4Runtime's primary-backup arbitration, for this one device and the default role (section 5).
//!
//! ```text
//!   stream ──bid──► id ≥ highest ever ─────► PRIMARY ──higher bid of another──► BACKUP
//!             └───► id < highest, or unset ► BACKUP       │
//!                                                     disconnect: no primary until someone bids ≥ highest
//! ```
//! The primary is the live stream that holds the highest election id ever seen; there is no other state.

use std::collections::BTreeMap;

use thiserror::Error;

/// One open `StreamChannel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElectionId(pub u128);

/// What a client asks for in a `MasterArbitrationUpdate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bid {
    pub device_id: u64,
    pub role: String,
    /// Unset: a standby that never becomes primary.
    pub election_id: Option<ElectionId>,
}

/// What a client is told about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Primary,
    /// Another client is primary.
    Backup,
    /// No client is primary.
    Vacant,
}

/// Why a stream is terminated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("this switch is device {own}, not device {asked}")]
    UnknownDevice { own: u64, asked: u64 },
    #[error("this stream belongs to device {own}; open another stream for device {asked}")]
    DeviceChanged { own: u64, asked: u64 },
    #[error("role '{0}' is not known: this switch has the default role only, leave the role unset")]
    UnknownRole(String),
    #[error("Election id already exists: it is used by another live connection")]
    ElectionIdInUse,
    #[error("{0} streams are open already: close one")]
    TooManyStreams(usize),
}

/// More controllers than this at once are a fault.
const MAX_STREAMS: usize = 16;

pub struct Arbitration {
    device_id: u64,
    highest: Option<ElectionId>,
    streams: BTreeMap<StreamId, Option<ElectionId>>,
}

impl Arbitration {
    pub fn new(device_id: u64) -> Self {
        Self {
            device_id,
            highest: None,
            streams: BTreeMap::new(),
        }
    }

    /// Take a bid. Returns who must be told of their standing, the primary last (section 5.3).
    ///
    /// # Errors
    /// The stream must be terminated with the refusal; nothing has changed.
    pub fn bid(&mut self, stream: StreamId, bid: &Bid) -> Result<Vec<StreamId>, Refusal> {
        let known = self.streams.contains_key(&stream);
        if bid.device_id != self.device_id {
            let (own, asked) = (self.device_id, bid.device_id);
            return Err(match known {
                true => Refusal::DeviceChanged { own, asked },
                false => Refusal::UnknownDevice { own, asked },
            });
        }
        if !bid.role.is_empty() {
            return Err(Refusal::UnknownRole(bid.role.clone()));
        }
        let taken = |(other, id): (&StreamId, &Option<ElectionId>)| {
            *other != stream && *id == bid.election_id
        };
        if bid.election_id.is_some() && self.streams.iter().any(taken) {
            return Err(Refusal::ElectionIdInUse);
        }
        if !known && self.streams.len() >= MAX_STREAMS {
            return Err(Refusal::TooManyStreams(MAX_STREAMS));
        }

        let was_primary = self.primary() == Some(stream);
        self.streams.insert(stream, bid.election_id);
        let wins = bid.election_id.is_some() && bid.election_id >= self.highest;
        if wins {
            self.highest = bid.election_id;
        }
        Ok(if wins || was_primary {
            self.everyone()
        } else {
            vec![stream]
        })
    }

    /// The stream is gone. Returns who must be told.
    pub fn disconnect(&mut self, stream: StreamId) -> Vec<StreamId> {
        let was_primary = self.primary() == Some(stream);
        self.streams.remove(&stream);
        if was_primary {
            self.everyone()
        } else {
            Vec::new()
        }
    }

    pub fn primary(&self) -> Option<StreamId> {
        let highest = self.highest?;
        self.streams
            .iter()
            .find(|(_, id)| **id == Some(highest))
            .map(|(stream, _)| *stream)
    }

    /// Whether a request that carries `election_id` comes from the primary.
    pub fn is_primary(&self, election_id: Option<ElectionId>) -> bool {
        self.primary().is_some() && election_id == self.highest
    }

    /// `None` for a stream that has not bid yet.
    pub fn standing(&self, stream: StreamId) -> Option<Standing> {
        self.streams
            .contains_key(&stream)
            .then(|| match self.primary() {
                Some(primary) if primary == stream => Standing::Primary,
                Some(_) => Standing::Backup,
                None => Standing::Vacant,
            })
    }

    /// The highest election id ever seen.
    pub fn highest(&self) -> Option<ElectionId> {
        self.highest
    }

    fn everyone(&self) -> Vec<StreamId> {
        let primary = self.primary();
        let backups = self
            .streams
            .keys()
            .copied()
            .filter(|stream| Some(*stream) != primary);
        backups.chain(primary).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    const A: StreamId = StreamId(1);
    const B: StreamId = StreamId(2);
    const C: StreamId = StreamId(3);

    fn with_id(id: u128) -> Bid {
        Bid {
            device_id: 1,
            role: String::new(),
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
        assert_eq!(arbitration.bid(A, &with_id(10)), Ok(vec![A]));
        assert_eq!(arbitration.bid(B, &with_id(5)), Ok(vec![B]));
        assert_eq!(arbitration.standing(B), Some(Standing::Backup));
        assert_eq!(arbitration.bid(C, &with_id(20)), Ok(vec![A, B, C]));
        assert_eq!(arbitration.standing(A), Some(Standing::Backup));
        assert!(arbitration.is_primary(Some(ElectionId(20))));
        assert!(!arbitration.is_primary(Some(ElectionId(10))));
    }

    #[test]
    fn without_a_primary_only_a_bid_of_at_least_the_highest_ever_wins() {
        let mut arbitration = Arbitration::new(1);
        arbitration.bid(A, &with_id(10)).unwrap();
        arbitration.bid(B, &with_id(5)).unwrap();
        assert_eq!(arbitration.disconnect(A), vec![B]);
        assert_eq!(arbitration.standing(B), Some(Standing::Vacant));
        assert!(
            !arbitration.is_primary(Some(ElectionId(10))),
            "the id of a client that has gone"
        );
        assert_eq!(arbitration.bid(B, &with_id(9)), Ok(vec![B]));
        assert_eq!(arbitration.standing(B), Some(Standing::Vacant));
        assert_eq!(arbitration.bid(B, &with_id(10)), Ok(vec![B]));
        assert_eq!(arbitration.standing(B), Some(Standing::Primary));
    }

    #[test]
    fn a_primary_that_bids_lower_leaves_the_post_vacant() {
        let mut arbitration = Arbitration::new(1);
        arbitration.bid(A, &with_id(10)).unwrap();
        arbitration.bid(B, &with_id(5)).unwrap();
        assert_eq!(arbitration.bid(A, &with_id(7)), Ok(vec![A, B]));
        assert_eq!(arbitration.primary(), None);
        assert_eq!(arbitration.highest(), Some(ElectionId(10)));
    }

    #[test]
    fn a_standby_never_becomes_primary() {
        let mut arbitration = Arbitration::new(1);
        assert_eq!(arbitration.bid(A, &standby()), Ok(vec![A]));
        assert_eq!(
            arbitration.bid(B, &standby()),
            Ok(vec![B]),
            "two standbys do not clash"
        );
        assert_eq!(arbitration.standing(A), Some(Standing::Vacant));
        assert!(!arbitration.is_primary(None));
    }

    #[test]
    fn refusals_change_nothing() {
        let mut arbitration = Arbitration::new(1);
        arbitration.bid(A, &with_id(10)).unwrap();
        let other_device = Bid {
            device_id: 2,
            ..with_id(11)
        };
        let role = Bid {
            role: "r".into(),
            ..with_id(11)
        };
        let table = [
            (
                B,
                other_device.clone(),
                Refusal::UnknownDevice { own: 1, asked: 2 },
            ),
            (A, other_device, Refusal::DeviceChanged { own: 1, asked: 2 }),
            (B, role, Refusal::UnknownRole("r".into())),
            (B, with_id(10), Refusal::ElectionIdInUse),
        ];
        for (stream, bid, refusal) in table {
            assert_eq!(arbitration.bid(stream, &bid), Err(refusal));
            assert_eq!(arbitration.primary(), Some(A));
            assert_eq!(arbitration.standing(B), None);
        }
    }

    #[test]
    fn streams_are_bounded() {
        let mut arbitration = Arbitration::new(1);
        for n in 0..MAX_STREAMS as u64 {
            arbitration.bid(StreamId(n), &standby()).unwrap();
        }
        let one_more = arbitration.bid(StreamId(99), &standby());
        assert_eq!(one_more, Err(Refusal::TooManyStreams(MAX_STREAMS)));
    }

    proptest! {
        #[test]
        fn at_most_one_primary_and_the_highest_id_only_grows(
            steps in prop::collection::vec((0_u64..4, prop::option::of(0_u128..6), any::<bool>()), 0..60)
        ) {
            let mut arbitration = Arbitration::new(1);
            let mut highest = None;
            for (stream, id, leaves) in steps {
                let stream = StreamId(stream);
                if leaves {
                    arbitration.disconnect(stream);
                } else {
                    let _ = arbitration.bid(stream, &Bid { election_id: id.map(ElectionId), ..standby() });
                }
                let primaries = (0..4).filter(|n| arbitration.standing(StreamId(*n)) == Some(Standing::Primary));
                prop_assert!(primaries.count() <= 1);
                prop_assert!(arbitration.highest() >= highest);
                highest = arbitration.highest();
            }
        }
    }
}
