//! The callers of the REST API: how often a source may ask, whose credentials are known, and whose turn it is.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use culvert_admission::{Buckets, Key, Rate, keys, weight};
use hyper::header::{self, HeaderMap};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Strangers' requests that Python handles at once, in all and from one source; and how long a further one may wait.
const STRANGERS: usize = 256;
const OF_ONE_SOURCE: usize = 16;
const TURN: Duration = Duration::from_secs(10);
/// The amount that a request costs its source in addition when the answer is 401 or 429.
const REFUSED: f64 = 1.0;
/// Good credentials that are remembered, and for how long.
const KNOWN: usize = 4096;
const KNOWN_FOR: Duration = Duration::from_secs(600);

pub struct Callers {
    asking: Mutex<Buckets<Key>>,
    probing: Mutex<Buckets<Key>>,
    strangers: Arc<Semaphore>,
    each: Mutex<HashMap<Key, Arc<Semaphore>>>,
    known: Mutex<HashMap<u64, Instant>>,
    hasher: RandomState,
}

impl Callers {
    /// `rate` limits the requests without good credentials from each IPv4 address or IPv6 /64.
    pub fn new(rate: Rate) -> Self {
        Self {
            asking: Mutex::new(Buckets::new(rate)),
            probing: Mutex::new(Buckets::new(rate)),
            strangers: Arc::new(Semaphore::new(STRANGERS)),
            each: Mutex::default(),
            known: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    pub fn may_ask(&self, source: IpAddr, probes: bool) -> bool {
        let buckets = if probes { &self.probing } else { &self.asking };
        let (now, mut buckets) = (Instant::now(), locked(buckets));
        keys(source)
            .iter()
            .all(|key| buckets.take(*key, weight(key), now))
    }

    pub fn charge_refusal(&self, source: IpAddr) {
        let (now, mut asking) = (Instant::now(), locked(&self.asking));
        for key in keys(source).iter() {
            asking.charge(*key, REFUSED * weight(key), now);
        }
    }

    /// A keyed hash of the request's credentials; none when the request has none.
    pub fn hash_credentials(&self, headers: &HeaderMap) -> Option<u64> {
        let shown = headers.get(header::AUTHORIZATION);
        let shown = shown.or_else(|| headers.get(header::COOKIE))?;
        Some(self.hasher.hash_one(shown.as_bytes()))
    }

    pub fn knows(&self, shown: Option<u64>) -> bool {
        let until = shown.and_then(|shown| locked(&self.known).get(&shown).copied());
        until.is_some_and(|until| until > Instant::now())
    }

    pub fn remember(&self, shown: u64) {
        let (now, mut known) = (Instant::now(), locked(&self.known));
        if known.len() >= KNOWN {
            known.retain(|_, until| *until > now);
        }
        if known.len() < KNOWN || known.contains_key(&shown) {
            known.insert(shown, now + KNOWN_FOR);
        }
    }

    pub fn forget(&self, shown: u64) {
        locked(&self.known).remove(&shown);
    }

    /// Waits until Python may handle a stranger's request. None after [`TURN`].
    pub async fn wait_for_turn(&self, source: IpAddr) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = {
            let mut each = locked(&self.each);
            each.retain(|_, turns| Arc::strong_count(turns) > 1);
            let key = keys(source).iter().next().copied()?;
            let turns = each.entry(key);
            Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(OF_ONE_SOURCE))))
        };
        let turns = async {
            let own = own.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.strangers).acquire_owned().await.ok()?;
            Some([own, all])
        };
        tokio::time::timeout(TURN, turns).await.ok().flatten()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
