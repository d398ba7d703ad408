//! P4Runtime's primary-backup arbitration, for one device and each role by itself (section 5).
//!
//! ```text
//!   stream ──bid──► id ≥ highest ever ─────► PRIMARY ──higher bid of another──► BACKUP
//!             └───► id < highest, or unset ► BACKUP       │
//!                                                     disconnect: no primary until someone bids ≥ highest
//! ```
//! A role's primary is the live stream that holds the highest election id that the role ever saw; there is no other state. A role
//! whose config gives it objects exclusively holds them while a stream of it is open.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::schema::role::{Access, RoleConfig};

/// An open `StreamChannel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElectionId(pub u128);

/// The request in a `MasterArbitrationUpdate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bid {
    pub device_id: u64,
    /// Empty: the default role.
    pub role: String,
    pub config: Option<RoleConfig>,
    /// Unset: a standby that never becomes primary.
    pub election_id: Option<ElectionId>,
}

/// A client's standing, as it is told to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Primary,
    /// Another client is primary.
    Backup,
    /// No client is primary.
    Vacant,
}

/// The cause for which a stream is terminated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("this switch is device {own}, not device {asked}")]
    UnknownDevice { own: u64, asked: u64 },
    #[error("this stream belongs to device {own}; open another stream for device {asked}")]
    DeviceChanged { own: u64, asked: u64 },
    #[error("this stream has the role '{own}'; open another stream for the role '{asked}'")]
    RoleChanged { own: String, asked: String },
    #[error("{0}")]
    BadConfig(String),
    #[error(
        "the role config has id {id}, and so has that of the role '{role}': one of them has it exclusively"
    )]
    ConfigClash { id: u32, role: String },
    #[error("the default role has no config: it may do everything")]
    DefaultRoleConfig,
    #[error("the role's name is longer than {MAX_NAME} bytes")]
    NameTooLong,
    #[error("Election id already exists: it is used by another live connection")]
    ElectionIdInUse,
    #[error("{0} streams of this role are open already: close one")]
    TooManyStreams(usize),
    #[error("{0} roles are known already: use one of them")]
    TooManyRoles(usize),
}

/// Controllers of one role at once; more are a fault.
pub(crate) const MAX_STREAMS: usize = 16;
/// Roles that are remembered.
pub(crate) const MAX_ROLES: usize = 64;
/// Bytes of a role's name.
pub(crate) const MAX_NAME: usize = 256;

pub struct Arbitration {
    device_id: u64,
    roles: BTreeMap<String, Contest>,
    streams: BTreeMap<StreamId, String>,
}

/// The clients of one role.
#[derive(Default)]
struct Contest {
    highest: Option<ElectionId>,
    streams: BTreeMap<StreamId, Option<ElectionId>>,
    config: Option<RoleConfig>,
}

impl Arbitration {
    pub fn new(device_id: u64) -> Self {
        Self {
            device_id,
            roles: BTreeMap::from([(String::new(), Contest::default())]),
            streams: BTreeMap::new(),
        }
    }

    /// Take a bid. Returns who must be told of their standing, the primary last (section 5.3).
    ///
    /// # Errors
    /// The stream must be terminated with the refusal; nothing has changed.
    pub fn bid(&mut self, stream: StreamId, bid: Bid) -> Result<Vec<StreamId>, Refusal> {
        self.check(stream, &bid)?;
        self.streams.insert(stream, bid.role.clone());
        let contest = self.roles.entry(bid.role).or_default();
        let was_primary = contest.primary() == Some(stream);
        contest.streams.insert(stream, bid.election_id);
        let wins = bid.election_id.is_some() && bid.election_id >= contest.highest;
        if wins {
            contest.highest = bid.election_id;
            contest.config = bid.config;
        }
        Ok(if wins || was_primary {
            contest.everyone()
        } else {
            vec![stream]
        })
    }

    /// Checks the device of a bid, before anything else.
    ///
    /// # Errors
    /// As [`Arbitration::bid`].
    pub fn check_device(&self, stream: StreamId, asked: u64) -> Result<(), Refusal> {
        let own = self.device_id;
        match self.streams.get(&stream) {
            _ if asked == own => Ok(()),
            Some(_) => Err(Refusal::DeviceChanged { own, asked }),
            None => Err(Refusal::UnknownDevice { own, asked }),
        }
    }

