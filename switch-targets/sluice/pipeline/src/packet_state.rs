//! The state of one packet in the pipeline: headers, payload, and the program's requests.

use crate::layout::{HeaderIx, Layout};
use crate::payload::Payload;
use crate::phv::Phv;

#[derive(Clone, Debug, Default)]
pub struct PacketState {
    pub phv: Phv,
    pub payload: Payload,
    /// Bytes of the packet when this pass began: what counters count.
    pub ingress_len: usize,
    /// The port that the packet came from when this pass began.
    pub ingress_port: u128,
    /// Bytes of the packet as headers come and go: what egress finds in `packet_length`.
    pub len: usize,
    pub signals: Signals,
    /// Resubmissions and recirculations so far.
    pub passes: u32,
}

/// Requests of a pipeline. The last request of each kind counts.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Ends the pipeline.
    pub exit: bool,
    /// Field list to preserve.
    pub resubmit: Option<usize>,
    pub recirculate: Option<usize>,
    pub clone: Option<CloneRequest>,
    /// Bytes to send at most.
    pub truncate: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub struct CloneRequest {
    pub session: u16,
    pub fields: usize,
    pub from_ingress: bool,
}

impl PacketState {
    pub fn new(layout: &Layout) -> PacketState {
        PacketState {
            phv: Phv::new(layout),
            ..PacketState::default()
        }
    }

    /// Leaves the first `length` bytes. Headers stay whole until the packet leaves the switch.
    pub fn shorten(&mut self, length: Option<usize>) {
        let Some(length) = length.filter(|length| *length < self.len) else {
            return;
        };
        let headers = self.len.saturating_sub(self.payload.len());
        self.payload.truncate(length.saturating_sub(headers));
        self.len = length;
        if length < headers {
            self.signals.truncate = Some(length);
        }
    }

    pub fn validate(&mut self, layout: &Layout, header: HeaderIx) {
        self.resize(layout, header, |phv| phv.validate(layout, header));
    }

    pub fn invalidate(&mut self, layout: &Layout, header: HeaderIx) {
        self.resize(layout, header, |phv| phv.invalidate(header));
    }

    pub fn copy_header(&mut self, layout: &Layout, to: HeaderIx, from: HeaderIx) {
        self.resize(layout, to, |phv| phv.copy_header(layout, to, from));
    }

    /// Runs `change`, which affects `header` and its union only, and keeps the length right.
    pub fn resize(&mut self, layout: &Layout, header: HeaderIx, change: impl FnOnce(&mut Phv)) {
        let own = [header];
        let affected = match layout.headers[header].union {
            Some(union) => layout.unions[union].members.as_slice(),
            None => own.as_slice(),
        };
        self.resize_all(layout, affected, change);
    }

    pub fn resize_all(
        &mut self,
        layout: &Layout,
        headers: &[HeaderIx],
        change: impl FnOnce(&mut Phv),
    ) {
        let before = wire_len(&self.phv, layout, headers);
        change(&mut self.phv);
        self.len = (self.len + wire_len(&self.phv, layout, headers)).saturating_sub(before);
    }
}

fn wire_len(phv: &Phv, layout: &Layout, headers: &[HeaderIx]) -> usize {
    let valid = headers.iter().filter(|header| phv.is_valid(**header));
    valid.map(|header| phv.header_len(layout, *header)).sum()
}
