//! Frames in a batch: those that came in, with what the kernel took out of them put back, and those to go out.

use std::ops::Range;

/// Frames that one system call moves at most.
pub const BATCH: usize = 64;
/// Bytes of the longest frame that is taken whole: a jumbo frame and a VLAN tag.
pub(super) const FRAME: usize = 9728;
/// Room in front of a frame for the VLAN tag that the kernel took out.
pub(super) const TAG: usize = 4;
pub(super) const SLOT: usize = TAG + FRAME;
/// Frames that came in together.
pub struct Received {
    pub(super) slots: Box<[u8]>,
    pub(super) control: Box<[Control; BATCH]>,
    pub(super) frames: Vec<Range<usize>>,
    /// Longer than any frame on a wire: the sender's segmentation offload is on.
    pub oversize: u64,
    /// With a checksum that the sender left to hardware: its transmit checksum offload is on.
    pub unfinished: u64,
}

/// A control message with `tpacket_auxdata`: header, then data (both fit, and the kernel fills no more).
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; 64]);

/// Frames to go out together.
#[derive(Default)]
pub struct Outgoing {
    pub(super) bytes: Vec<u8>,
    pub(super) frames: Vec<Range<usize>>,
}

impl Default for Received {
    fn default() -> Self {
        Self {
            slots: vec![0; SLOT * BATCH].into_boxed_slice(),
            control: Box::new([Control([0; 64]); BATCH]),
            frames: Vec::with_capacity(BATCH),
            oversize: 0,
            unfinished: 0,
        }
    }
}

impl Received {
    pub fn frames(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.frames.iter().map(|frame| &self.slots[frame.clone()])
    }

    /// Takes over what the kernel wrote into slot `index`.
    pub(super) fn add(&mut self, index: usize, length: usize, truncated: bool, control: &[u8]) {
        if truncated || length > FRAME {
            self.oversize += 1;
            return;
        }
        let auxiliary = Auxiliary::parse(control);
        if auxiliary.status & libc::TP_STATUS_CSUMNOTREADY != 0 {
            self.unfinished += 1;
        }
        let slot = index * SLOT;
        let mut start = slot + TAG;
        if let Some(tag) = auxiliary.tag().filter(|_| length >= 12) {
            self.slots.copy_within(start..start + 12, slot);
            self.slots[slot + 12..slot + 16].copy_from_slice(&tag);
            start = slot;
        }
        self.frames.push(start..slot + TAG + length);
    }
}

impl Outgoing {
    pub fn push(&mut self, frame: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame);
        self.frames.push(start..self.bytes.len());
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
    }
}

/// What the kernel says about a frame beside its bytes (`struct tpacket_auxdata`).
#[derive(Clone, Copy, Debug, Default)]
struct Auxiliary {
    status: u32,
    tci: u16,
    tpid: u16,
}

impl Auxiliary {
    /// From the first control message: 16 bytes of header (length, level, type), then the data.
    fn parse(control: &[u8]) -> Self {
        let long = |at: usize| {
            control
                .get(at..at + 4)?
                .try_into()
                .ok()
                .map(u32::from_ne_bytes)
        };
        let short = |at: usize| {
            control
                .get(at..at + 2)?
                .try_into()
                .ok()
                .map(u16::from_ne_bytes)
        };
        let (level, kind) = (long(8), long(12));
        if level != Some(libc::SOL_PACKET as u32) || kind != Some(libc::PACKET_AUXDATA as u32) {
            return Self::default();
        }
        match (long(16), short(32), short(34)) {
            (Some(status), Some(tci), Some(tpid)) => Self { status, tci, tpid },
            _ => Self::default(),
        }
    }

    /// The VLAN tag (IEEE 802.1Q) that the kernel took out of the frame.
    fn tag(self) -> Option<[u8; 4]> {
        if self.status & libc::TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let known = self.status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let tpid = if known {
            self.tpid
        } else {
            libc::ETH_P_8021Q as u16
        };
        let ([a, b], [c, d]) = (tpid.to_be_bytes(), self.tci.to_be_bytes());
        Some([a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(status: u32, tci: u16, tpid: u16) -> Vec<u8> {
        let mut control = 36_u64.to_ne_bytes().to_vec();
        control.extend((libc::SOL_PACKET as u32).to_ne_bytes());
        control.extend((libc::PACKET_AUXDATA as u32).to_ne_bytes());
        control.extend(status.to_ne_bytes());
        control.extend([0; 12]);
        control.extend(tci.to_ne_bytes());
        control.extend(tpid.to_ne_bytes());
        control
    }

    fn received(length: usize, truncated: bool, control: &[u8]) -> (Received, Vec<Vec<u8>>) {
        let mut received = Received::default();
        for (at, byte) in received.slots[SLOT + TAG..SLOT + TAG + 64]
            .iter_mut()
            .enumerate()
        {
            *byte = at as u8;
        }
        received.add(1, length, truncated, control);
        let frames = received.frames().map(<[u8]>::to_vec).collect();
        (received, frames)
    }

    #[test]
    fn a_tag_that_the_kernel_took_out_is_put_back() {
        let valid = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        let (_, frames) = received(60, false, &control(valid, 0x2005, 0x88a8));
        assert_eq!(frames[0].len(), 64);
        assert_eq!(frames[0][10..18], [10, 11, 0x88, 0xa8, 0x20, 0x05, 12, 13]);
        let (_, frames) = received(60, false, &control(libc::TP_STATUS_VLAN_VALID, 5, 0));
        assert_eq!(frames[0][12..16], [0x81, 0, 0, 5]);
    }

    #[test]
    fn other_frames_are_as_they_were() {
        for control in [
            control(0, 0, 0),
            Vec::new(),
            control(0, 0, 0)[..20].to_vec(),
        ] {
            let (_, frames) = received(60, false, &control);
            assert_eq!(frames, [(0..60).collect::<Vec<u8>>()]);
        }
    }

    #[test]
    fn offloaded_frames_are_counted() {
        let (counts, frames) = received(60, false, &control(libc::TP_STATUS_CSUMNOTREADY, 0, 0));
        assert_eq!((counts.unfinished, frames.len()), (1, 1));
        let (counts, frames) = received(FRAME, true, &[]);
        assert_eq!((counts.oversize, frames.len()), (1, 0));
    }
}
