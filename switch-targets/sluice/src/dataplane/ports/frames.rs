//! Frames on their way in, with what the kernel took out of them put back, and those to go out.

use offload::{Link, Malformed, Merger, Vnet, packets};

/// Room in front of a frame for the VLAN tag that the kernel took out.
pub(super) const TAG: usize = 4;

/// The kernel's description of a frame (`struct tpacket2_hdr`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameInfo {
    pub status: u32,
    /// Bytes on the wire, and those of them that found room.
    pub length: usize,
    pub taken: usize,
    /// Offset of the frame's first byte.
    pub start: usize,
    pub tci: u16,
    pub tpid: u16,
    /// The virtio header, if the socket has offloads.
    pub vnet: Option<Vnet>,
}

impl FrameInfo {
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
pub(super) struct IntakeCounts {
    /// Packets handed over.
    pub packets: u64,
    /// Super-frames that found no room to wait in.
    pub missed: u64,
    /// Longer than the interface's MTU allows.
    pub oversize: u64,
    /// Frames whose sender left the checksum to hardware, on a socket without offloads.
    pub unfinished: u64,
    /// Frames that stood for several packets.
    pub super_frames: u64,
    /// Frames that contradict the header before them, and the contradiction of the last one.
    pub malformed: u64,
    pub fault: Option<Malformed>,
}

impl IntakeCounts {
    /// Hands over the packets that a frame stands for. It lies in `slot`.
    pub fn take(&mut self, arrived: &FrameInfo, slot: &mut [u8], mut each: impl FnMut(&[u8])) {
        let Some(frame) = self.frame(arrived, slot) else {
            return;
        };
        let Some(mut vnet) = arrived.vnet else {
            self.packets += 1;
            return each(frame);
        };
        vnet.csum_start = vnet
            .csum_start
            .saturating_add((frame.len() - arrived.length) as u16);
        match packets(frame, Link::Ethernet, &vnet, each) {
            Ok(packets) => {
                self.packets += packets as u64;
                self.super_frames += u64::from(vnet.is_super());
            }
            Err(fault) => {
                self.malformed += 1;
                self.fault = Some(fault);
            }
        }
    }

    /// The whole frame within its slot; none when it was too long for it.
    fn frame<'a>(&mut self, arrived: &FrameInfo, slot: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (mut start, end) = (arrived.start, arrived.start + arrived.length);
        if arrived.taken < arrived.length || end > slot.len() || start < TAG {
            self.oversize += 1;
            return None;
        }
        if arrived.vnet.is_none() && arrived.status & libc::TP_STATUS_CSUMNOTREADY != 0 {
            self.unfinished += 1;
        }
        if let Some(tag) = arrived.tag().filter(|_| arrived.length >= 12) {
            slot.copy_within(start..start + 12, start - TAG);
            start -= TAG;
            slot[start + 12..start + 12 + TAG].copy_from_slice(&tag);
        }
        Some(&mut slot[start..end])
    }
}

/// Frames to go out together.
#[derive(Default)]
pub struct Outgoing {
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) merger: Merger,
    spare: Vec<Vec<u8>>,
    pub(super) bytes: u64,
}

impl Outgoing {
    /// Takes the frame's buffer and leaves another.
    pub fn push(&mut self, frame: &mut Vec<u8>) {
        let spare = self.spare.pop().unwrap_or_default();
        self.bytes += frame.len() as u64;
        self.frames.push(std::mem::replace(frame, spare));
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub fn clear(&mut self) {
        self.spare.append(&mut self.frames);
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use offload::{fold, sum};

    const START: usize = 34;

    fn received(arrived: FrameInfo) -> (IntakeCounts, Option<Vec<u8>>) {
        let mut slot = vec![0xff; 200];
        for (at, byte) in slot[START..START + 64].iter_mut().enumerate() {
            *byte = at as u8;
        }
        let (mut intake, mut frame) = (IntakeCounts::default(), None);
        intake.take(&arrived, &mut slot, |bytes| frame = Some(bytes.to_vec()));
        (intake, frame)
    }

    fn arrived(status: u32, tci: u16, tpid: u16) -> FrameInfo {
        FrameInfo {
            status,
            length: 60,
            taken: 60,
            start: START,
            tci,
            tpid,
            vnet: None,
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
            (intake.packets, intake.oversize, intake.unfinished),
            (1, 0, 0)
        );
    }

    #[test]
    fn a_checksum_is_finished_behind_a_tag_that_was_put_back() {
        let vnet = Vnet {
            flags: 1,
            csum_start: 20,
            csum_offset: 6,
            ..Vnet::default()
        };
        let tagged = FrameInfo {
            vnet: Some(vnet),
            ..arrived(libc::TP_STATUS_VLAN_VALID, 5, 0)
        };
        let (intake, frame) = received(tagged);
        assert_eq!(fold(sum(&frame.unwrap()[24..])), 0xffff - 0x1a1b);
        assert_eq!((intake.packets, intake.unfinished), (1, 0));
        let outside = FrameInfo {
            vnet: Some(Vnet {
                csum_start: 59,
                ..vnet
            }),
            ..arrived(0, 0, 0)
        };
        let (intake, frame) = received(outside);
        assert_eq!((intake.malformed, frame), (1, None));
        assert_eq!(intake.fault, Some(Malformed::Checksum));
    }

    #[test]
    fn offloaded_frames_are_counted() {
        let (intake, frame) = received(arrived(libc::TP_STATUS_CSUMNOTREADY, 0, 0));
        assert_eq!((intake.unfinished, frame.is_some()), (1, true));
        let long = FrameInfo {
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
