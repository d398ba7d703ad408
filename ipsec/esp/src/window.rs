//! The replay window (RFC 4303 section 3.4.3 and appendix A2): which 64-bit sequence numbers came before.
//!
//! ```text
//!        refused       │        window: a bit each        │   new: moves the window
//!  ────────────────────┼──────────────────────────────────┼──────────────────────────►
//!                top - size                              top
//! ```
//!
//! A ring of 64-bit blocks with one block to spare: the window moves by clearing blocks, never by shifting.

use crate::contract::MIN_REPLAY_WINDOW;

const BLOCK: u64 = 64;

pub(crate) struct ReplayWindow {
    top: u64,
    size: u64,
    blocks: Box<[u64]>,
}

impl ReplayWindow {
    /// A window of at least `MIN_REPLAY_WINDOW` in which everything up to `seen` counts as received.
    pub(crate) fn resume_after(seen: u64, size: u16) -> Self {
        let size = u64::from(size.max(MIN_REPLAY_WINDOW));
        let blocks = (size.div_ceil(BLOCK) as usize + 1).next_power_of_two();
        let mut window = Self {
            top: seen,
            size,
            blocks: vec![u64::MAX; blocks].into(),
        };
        let index = window.index(seen);
        window.blocks[index] >>= BLOCK - 1 - seen % BLOCK;
        window
    }

    /// A window as it was in another process; `None` when `blocks` are not those of a window of this size.
    pub(crate) fn restore(top: u64, size: u16, blocks: &[u64]) -> Option<Self> {
        let mut window = Self::resume_after(top, size);
        if blocks.len() != window.blocks.len() {
            return None;
        }
        window.blocks.copy_from_slice(blocks);
        Some(window)
    }

    /// The bits, for [`ReplayWindow::restore`].
    pub(crate) fn blocks(&self) -> &[u64] {
        &self.blocks
    }

    pub(crate) fn size(&self) -> u16 {
        self.size as u16
    }

    pub(crate) fn top(&self) -> u64 {
        self.top
    }

    /// The 64-bit number behind a received low half (appendix A2.2), `None` if no such number can exist.
    pub(crate) fn recover(&self, low: u32) -> Option<u64> {
        let (high, top_low) = (self.top >> 32, self.top as u32);
        let bottom = top_low.wrapping_sub(self.size as u32 - 1);
        let high = match (u64::from(top_low) >= self.size - 1, low >= bottom) {
            (true, true) | (false, false) => high,
            (true, false) => high + 1,
            (false, true) => high.checked_sub(1)?,
        };
        (high <= u64::from(u32::MAX)).then_some(high << 32 | u64::from(low))
    }

    /// Returns whether the number was not seen before and is not older than the window.
    pub(crate) fn is_new(&self, sequence: u64) -> bool {
        if sequence > self.top {
            return true;
        }
        self.top - sequence < self.size && self.blocks[self.index(sequence)] & bit(sequence) == 0
    }

    /// Marks an authenticated sequence number; the window moves up to it.
    pub(crate) fn mark(&mut self, sequence: u64) {
        let (old, new) = (self.top / BLOCK, sequence / BLOCK);
        if sequence > self.top {
            for block in (old + 1..=new).rev().take(self.blocks.len()) {
                let index = self.index(block * BLOCK);
                self.blocks[index] = 0;
            }
            self.top = sequence;
        }
        let index = self.index(sequence);
        self.blocks[index] |= bit(sequence);
    }

    fn index(&self, sequence: u64) -> usize {
        (sequence / BLOCK) as usize & (self.blocks.len() - 1)
    }
}

fn bit(sequence: u64) -> u64 {
    1 << (sequence % BLOCK)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// The definition, without the ring.
    struct Naive {
        top: u64,
        size: u64,
        seen: HashSet<u64>,
    }

    impl Naive {
        fn is_new(&self, sequence: u64) -> bool {
            sequence > self.top
                || (sequence + self.size > self.top && !self.seen.contains(&sequence))
        }

        fn mark(&mut self, sequence: u64) {
            self.top = self.top.max(sequence);
            self.seen.insert(sequence);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(
            start in prop_oneof![Just(0u64), 0..5000u64, (1u64 << 32) - 3000..(1 << 32) + 3000],
            size in prop_oneof![Just(1024u16), 1024..1200u16, Just(u16::MAX)],
            steps in prop::collection::vec(
                prop_oneof![8 => -80..80i64, 2 => -1300..1300i64, 1 => -70_000..70_000i64, 1 => Just(1 << 20)], 1..400),
        ) {
            let mut ring = ReplayWindow::resume_after(start, size);
            let mut naive = Naive { top: start, size: u64::from(size), seen: (start.saturating_sub(70_000)..=start).collect() };
            for step in steps {
                let Some(sequence) = naive.top.checked_add_signed(step) else { continue };
                prop_assert_eq!(ring.is_new(sequence), naive.is_new(sequence), "{} at top {}", sequence, naive.top);
                if naive.is_new(sequence) {
                    naive.mark(sequence);
                    ring.mark(sequence);
                    prop_assert!(!ring.is_new(sequence));
                }
                prop_assert_eq!(ring.top(), naive.top);
            }
        }

        #[test]
        fn recovers_whatever_is_near_the_window(
            top in prop_oneof![0..3000u64, (1u64 << 32) - 3000..(1 << 32) + 3000, (5u64 << 32) - 70_000..(5 << 32) + 70_000, any::<u64>()],
            size in prop_oneof![Just(1024u16), Just(u16::MAX)],
            offset in -1023i64..(1 << 31),
        ) {
            let window = ReplayWindow::resume_after(top, size);
            if let Some(sequence) = top.checked_add_signed(offset) {
                prop_assert_eq!(window.recover(sequence as u32), Some(sequence));
            }
        }
    }

    #[test]
    fn nothing_lies_before_the_first_packet_or_behind_the_last() {
        let first = ReplayWindow::resume_after(0, 1024);
        assert!(!first.is_new(0));
        assert!(first.is_new(1));
        assert_eq!(first.recover(u32::MAX), None);
        assert_eq!(ReplayWindow::resume_after(u64::MAX, 1024).recover(5), None);
    }
}
