//! Digests of the data plane on their way to the primary: lists, acknowledged (P4Runtime 1.5, section 9.9).
//!
//! ```text
//!   data plane ─► duplicate? ─yes─► (nothing)
//!                    │no
//!                    ▼                max_list_size, or max_timeout
//!                 buffer ────────────────────────────────────────► list ─► primary
//!                                                                    │ remembered until acknowledged,
//!                                                                    ▼ at most ack_timeout
//!                                                                 unacknowledged
//! ```
//! All memory is bounded; messages that do not fit are counted and lost, as the specification allows.

mod handover;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::dataplane::plane::Message;
pub use handover::DigestState;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub max_timeout: Duration,
    /// 0: no limit but our own, [`MAX_BUFFERED`].
    pub max_list_size: usize,
    pub ack_timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    pub digest_id: u32,
    pub list_id: u64,
    pub messages: Vec<Arc<Message>>,
}

/// Messages of one digest that wait to be sent.
pub const MAX_BUFFERED: usize = 1024;
/// Messages of one digest that were sent and not acknowledged.
pub const MAX_UNACKNOWLEDGED: usize = 4096;

#[derive(Default)]
pub struct DigestQueue {
    learners: BTreeMap<u32, Learner>,
    last_list_id: u64,
    lost: u64,
}

struct Learner {
    config: Config,
    buffer: Vec<Arc<Message>>,
    oldest: Option<Instant>,
    unacknowledged: VecDeque<SentList>,
    /// The messages in `buffer` and `unacknowledged`.
    outstanding: HashSet<Arc<Message>>,
}

struct SentList {
    list_id: u64,
    expires: Instant,
    messages: Vec<Arc<Message>>,
}

impl DigestQueue {
    /// Enable a digest, or change its configuration.
    pub fn configure(&mut self, digest_id: u32, config: Config) {
        let learner = self
            .learners
            .entry(digest_id)
            .or_insert_with(|| Learner::new(config));
        learner.config = config;
    }

    /// Disable a digest and forget what it holds. False when it was not enabled.
    pub fn disable(&mut self, digest_id: u32) -> bool {
        self.learners.remove(&digest_id).is_some()
    }

    pub fn config(&self, digest_id: u32) -> Option<Config> {
        self.learners.get(&digest_id).map(|learner| learner.config)
    }

    /// Takes a message of the data plane. A message that is buffered or unacknowledged already is not taken again.
    pub fn push(&mut self, now: Instant, digest_id: u32, message: Message) {
        let Some(learner) = self.learners.get_mut(&digest_id) else {
            return;
        };
        learner.expire(now);
        if learner.outstanding.contains(&message) {
            return;
        }
        if learner.buffer.len() >= MAX_BUFFERED
            || learner.outstanding.len() >= MAX_BUFFERED + MAX_UNACKNOWLEDGED
        {
            self.lost += 1;
            return;
        }
        let message = Arc::new(message);
        learner.outstanding.insert(Arc::clone(&message));
        learner.buffer.push(message);
        learner.oldest.get_or_insert(now);
    }

    /// The next list that is due at `now`.
    pub fn poll(&mut self, now: Instant) -> Option<List> {
        let (digest_id, learner) = self
            .learners
            .iter_mut()
            .find(|(_, learner)| learner.due(now))?;
        self.last_list_id += 1;
        let messages = learner.take(self.last_list_id, now);
        Some(List {
            digest_id: *digest_id,
            list_id: self.last_list_id,
            messages,
        })
    }

    /// The time at which [`DigestQueue::poll`] next has something, if nothing else happens.
    pub fn deadline(&self) -> Option<Instant> {
        self.learners
            .values()
            .filter_map(|learner| Some(learner.oldest? + learner.config.max_timeout))
            .min()
    }

    /// The primary has acted on a list.
    pub fn acknowledge(&mut self, digest_id: u32, list_id: u64) {
        if let Some(learner) = self.learners.get_mut(&digest_id) {
            learner.forget(|sent| sent.list_id == list_id);
        }
    }

    /// Another program runs: its digests are not enabled yet. List ids go on, so that a late acknowledgement hits nothing.
    pub fn new_program(&mut self) {
        self.learners.clear();
    }

    /// Enables the digests that are enabled in `other`, with its configuration, and no others; their messages stay.
    pub fn adopt(&mut self, other: Self) {
        let mut old = std::mem::take(&mut self.learners);
        for (digest_id, learner) in other.learners {
            let config = learner.config;
            let kept = old.remove(&digest_id).unwrap_or(learner);
            self.learners.insert(digest_id, Learner { config, ..kept });
        }
    }

    /// Another client is primary: it has seen nothing yet.
    pub fn new_primary(&mut self) {
        self.learners
            .values_mut()
            .for_each(|learner| learner.forget(|_| true));
    }

    /// Messages lost for want of room since the start.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Learner {
    fn new(config: Config) -> Self {
        let (buffer, unacknowledged, outstanding) = Default::default();
        Self {
            config,
            buffer,
            oldest: None,
            unacknowledged,
            outstanding,
        }
    }

    fn limit(&self) -> usize {
        if self.config.max_list_size == 0 {
            MAX_BUFFERED
        } else {
            self.config.max_list_size.min(MAX_BUFFERED)
        }
    }

    fn due(&self, now: Instant) -> bool {
        self.oldest.is_some_and(|oldest| {
            self.buffer.len() >= self.limit() || now >= oldest + self.config.max_timeout
        })
    }