    fn check(&self, stream: StreamId, bid: &Bid) -> Result<(), Refusal> {
        self.check_device(stream, bid.device_id)?;
        let own_role = self.streams.get(&stream);
        if let Some(own) = own_role.filter(|own| **own != bid.role) {
            let (own, asked) = (own.clone(), bid.role.clone());
            return Err(Refusal::RoleChanged { own, asked });
        }
        if bid.role.len() > MAX_NAME {
            return Err(Refusal::NameTooLong);
        }
        if let Some(config) = &bid.config {
            if bid.role.is_empty() {
                return Err(Refusal::DefaultRoleConfig);
            }
            for (role, other) in self.others(&bid.role) {
                if let Some(id) = config.clashes(other) {
                    let role = role.clone();
                    return Err(Refusal::ConfigClash { id, role });
                }
            }
        }
        let Some(contest) = self.roles.get(&bid.role) else {
            return match self.roles.len() < MAX_ROLES {
                true => Ok(()),
                false => Err(Refusal::TooManyRoles(MAX_ROLES)),
            };
        };
        let taken = |(other, id): (&StreamId, &Option<ElectionId>)| {
            *other != stream && *id == bid.election_id
        };
        if bid.election_id.is_some() && contest.streams.iter().any(taken) {
            return Err(Refusal::ElectionIdInUse);
        }
        if own_role.is_none() && contest.streams.len() >= MAX_STREAMS {
            return Err(Refusal::TooManyStreams(MAX_STREAMS));
        }
        Ok(())
    }

    /// The configs of other roles that have a client.
    fn others(&self, role: &str) -> impl Iterator<Item = (&String, &RoleConfig)> {
        let live = move |(name, contest): &(&String, &Contest)| {
            *name != role && !contest.streams.is_empty()
        };
        let others = self.roles.iter().filter(live);
        others.filter_map(|(name, contest)| Some((name, contest.config.as_ref()?)))
    }

    /// The roles that have had a primary, with the highest election id and the config of each.
    pub fn remembered(&self) -> impl Iterator<Item = (&str, ElectionId, Option<&RoleConfig>)> {
        let roles = self.roles.iter();
        roles.filter_map(|(role, it)| Some((role.as_str(), it.highest?, it.config.as_ref())))
    }

    /// A role has had a primary, in another process. Roles beyond [`MAX_ROLES`] are not remembered.
    pub fn remember(&mut self, role: String, highest: ElectionId, config: Option<RoleConfig>) {
        if self.roles.len() < MAX_ROLES || self.roles.contains_key(&role) {
            let contest = self.roles.entry(role).or_default();
            (contest.highest, contest.config) = (Some(highest), config);
        }
    }

    /// The stream is gone. Returns who must be told.
    pub fn disconnect(&mut self, stream: StreamId) -> Vec<StreamId> {
        let Some(role) = self.streams.remove(&stream) else {
            return Vec::new();
        };
        let Some(contest) = self.roles.get_mut(&role) else {
            return Vec::new();
        };
        let was_primary = contest.primary() == Some(stream);
        contest.streams.remove(&stream);
        let told = if was_primary {
            contest.everyone()
        } else {
            Vec::new()
        };
        // A role that never had a primary leaves nothing to remember.
        if contest.streams.is_empty() && contest.highest.is_none() && !role.is_empty() {
            self.roles.remove(&role);
        }
        told
    }

    pub fn primary(&self, role: &str) -> Option<StreamId> {
        self.roles.get(role)?.primary()
    }

    /// The roles that have a primary, each with it.
    pub fn primaries(&self) -> impl Iterator<Item = (&String, StreamId)> {
        let roles = self.roles.iter();
        roles.filter_map(|(role, contest)| Some((role, contest.primary()?)))
    }

    pub fn knows(&self, role: &str) -> bool {
        self.roles.contains_key(role)
    }

    /// `None` for a stream that has not bid yet.
    pub fn role_of(&self, stream: StreamId) -> Option<&String> {
        self.streams.get(&stream)
    }

    /// Returns whether a request that carries `election_id` comes from the primary of `role`.
    pub fn is_primary(&self, role: &str, election_id: Option<ElectionId>) -> bool {
        self.primary(role).is_some() && election_id == self.highest(role)
    }

    /// `None` for a stream that has not bid yet.
    pub fn standing(&self, stream: StreamId) -> Option<Standing> {
        let role = self.streams.get(&stream)?;
        Some(match self.primary(role) {
            Some(primary) if primary == stream => Standing::Primary,
            Some(_) => Standing::Backup,
            None => Standing::Vacant,
        })
    }

    /// The highest election id that the role ever saw.
    pub fn highest(&self, role: &str) -> Option<ElectionId> {
        self.roles.get(role)?.highest
    }

    pub fn access(&self, role: &str) -> Access {
        let taken: BTreeSet<u32> = self
            .others(role)
            .flat_map(|(_, config)| config.exclusive.iter().copied())
            .collect();
        let contest = self.roles.get(role);
        Access {
            role: role.to_owned(),
            config: contest.and_then(|contest| contest.config.clone()),
            taken,
        }
    }
}

impl Contest {
    fn primary(&self) -> Option<StreamId> {
        let highest = self.highest?;
        let mut streams = self.streams.iter();
        streams
            .find(|(_, id)| **id == Some(highest))
            .map(|(stream, _)| *stream)
    }

    fn everyone(&self) -> Vec<StreamId> {
        let primary = self.primary();
        let streams = self.streams.keys().copied();
        let backups = streams.filter(|stream| Some(*stream) != primary);
        backups.chain(primary).collect()
    }
}
