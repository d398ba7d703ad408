//! How long an SA may live (RFC 4301 section 4.4.2.1), counted in packets and in inner bytes.

/// 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub packets: u64,
    pub bytes: u64,
}

/// A soft limit is said again after this many packets, because the first notice can be lost on its way.
const SOFT_REPEAT: u64 = 256;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lifetime {
    pub(crate) soft: Limits,
    pub(crate) hard: Limits,
    used: Limits,
    silent: u64,
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

    pub(crate) fn used(&self) -> Limits {
        self.used
    }

    pub(crate) fn resume(&mut self, used: Limits) {
        self.used = used;
    }

    /// Counts one packet; `true` when a soft limit notice is due.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<bool, HardLimitReached> {
        let packets = self.used.packets.saturating_add(1);
        let bytes = self.used.bytes.saturating_add(bytes as u64);
        let exceeds = |limits: Limits| {
            (limits.packets != 0 && packets > limits.packets)
                || (limits.bytes != 0 && bytes > limits.bytes)
        };
        if exceeds(self.hard) {
            return Err(HardLimitReached);
        }
        self.used = Limits { packets, bytes };
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
        lifetime.count(bytes).ok()
    }

    #[test]
    fn zero_is_no_limit() {
        let mut lifetime = Lifetime::new(Limits::default(), Limits::default());
        assert!((0..10_000).all(|_| run(&mut lifetime, 1500) == Some(false)));
    }

    #[test]
    fn a_soft_limit_is_repeated_and_a_hard_one_is_final() {
        let soft = Limits {
            packets: 2,
            bytes: 0,
        };
        let mut lifetime = Lifetime::new(
            soft,
            Limits {
                packets: 1000,
                bytes: 0,
            },
        );
        let notices: Vec<usize> = (1..=1000)
            .filter(|_| run(&mut lifetime, 1) == Some(true))
            .collect();
        assert_eq!(notices.len(), 4);
        assert_eq!(run(&mut lifetime, 1), None);
        assert_eq!(
            lifetime.used(),
            Limits {
                packets: 1000,
                bytes: 1000
            }
        );
    }

    #[test]
    fn bytes_count_as_packets_do() {
        let mut lifetime = Lifetime::new(
            Limits {
                packets: 0,
                bytes: 100,
            },
            Limits {
                packets: 0,
                bytes: 250,
            },
        );
        let seen: Vec<_> = (0..3).map(|_| run(&mut lifetime, 100)).collect();
        assert_eq!(seen, [Some(false), Some(true), None]);
        assert_eq!(run(&mut lifetime, 50), Some(false));
    }
}