    fn take(&mut self, list_id: u64, now: Instant) -> Vec<Arc<Message>> {
        let count = self.buffer.len().min(self.limit());
        let messages: Vec<_> = self.buffer.drain(..count).collect();
        if self.buffer.is_empty() {
            self.oldest = None;
        }
        if self.config.ack_timeout.is_zero() {
            for message in &messages {
                self.outstanding.remove(message);
            }
        } else {
            let expires = now + self.config.ack_timeout;
            self.unacknowledged.push_back(SentList {
                list_id,
                expires,
                messages: messages.clone(),
            });
        }
        messages
    }

    fn expire(&mut self, now: Instant) {
        if self
            .unacknowledged
            .front()
            .is_some_and(|sent| sent.expires <= now)
        {
            self.forget(|sent| sent.expires <= now);
        }
    }

    fn forget(&mut self, which: impl Fn(&SentList) -> bool) {
        let outstanding = &mut self.outstanding;
        self.unacknowledged.retain(|sent| {
            let gone = which(sent);
            if gone {
                for message in &sent.messages {
                    outstanding.remove(message);
                }
            }
            !gone
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn queue(
        max_list_size: usize,
        max_timeout: Duration,
        ack_timeout: Duration,
    ) -> (DigestQueue, Instant) {
        let mut queue = DigestQueue::default();
        queue.configure(
            7,
            Config {
                max_timeout,
                max_list_size,
                ack_timeout,
            },
        );
        (queue, Instant::now())
    }

    fn message(n: u8) -> Message {
        vec![vec![n], vec![0]]
    }

    fn sizes(queue: &mut DigestQueue, now: Instant) -> Vec<usize> {
        std::iter::from_fn(|| queue.poll(now))
            .map(|list| list.messages.len())
            .collect()
    }

    #[test]
    fn size_one_and_timeout_zero_send_at_once_every_time() {
        let (mut queue, now) = queue(1, Duration::ZERO, Duration::ZERO);
        queue.push(now, 7, message(1));
        let first = queue.poll(now).unwrap();
        assert_eq!(
            (first.digest_id, first.list_id, first.messages.len()),
            (7, 1, 1)
        );
        queue.push(now, 7, message(1));
        assert_eq!(
            queue.poll(now).unwrap().list_id,
            2,
            "no acknowledgement asked for: repeated"
        );
        assert_eq!(queue.poll(now), None);
    }

    #[test]
    fn a_list_waits_for_its_size_or_its_timeout() {
        let (mut queue, now) = queue(3, 10 * MS, Duration::ZERO);
        queue.push(now, 7, message(1));
        queue.push(now + MS, 7, message(1));
        queue.push(now + MS, 7, message(2));
        assert_eq!(queue.poll(now + MS), None);
        assert_eq!(queue.deadline(), Some(now + 10 * MS));
        assert_eq!(
            sizes(&mut queue, now + 10 * MS),
            [2],
            "duplicates are not counted"
        );
        for n in 0..4 {
            queue.push(now + 20 * MS, 7, message(n));
        }
        assert_eq!(sizes(&mut queue, now + 20 * MS), [3]);
        assert_eq!(sizes(&mut queue, now + 30 * MS), [1]);
        assert_eq!(queue.deadline(), None);
    }

    #[test]
    fn what_is_not_acknowledged_is_not_repeated_before_its_timeout() {
        let (mut queue, now) = queue(1, Duration::ZERO, 10 * MS);
        let mut learn = |now| {
            queue.push(now, 7, message(1));
            queue.poll(now).map(|list| list.list_id)
        };
        assert_eq!(learn(now), Some(1));
        assert_eq!(learn(now + 9 * MS), None);
        assert_eq!(learn(now + 10 * MS), Some(2));
        queue.acknowledge(7, 1);
        queue.push(now + 11 * MS, 7, message(1));
        assert_eq!(
            queue.poll(now + 11 * MS),
            None,
            "an old list's acknowledgement frees nothing"
        );
        queue.acknowledge(7, 2);
        queue.push(now + 11 * MS, 7, message(1));
        assert!(queue.poll(now + 11 * MS).is_some());
    }

    #[test]
    fn a_new_primary_hears_again_what_the_old_one_never_acknowledged() {
        let (mut queue, now) = queue(1, Duration::ZERO, 1000 * MS);
        queue.push(now, 7, message(1));
        queue.poll(now).unwrap();
        queue.new_primary();
        queue.push(now, 7, message(1));
        assert!(queue.poll(now).is_some());
    }

    #[test]
    fn memory_is_bounded_and_losses_are_counted() {
        let (mut queue, now) = queue(0, 10 * MS, Duration::MAX / 4);
        for n in 0..3000_u16 {
            queue.push(now, 7, vec![n.to_be_bytes().to_vec()]);
        }
        assert_eq!(sizes(&mut queue, now), [MAX_BUFFERED]);
        assert_eq!(queue.lost(), 3000 - MAX_BUFFERED as u64);
    }

    #[test]
    fn a_digest_that_is_not_enabled_is_silent() {
        let (mut queue, now) = queue(1, Duration::ZERO, Duration::ZERO);
        queue.push(now, 8, message(1));
        assert!(queue.disable(7));
        assert!(!queue.disable(7));
        queue.push(now, 7, message(1));
        assert_eq!(queue.poll(now), None);
    }
}
