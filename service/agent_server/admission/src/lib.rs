//! Which connections a port keeps, how often a source may connect and ask, and which of a proxy's words count. Pure: the
//! clock is a parameter, and nothing here touches a socket.
//!
//! ```text
//!  accepted ─► admit ─┬─► Refused: over the source's rate, or nothing silent can go
//!                     └─► Admitted ─► busy ◄─► silent ─► leave
//!                              └── at a limit the oldest silent connection goes: of the source, then of all
//! ```
//! A connection is silent while it owes something: its handshake, its request, or the next request after an answer.

mod buckets;
mod log;
mod source;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Instant;

pub use buckets::{Buckets, Rate};
pub use log::{Log, Report};
pub use source::{Forwarded, Key, Keys, Prefix, keys};

/// Connections at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub all: usize,
    /// Of an IPv4 address or an IPv6 /64.
    pub each: usize,
    /// Of an IPv6 /48.
    pub site: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// The connections of one port. `H` is what its owner ends a connection with.
pub struct Admission<H> {
    limits: Limits,
    rates: Buckets<Key>,
    next: u64,
    connections: HashMap<Id, Connection<H>>,
    silent: BTreeSet<(Instant, Id)>,
    groups: HashMap<Key, Group>,
}

struct Connection<H> {
    handle: H,
    keys: Keys,
    /// Since when it has been silent, and when that is too long.
    silent: Option<(Instant, Instant)>,
}

#[derive(Default)]
struct Group {
    connections: usize,
    silent: BTreeSet<(Instant, Id)>,
}

impl<H> Admission<H> {
    /// `rate` is of an IPv4 address or an IPv6 /64; an IPv6 /48 has four times as much.
    pub fn new(limits: Limits, rate: Rate) -> Self {
        Self {
            limits,
            rates: Buckets::new(rate),
            next: 0,
            connections: HashMap::new(),
            silent: BTreeSet::new(),
            groups: HashMap::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.connections.len()
    }

    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// A new connection, which is silent and may be until `until`. The handle beside its id is of the connection that goes
    /// in its place. A trusted proxy's connections are many people's: they are limited in all alone.
    ///
    /// # Errors
    /// `Refused`: the connection is to be closed.
    pub fn admit(
        &mut self,
        address: IpAddr,
        trusted: bool,
        handle: H,
        now: Instant,
        until: Instant,
    ) -> Result<(Id, Option<H>), Refused> {
        let keys = if trusted {
            Keys::default()
        } else {
            keys(address)
        };
        if !keys
            .iter()
            .all(|key| self.rates.take(*key, weight(key), now))
        {
            return Err(Refused);
        }
        let full = keys.iter().copied().find(|key| {
            let group = self.groups.get(key);
            group.is_some_and(|group| group.connections >= self.limit(key))
        });
        let goes = match full {
            Some(key) => Some(self.oldest_of(key).ok_or(Refused)?),
            None if self.connections.len() >= self.limits.all => {
                Some(self.silent.first().map(|(_, id)| *id).ok_or(Refused)?)
            }
            None => None,
        };
        let gone = goes.and_then(|id| self.leave(id));
        let id = Id(self.next);
        self.next += 1;
        for key in keys.iter() {
            self.groups.entry(*key).or_default().connections += 1;
        }
        let connection = Connection {
            handle,
            keys,
            silent: None,
        };
        self.connections.insert(id, connection);
        self.silent(id, now, until);
        Ok((id, gone))
    }

    /// It has shown what it owed: it stays until it is silent again.
    pub fn busy(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if let Some((since, _)) = connection.silent.take() {
            self.silent.remove(&(since, id));
            for key in connection.keys.iter() {
                if let Some(group) = self.groups.get_mut(key) {
                    group.silent.remove(&(since, id));
                }
            }
        }
    }

    pub fn silent(&mut self, id: Id, now: Instant, until: Instant) {
        self.busy(id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.silent = Some((now, until));
            self.silent.insert((now, id));
            for key in connection.keys.iter() {
                if let Some(group) = self.groups.get_mut(key) {
                    group.silent.insert((now, id));
                }
            }
        }
    }

    /// Its source turned out to be no stranger: the connection is not counted in the source's rate.
    pub fn refund(&mut self, id: Id) {
        if let Some(connection) = self.connections.get(&id) {
            for key in connection.keys.iter() {
                self.rates.give_back(key, weight(key));
            }
        }
    }

    pub fn leave(&mut self, id: Id) -> Option<H> {
        self.busy(id);
        let connection = self.connections.remove(&id)?;
        for key in connection.keys.iter() {
            if let Some(group) = self.groups.get_mut(key) {
                group.connections -= 1;
                if group.connections == 0 {
                    self.groups.remove(key);
                }
            }
        }
        Some(connection.handle)
    }

    /// Those that have been silent for too long, which are no connections any more.
    pub fn expire(&mut self, now: Instant) -> Vec<H> {
        let late: Vec<Id> = self
            .silent
            .iter()
            .map(|(_, id)| *id)
            .filter(|id| {
                let connection = self.connections.get(id);
                connection
                    .and_then(|it| it.silent)
                    .is_some_and(|(_, until)| until <= now)
            })
            .collect();
        late.into_iter().filter_map(|id| self.leave(id)).collect()
    }

    fn limit(&self, key: &Key) -> usize {
        match key {
            Key::Site(_) => self.limits.site,
            Key::V4(_) | Key::V6(_) => self.limits.each,
        }
    }

    fn oldest_of(&self, key: Key) -> Option<Id> {
        self.groups.get(&key)?.silent.first().map(|(_, id)| *id)
    }
}

/// What a connection or a request costs in the bucket of that key.
pub fn weight(key: &Key) -> f64 {
    match key {
        Key::Site(_) => 0.25,
        Key::V4(_) | Key::V6(_) => 1.0,
    }
}

/// How the file descriptors that this process may have are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Connections of the REST API; each may take two more, to Python.
    pub rest: usize,
    /// Connections of the devices' port that have shown no certificate yet.
    pub handshakes: usize,
    pub devices: usize,
}

/// `files` is RLIMIT_NOFILE. An eighth, and at most a thousand, is kept for the database, gateways and files; of the rest
/// devices have half, however many strangers come.
pub fn shares(files: usize) -> Shares {
    let left = files - (files / 8).min(1000);
    Shares {
        rest: (left / 8).clamp(1, 2048),
        handshakes: (left / 8).clamp(1, 2048),
        devices: (left / 2).max(1),
    }
}

impl Limits {
    /// Of a port that strangers come to, with so many places.
    pub fn of(all: usize) -> Self {
        Self {
            all,
            each: (all / 4).clamp(1, 64),
            site: (all / 2).clamp(1, 256),
        }
    }
}
