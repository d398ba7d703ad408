//! Frames on their way in, with what the kernel took out of them put back, and those to go out.

/// Room in front of a frame for the VLAN tag that the kernel took out.
const TAG: usize = 4;

/// What the kernel says about a frame beside its bytes (`struct tpacket2_hdr`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrived {
    pub status: u32,
    /// Bytes on the wire, and those of them that found room.
    pub length: usize,
    pub taken: usize,
    /// Where the frame begins.
    pub start: usize,
    pub tci: u16,
    pub tpid: u16,
}

impl Arrived {
    /// The VLAN tag (IEEE 802.1Q) that the kernel took out of the frame.
    fn tag(&self) -> Option<[u8; TAG]> {
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

/// Counts what came in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Intake {
    pub frames: u64,
    /// Longer than the interface's MTU allows: the sender's segmentation offload is on.
    pub oversize: u64,
    /// With a checksum that the sender left to hardware: its transmit checksum offload is on.
    pub unfinished: u64,
}

impl Intake {
    /// The whole frame within its slot; none when it was too long for it.
    pub fn frame<'a>(&mut self, arrived: &Arrived, slot: &'a mut [u8]) -> Option<&'a [u8]> {
        self.frames += 1;
        let (mut start, end) = (arrived.start, arrived.start + arrived.length);
        if arrived.taken < arrived.length || end > slot.len() || start < TAG {
            self.oversize += 1;
            return None;
        }
        if arrived.status & libc::TP_STATUS_CSUMNOTREADY != 0 {
            self.unfinished += 1;
        }
        if let Some(tag) = arrived.tag().filter(|_| arrived.length >= 12) {
            slot.copy_within(start..start + 12, start - TAG);
            start -= TAG;
            slot[start + 12..start + 12 + TAG].copy_from_slice(&tag);
        }
        Some(&slot[start..end])
    }
}

/// Frames to go out together.
#[derive(Default)]
pub struct Outgoing {
    pub(super) frames: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Outgoing {
    /// Takes the frame's buffer and leaves another.
    pub fn push(&mut self, frame: &mut Vec<u8>) {
        let spare = self.spare.pop().unwrap_or_default();
        self.frames.push(std::mem::replace(frame, spare));
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub fn clear(&mut self) {
        self.spare.append(&mut self.frames);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const START: usize = 34;

    fn received(arrived: Arrived) -> (Intake, Option<Vec<u8>>) {
        let mut slot = vec![0xff; 200];
        for (at, byte) in slot[START..START + 64].iter_mut().enumerate() {
            *byte = at as u8;
        }
        let mut intake = Intake::default();
        let frame = intake.frame(&arrived, &mut slot).map(<[u8]>::to_vec);
        (intake, frame)
    }

    fn arrived(status: u32, tci: u16, tpid: u16) -> Arrived {
        Arrived {
            status,
            length: 60,
            taken: 60,
            start: START,
            tci,
            tpid,
        }
    }

    #[test]
    fn a_tag_that_the_kernel_took_out_is_put_back() {
        let valid = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        let frame = received(arrived(valid, 0x2005, 0x88a8)).1.unwrap();
        assert_eq!(frame.len(), 64);
        assert_eq!(frame[10..18], [10, 11, 0x88, 0xa8, 0x20, 0x05, 12, 13]);
        let frame = received(arrived(libc::TP_STATUS_VLAN_VALID, 5, 0)).1;
        assert_eq!(frame.unwrap()[12..16], [0x81, 0, 0, 5]);
    }

    #[test]
    fn other_frames_are_as_they_were() {
        let (intake, frame) = received(arrived(0, 0, 0));
        assert_eq!(frame.unwrap(), (0..60).collect::<Vec<u8>>());
        assert_eq!(
            (intake.frames, intake.oversize, intake.unfinished),
            (1, 0, 0)
        );
    }

    #[test]
    fn offloaded_frames_are_counted() {
        let (intake, frame) = received(arrived(libc::TP_STATUS_CSUMNOTREADY, 0, 0));
        assert_eq!((intake.unfinished, frame.is_some()), (1, true));
        let long = Arrived {
            length: 61,
            ..arrived(0, 0, 0)
        };
        let (intake, frame) = received(long);
        assert_eq!((intake.oversize, frame), (1, None));
    }

    #[test]
    fn buffers_go_round() {
        let (mut outgoing, mut frame) = (Outgoing::default(), vec![1, 2, 3]);
        outgoing.push(&mut frame);
        assert_eq!(
            (outgoing.frames.as_slice(), frame.len()),
            ([vec![1, 2, 3]].as_slice(), 0)
        );
        outgoing.clear();
        assert!(outgoing.is_empty());
        outgoing.push(&mut frame);
        assert_eq!(frame, [1, 2, 3], "a buffer to be written over");
    }
}
