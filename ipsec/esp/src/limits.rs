//! Lifetime of an SA (RFC 4301 section 4.4.2.1): in packets, in inner bytes, and in seconds since its first packet.

use std::time::Duration;

/// 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub packets: u64,
    pub bytes: u64,
    pub seconds: u64,
}

impl Limits {
    pub const NONE: Self = Self {
        packets: 0,
        bytes: 0,
        seconds: 0,
    };
}

/// A soft limit is said again after this many packets, because the first notice can be lost on its way.
const SOFT_REPEAT: u64 = 256;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lifetime {
    pub(crate) soft: Limits,
    pub(crate) hard: Limits,
    used: Usage,
    silent: u64,
}

/// Packets and bytes that an SA has carried, and the time of its first packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) first: Option<Duration>,
}

pub(crate) struct HardLimitReached;

impl Lifetime {
    pub(crate) fn new(soft: Limits, hard: Limits) -> Self {
        Self {
            soft,
            hard,
            ..Self::default()
        }
    }

    pub(crate) fn used(&self) -> Usage {
        self.used
    }

    pub(crate) fn resume(&mut self, used: Usage) {
        self.used = used;
    }

    /// Counts one packet; `true` when a soft limit notice is due. `now` is on any clock that never goes back.
    pub(crate) fn count(&mut self, bytes: usize, now: Duration) -> Result<bool, HardLimitReached> {
        let first = *self.used.first.get_or_insert(now);
        let age = || now.saturating_sub(first).as_secs();
        let packets = self.used.packets.saturating_add(1);
        let bytes = self.used.bytes.saturating_add(bytes as u64);
        let exceeds = |limits: Limits| {
            (limits.packets != 0 && packets > limits.packets)
                || (limits.bytes != 0 && bytes > limits.bytes)
                || (limits.seconds != 0 && age() >= limits.seconds)
        };
        if exceeds(self.hard) {
            return Err(HardLimitReached);
        }
        self.used.packets = packets;
        self.used.bytes = bytes;
        if !exceeds(self.soft) {
            return Ok(false);
        }
        let due = self.silent == 0;
        self.silent = if due {
            SOFT_REPEAT - 1
        } else {
            self.silent - 1
        };
        Ok(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lifetime: &mut Lifetime, bytes: usize) -> Option<bool> {
        lifetime.count(bytes, Duration::ZERO).ok()
    }

    #[test]
    fn zero_is_no_limit() {
        let mut lifetime = Lifetime::default();
        assert!((0..10_000).all(|_| run(&mut lifetime, 1500) == Some(false)));
    }

    #[test]
    fn a_soft_limit_is_repeated_and_a_hard_one_is_final() {
        let packets = |packets| Limits {
            packets,
            ..Limits::NONE
        };
        let mut lifetime = Lifetime::new(packets(2), packets(1000));
        let notices = (1..=1000).filter(|_| run(&mut lifetime, 1) == Some(true));
        assert_eq!(notices.count(), 4);
        assert_eq!(run(&mut lifetime, 1), None);
        assert_eq!((lifetime.used.packets, lifetime.used.bytes), (1000, 1000));
    }

    #[test]
    fn bytes_count_as_packets_do() {
        let bytes = |bytes| Limits {
            bytes,
            ..Limits::NONE
        };
        let mut lifetime = Lifetime::new(bytes(100), bytes(250));
        let seen: Vec<_> = (0..3).map(|_| run(&mut lifetime, 100)).collect();
        assert_eq!(seen, [Some(false), Some(true), None]);
        assert_eq!(run(&mut lifetime, 50), Some(false));
    }

    #[test]
    fn seconds_count_from_the_first_packet() {
        let seconds = |seconds| Limits {
            seconds,
            ..Limits::NONE
        };
        let mut lifetime = Lifetime::new(seconds(10), seconds(20));
        let at = [1000.0, 1009.9, 1010.0, 1019.9, 1020.0, 9999.0];
        let seen = at.map(|at| lifetime.count(1, Duration::from_secs_f64(at)).ok());
        assert_eq!(
            seen,
            [
                Some(false),
                Some(false),
                Some(true),
                Some(false),
                None,
                None
            ]
        );
    }
}
