//! Unpredictable IVs for CBC (RFC 3602 section 3).
//!
//! A guess of the next IV lets an attacker who chooses plaintext test guesses of earlier plaintext, so they come from
//! the system's random generator: many at a time, because asking costs more than encrypting a block.

use aws_lc_rs::rand;

const IV_LEN: usize = 16;
const BATCH: usize = 64;

pub(crate) struct RandomIvs {
    ivs: [[u8; IV_LEN]; BATCH],
    used: usize,
}

impl Default for RandomIvs {
    fn default() -> Self {
        Self {
            ivs: [[0; IV_LEN]; BATCH],
            used: BATCH,
        }
    }
}

impl RandomIvs {
    /// `None` when the system has no randomness.
    pub(crate) fn next(&mut self) -> Option<[u8; IV_LEN]> {
        if self.used >= BATCH {
            rand::fill(self.ivs.as_flattened_mut()).ok()?;
            self.used = 0;
        }
        let iv = self.ivs.get(self.used).copied();
        self.used += 1;
        iv
    }
}
