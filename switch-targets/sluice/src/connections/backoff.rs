//! The delays between attempts to reach a controller: doubled after each failure, and random, so that the gateways of a controller
//! that comes back do not all dial at once. Pure: time and randomness are parameters.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(8);
/// A connection that lasted for this time was a success.
const LASTED: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct Backoff {
    /// Failures since the last success.
    failures: u32,
}

impl Backoff {
    /// The delay after an attempt, or its connection, that ended after `lasted`. `random` chooses between half of the delay
    /// and all of it.
    pub fn after(&mut self, lasted: Duration, random: u32) -> Duration {
        if lasted >= LASTED {
            self.failures = 0;
        }
        let delay = FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        let share = f64::from(random) / f64::from(u32::MAX);
        delay.min(LONGEST).mul_f64(0.5 + share / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit_and_start_again_after_a_success() {
        let mut backoff = Backoff::default();
        let mut after = |seconds| {
            backoff
                .after(Duration::from_secs(seconds), u32::MAX)
                .as_millis()
        };
        let failed: Vec<_> = (0..7).map(|_| after(0)).collect();
        assert_eq!(failed, [250, 500, 1000, 2000, 4000, 8000, 8000]);
        assert_eq!([after(5), after(4), after(60)], [250, 500, 250]);
    }

    #[test]
    fn a_delay_is_at_least_half_of_the_longest_possible() {
        for random in [0, 1 << 30, u32::MAX] {
            let delay = Backoff::default().after(Duration::ZERO, random);
            assert!((FIRST / 2..=FIRST).contains(&delay));
        }
    }
}
