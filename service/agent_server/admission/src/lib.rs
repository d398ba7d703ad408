//! Decides which connections a port keeps, how often a source may connect and send requests, and which source addresses a
//! proxy may name. Pure: the clock is a parameter, and nothing here touches a socket.
//!
//! ```text
//!  accepted ─► admit ─┬─► Refused: over the source's rate, or at a limit without a silent connection
//!                     └─► Admitted ─► busy ◄─► silent ─► leave
//!                              └── at a limit the oldest silent connection is closed: of the source, then of all
//! ```
//! A connection is silent while it waits for its client: for the handshake, a request, or the next request after an answer.

mod buckets;
mod denials;
mod log;
pub mod proxy_protocol;
mod source;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Instant;

pub use buckets::{Buckets, Rate};
pub use denials::Denials;
pub use log::{Log, Report};
pub use source::{Forwarded, Key, Keys, Prefix, keys};

/// Limits of the connections that may be open at once.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    pub all: usize,
    /// Connections of each IPv4 address or IPv6 /64.
    pub each: usize,
    /// Connections of each IPv6 /48.
    pub site: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// The connections of one port. `H` is a handle with which the port closes a connection.
pub struct Admission<H> {
    limits: ConnectionLimits,
    rates: Buckets<Key>,
    next: u64,
    connections: HashMap<Id, Connection<H>>,
    silent: BTreeSet<(Instant, Id)>,
    groups: HashMap<Key, Group>,
}

struct Connection<H> {
    handle: H,
    keys: Keys,
    /// The time at which the silence began, and its deadline.
    silent: Option<(Instant, Instant)>,
}

#[derive(Default)]
struct Group {
    connections: usize,
    silent: BTreeSet<(Instant, Id)>,
}

impl<H> Admission<H> {
    /// `rate` limits the connections of each IPv4 address or IPv6 /64; an IPv6 /48 has four times that rate.
    pub fn new(limits: ConnectionLimits, rate: Rate) -> Self {
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

    /// Takes a new connection, which may be silent until `until`. Returns its id, and the handle of the connection that
    /// must be closed for it. A trusted proxy's connections belong to many people: only the limit for all applies to them.
    ///
    /// # Errors
    /// `Refused`: the caller must close the new connection.
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

    /// Counts a connection for another address from now on: a load balancer has told whose it is.
    ///
    /// # Errors
    /// `Refused`: the connection has left, and the caller must close it.
    pub fn introduce(
        &mut self,
        id: Id,
        address: IpAddr,
        trusted: bool,
        now: Instant,
        until: Instant,
    ) -> Result<(Id, Option<H>), Refused> {
        let handle = self.leave(id).ok_or(Refused)?;
        self.admit(address, trusted, handle, now, until)
    }

    /// The client has sent what the connection waited for: the connection cannot be closed for another until it is
    /// silent again.
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

    /// The client has shown good credentials: the connection no longer counts in its source's rate.
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

    /// Removes the connections that have been silent beyond their deadline, and returns their handles.
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

/// The amount that a connection or a request takes from the bucket of that key.
pub fn weight(key: &Key) -> f64 {
    match key {
        Key::Site(_) => 0.25,
        Key::V4(_) | Key::V6(_) => 1.0,
    }
}

/// Descriptors of a connection of the REST API: its own, and its socket pair to Python.
const REST_DESCRIPTORS: usize = 3;

/// The division of this process's file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Connections of the REST API, of `REST_DESCRIPTORS` each.
    pub rest: usize,
    /// Connections of the devices' port whose handshake has not ended.
    pub handshakes: usize,
    pub devices: usize,
}

/// `files` is RLIMIT_NOFILE. An eighth, at most 1,000, is reserved for the database, gateways and files. Strangers have half
/// of the rest, at most 8,192; devices have what is left, however many strangers connect.
pub fn shares(files: usize) -> Shares {
    let left = files - (files / 8).min(1000);
    let strangers = (left / 8).clamp(1, 2048);
    Shares {
        rest: strangers,
        handshakes: strangers,
        devices: left
            .saturating_sub((REST_DESCRIPTORS + 1) * strangers)
            .max(1),
    }
}

impl ConnectionLimits {
    /// The limits of a port that is open to strangers and has `all` places.
    pub fn of(all: usize) -> Self {
        Self {
            all,
            each: (all / 4).clamp(1, 64),
            site: (all / 2).clamp(1, 256),
        }
    }
}
