//! Limits of each device (connections, calls under way, calls a second), and the certificates that are refused.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use culvert_admission::{Buckets, Denials, Rate};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// SHA-256 of a certificate's DER.
pub type Fingerprint = [u8; 32];

/// Connections of one certificate. A device that roams opens a new connection before its old one is known to be dead.
const CONNECTIONS: usize = 8;
/// Calls of one certificate that are under way, on all of its connections.
const CALLS: usize = 64;
/// Calls of one certificate that wait for Python's first message.
const AT_ONCE: usize = 8;
/// A refused certificate may connect once in this time, and for this time, so that Python can tell the device the reason.
/// Every other handshake of it fails.
const TOLD_EVERY: Duration = Duration::from_secs(2);
/// Refused certificates that are remembered, and for how long after the last handshake of each. Python still refuses each
/// call of a certificate that is forgotten.
const DENIED: usize = 1 << 16;
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The number of a device's calls that were refused because they exceeded the rate.
pub struct Limited {
    pub fingerprint: Fingerprint,
    pub address: IpAddr,
    pub count: u64,
}

#[derive(Debug)]
pub struct Devices {
    most: usize,
    state: Mutex<DeviceTable>,
}

struct DeviceTable {
    rates: Buckets<Fingerprint>,
    next: u64,
    connections: usize,
    devices: HashMap<Fingerprint, ConnectedDevice>,
    denied: Denials<Fingerprint>,
    limited: HashMap<Fingerprint, (IpAddr, u64)>,
}

impl std::fmt::Debug for DeviceTable {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("DeviceTable").finish_non_exhaustive()
    }
}

struct ConnectedDevice {
    /// The oldest first.
    connections: VecDeque<(u64, oneshot::Sender<()>)>,
    calls: usize,
    turns: Arc<Semaphore>,
}

pub fn fingerprint(certificate: &[u8]) -> Fingerprint {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    fingerprint
}

impl Devices {
    /// `most` limits the connections of all devices together, `rate` the calls of each device.
    pub fn new(most: usize, rate: Rate) -> Self {
        Self {
            most,
            state: Mutex::new(DeviceTable {
                rates: Buckets::new(rate),
                next: 0,
                connections: 0,
                devices: HashMap::new(),
                denied: Denials::new(DENIED, FORGOTTEN_AFTER, TOLD_EVERY),
                limited: HashMap::new(),
            }),
        }
    }

    /// Returns whether a handshake with this certificate may succeed now.
    pub fn may_connect(&self, fingerprint: &Fingerprint) -> bool {
        let now = Instant::now();
        self.state().denied.may_connect(*fingerprint, now)
    }

    /// Refuses the certificate from now on. Its connections live for [`TOLD_EVERY`], so that their calls can be told the reason.
    pub fn deny(&self, fingerprint: Fingerprint) {
        self.state().denied.deny(fingerprint, Instant::now());
    }

    /// Cuts the connections of refused certificates whose time is over.
    pub fn cut_denied(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let DeviceTable {
            denied,
            devices,
            connections,
            ..
        } = &mut *state;
        denied.expire(now);
        for (fingerprint, device) in devices {
            if denied.ends(*fingerprint, now) {
                *connections -= device.connections.len();
                device.connections.clear();
            }
        }
    }

    /// Takes a new connection of that certificate; the receiver resolves when the connection must end. At a limit the
    /// oldest connection of the same certificate ends, never another certificate's. None when that certificate has none.
    pub fn connect(
        self: &Arc<Self>,
        fingerprint: Fingerprint,
    ) -> Option<(Seat, oneshot::Receiver<()>)> {
        let (ends, ended) = oneshot::channel();
        let mut state = self.state();
        let full = state.connections >= self.most;
        let number = state.next;
        let device = state
            .devices
            .entry(fingerprint)
            .or_insert_with(|| ConnectedDevice {
                connections: VecDeque::new(),
                calls: 0,
                turns: Arc::new(Semaphore::new(AT_ONCE)),
            });
        if full || device.connections.len() >= CONNECTIONS {
            if device.connections.is_empty() {
                if device.calls == 0 {
                    state.devices.remove(&fingerprint);
                }
                return None;
            }
            device.connections.pop_front();
            state.connections -= 1;
        }
        if let Some(device) = state.devices.get_mut(&fingerprint) {
            device.connections.push_back((number, ends));
        }
        state.connections += 1;
        state.next += 1;
        let seat = Seat {
            devices: Arc::clone(self),
            fingerprint,
            number,
        };
        Some((seat, ended))
    }

    /// Takes a call of that device. None when the device calls too often, or has too many calls under way.
    pub fn call(self: &Arc<Self>, fingerprint: Fingerprint, address: IpAddr) -> Option<CallPermit> {
        let now = Instant::now();
        let mut state = self.state();
        let under_way = state.devices.get(&fingerprint).map_or(0, |it| it.calls);
        if under_way < CALLS && state.rates.take(fingerprint, 1.0, now) {
            let device = state.devices.get_mut(&fingerprint)?;
            device.calls += 1;
            return Some(CallPermit {
                devices: Arc::clone(self),
                fingerprint,
                turns: Arc::clone(&device.turns),
            });
        }
        state.limited.entry(fingerprint).or_insert((address, 0)).1 += 1;
        None
    }

    /// The calls that were refused since the previous look, by device.
    pub fn limited(&self) -> Vec<Limited> {
        let limited = std::mem::take(&mut self.state().limited);
        let each = limited.into_iter();
        each.map(|(fingerprint, (address, count))| Limited {
            fingerprint,
            address,
            count,
        })
        .collect()
    }

    fn state(&self) -> MutexGuard<'_, DeviceTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a device's connection, which is free again when this is dropped.
pub struct Seat {
    devices: Arc<Devices>,
    fingerprint: Fingerprint,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.devices.state();
        let Some(device) = state.devices.get_mut(&self.fingerprint) else {
            return;
        };
        let before = device.connections.len();
        device
            .connections
            .retain(|(number, _)| *number != self.number);
        let left = before - device.connections.len();
        if device.connections.is_empty() && device.calls == 0 {
            state.devices.remove(&self.fingerprint);
        }
        state.connections -= left;
    }
}

/// A call that is under way until this is dropped.
pub struct CallPermit {
    devices: Arc<Devices>,
    fingerprint: Fingerprint,
    turns: Arc<Semaphore>,
}

impl CallPermit {
    /// Waits until Python may handle this call.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut state = self.devices.state();
        if let Some(device) = state.devices.get_mut(&self.fingerprint) {
            device.calls -= 1;
            if device.connections.is_empty() && device.calls == 0 {
                state.devices.remove(&self.fingerprint);
            }
        }
    }
}
